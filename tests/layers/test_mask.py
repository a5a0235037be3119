"""SecAgg: what is sent, what is opened, what the server can see; each with a broken protocol that must be caught."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.key_agreement import shared_seed
from fedjax_priv.crypto.prg import Prg, expand, philox, threefry
from fedjax_priv.layers.mask import pairwise_masks
from fedjax_priv.layers.plain import plain_field
from fedjax_priv.status import Status
from helpers import Q, chi_square, cohort_of, run_layer, same_bits, survivors

N, D = 6, 4096
KEY = jax.random.key(3)
WHO = cohort_of(N, round=5)


def without(purpose):
    """A generator that is silent for one purpose."""
    return Prg(lambda seed, asked, round, d: philox.words(seed, asked, round, d) * np.uint32(asked != purpose))


def field_inputs(seed=0, n=N, d=D):
    return jnp.asarray(np.random.default_rng(seed).integers(0, Q, (n, d), dtype=np.uint32))


def uniform(words):
    """Whether field elements pass a chi-square test of uniformity (at 1e-6), on their 8 highest bits."""
    return chi_square(np.bincount(np.asarray(words).astype(np.int64) >> 24, minlength=256), len(words) / 256)[1] > 1e-6


def test_upload_is_the_formula_of_the_paper():
    """Eq. 9, term by term in Python integers; the signs cancel between the two users of a pair."""
    x = field_inputs(d=40)
    for prg in (philox, threefry):
        result = run_layer(pairwise_masks(group_size=N, prg=prg), KEY, x, WHO, survivors(N))
        private, roster = result["private"], result["public"]
        mask = lambda seed, purpose, prg=prg: np.asarray(expand(seed, purpose, 5, 40, prg)).astype(object)
        for i in range(N):
            total = np.asarray(x[i]).astype(object) + mask(private.seed[i], "private mask")
            for j in set(range(N)) - {i}:
                pairwise = mask(shared_seed(private.key[i], roster.key[j]), "pairwise mask")
                total += pairwise if j > i else -pairwise
            assert (np.asarray(result["upload"][i]) == total % Q).all()


def test_before_shares_are_opened_an_upload_is_uniform_whatever_the_update():
    for value in (0, 123_456_789):
        x = jnp.full((N, D), value, jnp.uint32)
        masked = run_layer(pairwise_masks(group_size=N), KEY, x, WHO, survivors(N))["upload"]
        assert all(uniform(row) for row in masked)
        assert uniform(np.asarray(masked).astype(object).sum(0) % Q), "the sum hides behind the private masks"
        assert not uniform(plain_field().encode(KEY, (), (), x, WHO)[0][0])
    no_private = run_layer(pairwise_masks(group_size=N, prg=without("private mask")), KEY, x, WHO, survivors(N))
    assert not uniform(np.asarray(no_private["upload"]).astype(object).sum(0) % Q)


@pytest.mark.parametrize("broken", [False, True])
def test_after_shares_are_opened_the_server_learns_the_sum_and_no_more(broken):
    """It takes the opened private masks off each upload: only sums over all survivors stop being uniform."""
    prg = without("pairwise mask") if broken else philox
    alive = survivors(N, [2])
    x = jnp.full((N, D), 77, jnp.uint32)
    result = run_layer(pairwise_masks(group_size=N, prg=prg), KEY, x, WHO, alive)
    assert (result["received"].value == 77 * (N - 1)).all()
    private = jax.vmap(lambda seed: expand(seed, "private mask", 5, D, prg))(result["private"].seed)
    residual = np.asarray(result["upload"]).astype(object) - np.asarray(private)
    residual = residual[np.asarray(alive)] % Q
    parts = [residual[0], residual[3], residual[:2].sum(0) % Q, residual[1:].sum(0) % Q]
    assert [uniform(part) for part in parts] == [not broken] * len(parts)


def junk_like(key, a):
    return expand(jax.random.bits(key, (2,), jnp.uint32), "junk", 0, a.size).reshape(a.shape)


def spoilt(alive, online, opened):
    """Junk in what is not opened (or, `opened`, only in what is) once the uploads are sent."""

    def spoil(private):
        junk = junk_like(jax.random.key(99), private.shares)
        is_key = jnp.arange(4)[None, None, :] < 2
        shown = online[:, None, None] & (is_key != alive[None, :, None])
        if opened:
            return private._replace(shares=jnp.where(shown, junk, private.shares))
        return private._replace(
            key=junk_like(KEY, private.key), seed=junk_like(KEY, private.seed),
            shares=jnp.where(shown, private.shares, junk),
        )  # fmt: skip

    return spoil


@pytest.mark.parametrize("lost", [[], [4]])
def test_the_server_reads_survivors_shares_only(lost):
    """Law 10: junk in all that is not opened changes nothing; junk in what is opened does."""
    layer, x = pairwise_masks(group_size=N), field_inputs(d=50)
    alive = survivors(N, lost)
    online = alive & survivors(N, [1])
    result, closed, wrong = (
        run_layer(layer, KEY, x, WHO, alive, online, spoil)
        for spoil in (None, spoilt(alive, online, False), spoilt(alive, online, True))
    )
    plain = np.asarray(x)[np.asarray(alive)].astype(object).sum(0) % Q
    assert (np.asarray(result["received"].value[0]) == plain).all()
    assert same_bits((result["received"], result["header"]), (closed["received"], closed["header"]))
    assert not same_bits(result["received"].value, wrong["received"].value)


def test_never_both_kinds_of_share_of_one_user():
    alive = survivors(N, [1, 4])
    result = run_layer(pairwise_masks(group_size=N), KEY, field_inputs(d=9), WHO, alive)
    shares, opened = result["private"].shares, result["header"].shares
    for owner in range(N):
        key, seed = (jnp.where(alive[:, None], s, 0) for s in (shares[:, owner, :2], shares[:, owner, 2:]))
        assert same_bits(opened[:, owner], seed if alive[owner] else key)
        assert not (opened[:, owner] == (key if alive[owner] else seed))[np.asarray(alive)].any()


def test_fewer_survivors_than_the_threshold_open_nothing():
    layer, x = pairwise_masks(2, group_size=3, threshold=2), field_inputs(d=9)
    who = cohort_of(N, group=[0, 1, 0, 1, 0, 1])
    result = run_layer(layer, KEY, x, who, survivors(N, [0, 2]))
    assert result["received"].count.tolist() == [0, 3]
    assert not result["header"].shares[:, ::2].any()
    assert not result["header"].shares[::2].any()
    assert result["header"].shares[1::2, 1::2].all()


@pytest.mark.parametrize(("gone", "recovered"), [([0], True), ([0, 3], True), ([0, 3, 5], False)])
def test_a_user_may_upload_and_leave_before_disclosure(gone, recovered):
    """Two survivor sets: its upload still counts, if those who stay hold enough shares (4 of 6)."""
    x, alive = field_inputs(d=9), survivors(N)
    result = run_layer(pairwise_masks(group_size=N), KEY, x, WHO, alive, survivors(N, gone))
    assert result["received"].count.tolist() == [N if recovered else 0]
    exact = np.asarray(result["received"].value[0]) == np.asarray(x).astype(object).sum(0) % Q
    assert exact.all() == recovered


def test_a_group_larger_than_it_was_made_for_sets_its_bit():
    who = cohort_of(N, group=[0, 0, 0, 0, 1, 1])
    sent = run_layer(pairwise_masks(2, group_size=3), KEY, field_inputs(d=9), who, survivors(N))["sent"]
    assert sent.status.tolist() == [Status.CAP_OVERFLOW] * 4 + [0, 0]


def test_keys_are_new_each_round():
    """A key opened in one round must not mask in another."""
    x = field_inputs(d=9)
    open_ = lambda t: run_layer(
        pairwise_masks(group_size=N), jax.random.fold_in(KEY, t), x, cohort_of(N, round=t), survivors(N)
    )["private"]
    first, second = open_(0), open_(1)
    for a, b in ((first.key, second.key), (first.seed, second.seed), (first.shares, second.shares)):
        assert not (a == b).any()


def test_a_user_that_is_not_selected_neither_masks_nor_shares():
    who = WHO._replace(selected=survivors(N, [2]))
    x = field_inputs(d=9)
    result = run_layer(pairwise_masks(group_size=N, threshold=3), KEY, x, who, who.selected)
    assert (np.asarray(result["received"].value[0]) == np.delete(np.asarray(x), 2, 0).astype(object).sum(0) % Q).all()
    assert not result["private"].shares[2].any()
    assert not result["private"].shares[:, 2].any()
    assert not any(link.up[2] | link.down[2] for link in result["bits"].values())


def test_bits_of_each_phase():
    """Keys are two words; a share of two secrets is four; opened shares are two; survivors are a bitmap."""
    alive, online = survivors(N, [2]), survivors(N, [2, 3])
    bits = run_layer(pairwise_masks(group_size=N), KEY, field_inputs(d=9), WHO, alive, online)["bits"]
    alive, online = np.asarray(alive), np.asarray(online)
    expected = {
        "advertise": (np.full(N, 64), np.full(N, 64 * (N - 1))),
        "share": (np.full(N, 128 * (N - 1)), np.full(N, 128 * (N - 1))),
        "unmask": (64 * N * online, 8 * alive),
    }
    assert bits.keys() == expected.keys()
    for phase, (up, down) in expected.items():
        assert bits[phase].up.tolist() == up.tolist()
        assert bits[phase].down.tolist() == down.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_size": 1}, "group_size must be an integer >= 2"),
        ({"group_size": 4, "threshold": 1}, "threshold must be an integer >= 2"),
        ({"group_size": 4, "threshold": 5}, "threshold must be at most group_size = 4"),
        ({"num_groups": 0, "group_size": 4}, "num_groups must be an integer >= 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        pairwise_masks(**arguments)
