"""SecAgg and SecAgg+: what is sent and what the server can see; each with a broken protocol that must be caught.

Layers are few and runs of one shape, as most of the time goes into compiling them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.key_agreement import shared_seeds
from fedjax_priv.crypto.prg import expand, philox, threefry
from fedjax_priv.layers.mask import pairwise_masks
from fedjax_priv.layers.masked_sum import ELIDED
from fedjax_priv.layers.plain import plain_field
from fedjax_priv.status import Status
from helpers import Q, cohort_of, neighbours_of, run_layer, same_bits, silent, survivors, uniform

N, D = 7, 4096
KEY = jax.random.key(3)
WHO = cohort_of(N, round=5)
LAYERS = {
    "complete": pairwise_masks(group_size=N),
    "k-regular": pairwise_masks(group_size=N, neighbours=4, threshold=2),
}
X = jnp.asarray(np.random.default_rng(0).integers(0, Q, (N, D), dtype=np.uint32))


def run(layer, x=X, who=WHO, lost=(), gone=(), key=KEY):
    """A round in which `lost` do not upload, and `gone` of the others leave before disclosure."""
    alive = survivors(N, lost) & who.selected
    return run_layer(layer, key, x, who, alive, alive & survivors(N, gone))


def total(x, alive=slice(None)):
    return np.asarray(x)[alive].astype(object).sum(0) % Q


@pytest.mark.parametrize(
    ("layer", "degree", "prg"),
    [
        (LAYERS["complete"], 6, philox),
        (LAYERS["k-regular"], 4, philox),
        (pairwise_masks(group_size=N, prg=threefry), 6, threefry),
    ],
)
def test_upload_is_the_formula_of_the_paper(layer, degree, prg):
    """Eq. 9 over neighbours, term by term in Python integers; the signs cancel between the two users of a pair."""
    result = run(layer)
    private, roster = result["private"], result["public"]

    @jax.jit
    def masks(secret, seed, public):
        word = lambda seed, purpose: expand(seed, purpose, 5, D, prg)
        pair = jax.vmap(lambda seed: word(seed, "pairwise mask"))
        return (
            jax.vmap(lambda seed: word(seed, "private mask"))(seed),
            jax.vmap(lambda secret: pair(shared_seeds(secret, public)))(secret),
        )

    own, pairwise = (np.asarray(a).astype(object) for a in masks(private.key, private.seed, roster.key))
    near = neighbours_of(roster.circle, degree)
    assert (near.sum(0) == degree).all()
    for i in range(N):
        upload = np.asarray(X[i]).astype(object) + own[i]
        for j in np.flatnonzero(near[i]):
            upload += pairwise[i, j] if j > i else -pairwise[i, j]
        assert (np.asarray(result["upload"][i]) == upload % Q).all()


@pytest.mark.parametrize("graph", LAYERS)
def test_the_sum_of_any_survivors_that_suffice(graph):
    """4 of 7 on the complete graph; two of each one's holders on the k-regular one."""
    rng, counts = np.random.default_rng(1), []
    for t in range(60):
        alive = rng.permutation(N) < rng.integers(4, N + 1)
        online = alive & (rng.random(N) < 0.9)
        received = run_layer(LAYERS[graph], jax.random.fold_in(KEY, t), X, WHO, *map(jnp.asarray, (alive, online)))[
            "received"
        ]
        assert (np.asarray(received.value[0]) == total(X, alive)).all() == (received.count[0] > 0)
        assert received.count[0] in (0, alive.sum())
        if graph == "complete":
            assert (received.count[0] > 0) == (online.sum() >= 4)
        counts.append(int(received.count[0]))
    assert np.count_nonzero(counts) >= 40


@pytest.mark.parametrize("graph", LAYERS)
def test_before_shares_are_opened_an_upload_is_uniform_whatever_the_update(graph):
    for value in (0, 123_456_789):
        x = jnp.full((N, D), value, jnp.uint32)
        masked = run(LAYERS[graph], x)["upload"]
        assert all(uniform(row) for row in masked)
        assert uniform(total(masked)), "the sum hides behind the private masks"
        assert not uniform(plain_field().encode(KEY, (), (), x, WHO)[0][0])


