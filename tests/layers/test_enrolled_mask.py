import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.agreement import SIMULATED
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.crypto.prg import philox
from fedjax_priv.layers import enrolled_masks
from fedjax_priv.layers.enrolled_mask import Agreed, _masks, _round_keys
from fedjax_priv.layers.secure_sum.expansion import whole
from helpers import Q, agreed_seeds, cohort_of, refuses, run_layer, same_bits, survivors, uniform

KEY = jax.random.key(12)
N, D = 6, 40
X = np.random.default_rng(3).integers(0, Q, (N, D), dtype=np.uint32)
LAYER = enrolled_masks(group_size=N)


@functools.cache
def population():
    return jax.tree.map(np.asarray, jax.jit(lambda: LAYER.init(KEY, 10))())


def members(chosen, round=0):
    """A cohort of some of a population, and what they keep of their enrolment."""
    state = jax.tree.map(lambda a: jnp.asarray(a[np.array(chosen)]), population())
    who = cohort_of(len(chosen), round=round)._replace(client=jnp.asarray(chosen))
    return state, who


@jax.jit
def round_of(state, who, x, alive, online):
    private, public, opening = LAYER.advertise(KEY, state, who)
    y, kept, sent = LAYER.encode(KEY, private, public, x, who)
    header, closing = LAYER.disclose(private, public, sent.clear, alive, online)
    received = LAYER.decode(header, public, LAYER.combine.lower(LAYER.combine.lift(y, alive, who.group)))
    return y, kept, header, received, {**opening, **closing}, public


def total(x):
    return x.astype(object).sum(0) % Q


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3, 4, 5], [9, 1, 4, 2, 7, 3]])
@pytest.mark.parametrize("lost", [[], [0], [5, 2], [1, 2, 3, 4]])
def test_masks_of_any_set_cancel_over_its_survivors(chosen, lost):
    state, who = members(chosen)
    alive = survivors(N, lost)
    *_, received, _, _ = round_of(state, who, X, alive, alive)
    assert received.count.tolist() == [N - len(lost)]
    assert (np.asarray(received.value[0]) == total(X[np.asarray(alive)])).all()


def test_an_enrolment_lasts_and_a_round_uses_its_masks_once():
    alive = survivors(N)
    state, who = members(range(N))
    y, kept, *_ = round_of(state, who, X, alive, alive)
    again, later, *_ = round_of(kept, who._replace(round=who.round + 1), X, alive, alive)
    assert same_bits(kept, state) and same_bits(later, state)
    masks = [(np.asarray(rows).astype(object) - X) % Q for rows in (y, again)]
    assert (masks[0] != masks[1]).mean() > 0.99  # what is equal would show the difference of two uploads


def test_an_upload_is_uniform_whatever_the_update():
    layer = enrolled_masks(group_size=2)
    x = jnp.zeros((2, 40_000), jnp.uint32)
    y = run_layer(layer, KEY, x, cohort_of(2), survivors(2))["upload"]
    assert uniform(y[0]) and not uniform(x[0])


def test_all_but_two_that_collude_read_the_sum_of_the_two():
    """They take off the masks that they share with each; the mask of the two is known to nobody else."""
    layer, d = enrolled_masks(group_size=4), 2048
    result = run_layer(layer, KEY, jnp.zeros((4, d), jnp.uint32), cohort_of(4), survivors(4))

    @jax.jit
    def left():
        agreed = Agreed(4, 2, philox, whole(philox, elide=False, modulus=FIELD), False, FIELD, SIMULATED)
        keys = _round_keys(agreed, result["private"], result["public"])[:, :2]  # of colluders with the two
        slot, known = jnp.arange(2), jnp.broadcast_to(jnp.arange(4) >= 2, (2, 4))
        shared = jnp.swapaxes(keys, 0, 1)
        return FIELD.sub(result["upload"][:2], _masks(agreed, result["public"], slot, shared, known, d))

    one, other = np.asarray(left()).astype(object)
    assert layer.sums.opened_by == 4 and uniform(one) and uniform(other) and not ((one + other) % Q).any()