def test_without_private_masks_the_sum_does_not_hide():
    layer = pairwise_masks(group_size=N, prg=silent("private mask"))
    masked = run(layer, jnp.full((N, D), 123_456_789, jnp.uint32))["upload"]
    assert not uniform(total(masked))


SILENT = pairwise_masks(group_size=N, neighbours=4, threshold=2, prg=silent("pairwise mask"))


@pytest.mark.parametrize(
    ("layer", "broken"), [(LAYERS["complete"], False), (LAYERS["k-regular"], False), (SILENT, True)]
)
def test_after_shares_are_opened_the_server_learns_the_sum_and_no_more(layer, broken):
    """It takes the opened private masks off each upload: only sums over all survivors stop being uniform."""
    x, alive = jnp.full((N, D), 77, jnp.uint32), np.asarray(survivors(N, [2]))
    result = run(layer, x, lost=[2])
    assert (result["received"].value == 77 * (N - 1)).all()
    private = jax.jit(jax.vmap(lambda seed: expand(seed, "private mask", 5, D)))(result["private"].seed)
    residual = (np.asarray(result["upload"]).astype(object) - np.asarray(private))[alive] % Q
    parts = [residual[0], residual[3], residual[:2].sum(0) % Q, residual[1:].sum(0) % Q]
    assert [uniform(part) for part in parts] == [not broken] * len(parts)


@pytest.mark.parametrize("graph", LAYERS)
def test_a_user_that_is_not_selected_is_no_part_of_the_sum(graph):
    who = WHO._replace(selected=survivors(N, [2]))
    received = run(LAYERS[graph], who=who)["received"]
    assert (np.asarray(received.value[0]) == total(X, np.asarray(who.selected))).all()
    assert received.count.tolist() == [N - 1]


GROUPS = pairwise_masks(2, group_size=4, neighbours=2, threshold=2)


def test_groups_are_recovered_on_their_own():
    """The one of three is a complete graph by itself; with a survivor alone it is lost, and the other is not."""
    who = cohort_of(N, group=[0, 1, 0, 1, 0, 1, 1])
    mine = np.asarray(who.group) == 1
    for lost, counts in (([], [3, 4]), ([0], [2, 4]), ([0, 2], [0, 4])):
        received = run(GROUPS, who=who, lost=lost)["received"]
        assert received.count.tolist() == counts
        assert (np.asarray(received.value[1]) == total(X, mine)).all()
        alive = ~mine & np.asarray(survivors(N, lost))
        assert (np.asarray(received.value[0]) == total(X, alive)).all() == (counts[0] > 0)


def test_a_group_larger_than_it_was_made_for_sets_its_bit():
    sent = run(GROUPS, who=cohort_of(N, group=[0, 0, 0, 0, 1, 0, 1]))["sent"]
    assert sent.status.tolist() == [Status.CAP_OVERFLOW] * 4 + [0, Status.CAP_OVERFLOW, 0]


def test_elided_masks_change_neither_sum_nor_bits_and_say_so():
    layer = pairwise_masks(group_size=N, neighbours=4, threshold=2, elide=True)
    masked, elided = (run(one, lost=[1], gone=[2]) for one in (LAYERS["k-regular"], layer))
    assert masked["received"].count.tolist() == [N - 1]
    assert same_bits(*((one["received"], one["bits"], one["sent"], one["header"]) for one in (masked, elided)))
    assert same_bits(elided["upload"], X), "uploads are in the clear"
    assert not (masked["upload"] == X).any()
    assert layer.caveats == (ELIDED,)
    assert not LAYERS["k-regular"].caveats


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_size": 1}, "group_size must be an integer >= 2"),
        ({"group_size": 4, "threshold": 5}, "threshold must be at most group_size = 4"),
        ({"group_size": 4, "neighbours": 3}, "neighbours must be 'all' or an even integer below group_size = 4, got 3"),
        ({"num_groups": 0, "group_size": 4}, "num_groups must be an integer >= 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        pairwise_masks(**arguments)