def test_survivors_open_keys_of_the_round_and_never_a_seed():
    state, who = members(range(N), round=3)
    alive = survivors(N, [1, 4])
    _, _, header, _, bits, public = round_of(state, who, X, alive, alive)
    opened = np.asarray(header.keys).any(2)
    expected = np.asarray(alive)[:, None] & ~np.asarray(alive)[None, :]
    assert (opened == expected).all()
    seeds = np.asarray(agreed_seeds(state.secret[:, None], state.public[None]))
    secrets = {tuple(row) for row in np.concatenate([seeds.reshape(-1, 2), np.asarray(state.secret)])}
    seen = [np.asarray(leaf) for leaf in jax.tree.leaves((header, public)) if np.shape(leaf)[-1:] == (2,)]
    assert not secrets & {tuple(row) for leaf in seen for row in leaf.reshape(-1, 2)}
    assert bits["unmask"].up.tolist() == [128 * int(a) for a in alive]  # two keys of 64 bits
    assert bits["unmask"].down.tolist() == [64 * int(a) for a in alive]
    assert bits["advertise"].down.tolist() == [32 * (N - 1)] * N and not np.asarray(bits["advertise"].up).any()


def test_a_survivor_that_is_gone_fails_a_round_with_losses_only():
    state, who = members(range(N))
    online = survivors(N, [1, 4])
    _, _, header, failed, _, _ = round_of(state, who, X, survivors(N, [1]), online)
    *_, fine, _, _ = round_of(state, who, X, survivors(N), survivors(N, [4]))
    assert failed.count.tolist() == [0] and fine.count.tolist() == [N]
    assert np.asarray(header.keys).any(2).sum() == N - 2 and not np.asarray(header.keys[4]).any()


def test_the_update_of_a_single_survivor_stays_closed():
    state, who = members(range(N))
    alive = survivors(N, [0, 1, 2, 4, 5])
    y, _, header, received, _, _ = round_of(state, who, X, alive, alive)
    assert received.count.tolist() == [0] and not np.asarray(header.keys).any()
    assert (np.asarray(y[3]) != X[3]).all()


def test_elided_masks_give_the_same_sum():
    alive = survivors(N, [2])
    masked, plain = (
        run_layer(enrolled_masks(group_size=N, elide=elide), KEY, jnp.asarray(X), cohort_of(N), alive)
        for elide in (False, True)
    )
    assert same_bits(masked["received"], plain["received"]) and same_bits(masked["bits"], plain["bits"])
    assert (np.asarray(plain["upload"]) == X).all() and (np.asarray(masked["upload"]) != X).any()


def test_members_that_do_not_take_part_are_no_peers():
    """Masks cancel over those that were asked, less the lost."""
    state, who = members(range(N))
    who = who._replace(selected=survivors(N, [0, 3]))
    alive = survivors(N, [0, 3, 5])
    _, _, header, received, bits, _ = round_of(state, who, X, alive, alive)
    assert received.count.tolist() == [3]
    assert (np.asarray(received.value[0]) == total(X[np.asarray(alive)])).all()
    opened = np.asarray(header.keys).any(2)
    assert (opened == np.asarray(alive)[:, None] & (np.arange(N) == 5)).all()
    assert bits["advertise"].down.tolist() == [0, 96, 96, 0, 96, 96]


def test_a_member_that_is_asked_alone_sends_nothing():
    state, who = members(range(N))
    who = who._replace(selected=jnp.arange(N) == 2)
    y, *_, received, _, _ = round_of(state, who, X, who.selected, who.selected)
    assert not np.asarray(y).any() and received.count.tolist() == [0]


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: enrolled_masks(group_size=1), "group_size must be an integer >= 2, got 1"),
    (lambda: enrolled_masks(group_size=4, threshold=1), "threshold must be an integer >= 2, got 1"),
    (lambda: enrolled_masks(group_size=4, threshold=5), "threshold must be at most group_size = 4, got 5"),
    (
        lambda: run_layer(enrolled_masks(group_size=2), KEY, jnp.asarray(X), cohort_of(N), survivors(N)),
        "group_size must be at least the size of the cohort, 6, got 2",
    ),
    (
        lambda: run_layer(enrolled_masks(group_size=2), KEY, jnp.asarray(X[:1]), cohort_of(1), survivors(1)),
        "threshold must be at most the size of the cohort, 1, got 2",
    ),
)
