"""SecAgg: what is sent, what is opened, what the server can see; each with a broken protocol that must be caught."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto import field, shamir
from fedjax_priv.crypto.key_agreement import shared_seed
from fedjax_priv.crypto.prg import Prg, expand, philox, threefry
from fedjax_priv.layers.mask import pairwise_masks
from fedjax_priv.layers.plain import plain_field
from fedjax_priv.status import Status
from helpers import Q, chi_square, cohort_of, run_layer, same_bits, survivors

N, D, LONG = 6, 40, 4096
KEY = jax.random.key(3)
WHO = cohort_of(N, round=5)
LAYER = pairwise_masks(group_size=N)


def without(purpose):
    """A generator that is silent for one purpose."""
    return Prg(lambda seed, asked, round, d: philox.words(seed, asked, round, d) * np.uint32(asked != purpose))


def field_inputs(d=D):
    return jnp.asarray(np.random.default_rng(0).integers(0, Q, (N, d), dtype=np.uint32))


X = field_inputs()


def run(layer=LAYER, x=X, who=WHO, lost=(), gone=(), key=KEY, spoil=None):
    """A round in which `lost` do not upload, and `gone` of the others leave before disclosure."""
    alive = survivors(N, lost)
    return run_layer(layer, key, x, who, alive, alive & survivors(N, gone), spoil)


def total(x, alive=slice(None)):
    return np.asarray(x)[alive].astype(object).sum(0) % Q


def uniform(words):
    """Whether field elements pass a chi-square test of uniformity (at 1e-6), on their 8 highest bits."""
    return chi_square(np.bincount(np.asarray(words).astype(np.int64) >> 24, minlength=256), len(words) / 256)[1] > 1e-6


@pytest.mark.parametrize("prg", [philox, threefry])
def test_upload_is_the_formula_of_the_paper(prg):
    """Eq. 9, term by term in Python integers; the signs cancel between the two users of a pair."""
    result = run(LAYER if prg is philox else pairwise_masks(group_size=N, prg=prg))
    private, roster = result["private"], result["public"]

    @jax.jit
    def masks(secret, seed, public):
        word = lambda seed, purpose: expand(seed, purpose, 5, D, prg)
        pair = lambda secret, public: word(shared_seed(secret, public), "pairwise mask")
        return (
            jax.vmap(lambda seed: word(seed, "private mask"))(seed),
            jax.vmap(jax.vmap(pair, (None, 0)), (0, None))(secret, public),
        )

    own, pairwise = (np.asarray(a).astype(object) for a in masks(private.key, private.seed, roster.key))
    for i in range(N):
        upload = np.asarray(X[i]).astype(object) + own[i]
        for j in set(range(N)) - {i}:
            upload += pairwise[i, j] if j > i else -pairwise[i, j]
        assert (np.asarray(result["upload"][i]) == upload % Q).all()


def test_before_shares_are_opened_an_upload_is_uniform_whatever_the_update():
    for value in (0, 123_456_789):
        x = jnp.full((N, LONG), value, jnp.uint32)
        masked = run(x=x)["upload"]
        assert all(uniform(row) for row in masked)
        assert uniform(total(masked)), "the sum hides behind the private masks"
        assert not uniform(plain_field().encode(KEY, (), (), x, WHO)[0][0])
    assert not uniform(total(run(pairwise_masks(group_size=N, prg=without("private mask")), x)["upload"]))


@pytest.mark.parametrize("broken", [False, True])
def test_after_shares_are_opened_the_server_learns_the_sum_and_no_more(broken):
    """It takes the opened private masks off each upload: only sums over all survivors stop being uniform."""
    prg = without("pairwise mask") if broken else philox
    x, alive = jnp.full((N, LONG), 77, jnp.uint32), np.asarray(survivors(N, [2]))
    result = run(pairwise_masks(group_size=N, prg=prg) if broken else LAYER, x, lost=[2])
    assert (result["received"].value == 77 * (N - 1)).all()
    private = jax.jit(jax.vmap(lambda seed: expand(seed, "private mask", 5, LONG, prg)))(result["private"].seed)
    residual = (np.asarray(result["upload"]).astype(object) - np.asarray(private))[alive] % Q
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
    alive = survivors(N, lost)
    online = alive & survivors(N, [1])
    result, closed, wrong = (
        run(lost=lost, gone=[1], spoil=spoil)
        for spoil in (None, spoilt(alive, online, False), spoilt(alive, online, True))
    )
    assert (np.asarray(result["received"].value[0]) == total(X, np.asarray(alive))).all()
    assert same_bits((result["received"], result["header"]), (closed["received"], closed["header"]))
    assert not same_bits(result["received"].value, wrong["received"].value)


def test_never_both_kinds_of_share_of_one_user():
    alive = survivors(N, [1, 4])
    result = run(lost=[1, 4])
    shares, opened = result["private"].shares, result["header"].shares
    for owner in range(N):
        key, seed = (jnp.where(alive[:, None], s, 0) for s in (shares[:, owner, :2], shares[:, owner, 2:]))
        assert same_bits(opened[:, owner], seed if alive[owner] else key)
        assert not (opened[:, owner] == (key if alive[owner] else seed))[np.asarray(alive)].any()


def test_fewer_survivors_than_the_threshold_open_nothing():
    who = cohort_of(N, group=[0, 1, 0, 1, 0, 1])
    result = run(pairwise_masks(2, group_size=3, threshold=2), who=who, lost=[0, 2])
    assert result["received"].count.tolist() == [0, 3]
    assert not result["header"].shares[:, ::2].any()
    assert not result["header"].shares[::2].any()
    assert result["header"].shares[1::2, 1::2].all()


@pytest.mark.parametrize(("gone", "recovered"), [([0], True), ([0, 3], True), ([0, 3, 5], False)])
def test_a_user_may_upload_and_leave_before_disclosure(gone, recovered):
    """Two survivor sets: its upload still counts, if those who stay hold enough shares (4 of 6)."""
    result = run(gone=gone)
    received = result["received"]
    assert (result["bits"]["unmask"].up > 0).tolist() == survivors(N, gone).tolist(), (
        "those who stay answer all the same"
    )
    assert received.count.tolist() == [N if recovered else 0]
    assert (np.asarray(received.value[0]) == total(X)).all() == recovered


def test_a_group_larger_than_it_was_made_for_sets_its_bit():
    who = cohort_of(N, group=[0, 0, 0, 0, 1, 1])
    sent = run(pairwise_masks(2, group_size=3), who=who)["sent"]
    assert sent.status.tolist() == [Status.CAP_OVERFLOW] * 4 + [0, 0]


def test_keys_are_new_each_round():
    """A key opened in one round must not mask in another."""
    first, second = (run(key=jax.random.fold_in(KEY, t), who=cohort_of(N, round=t))["private"] for t in (0, 1))
    for a, b in ((first.key, second.key), (first.seed, second.seed), (first.shares, second.shares)):
        assert not (a == b).any()


def test_as_many_shares_as_the_threshold_reconstruct_and_one_fewer_do_not():
    private = run()["private"]
    secrets = jnp.concatenate([private.key, private.seed], 1)
    for holders, enough in (([0, 2, 3, 5], True), ([0, 2, 3], False)):
        weights = shamir.lagrange_weights(jnp.zeros(N, bool).at[jnp.array(holders)].set(True))
        assert (shamir.reconstruct(private.shares, weights) == secrets).all() == enough
        assert (shamir.reconstruct(private.shares, weights) == secrets).any() == enough


def test_secrets_come_from_a_client_s_number_and_polynomials_from_the_round():
    somewhere = WHO._replace(client=jnp.array([9, 0, 7, 3, 8, 1]))
    first, other = run()["private"], run(who=somewhere)["private"]
    assert same_bits((first.key[3], first.seed[3]), (other.key[3], other.seed[3]))
    assert same_bits((first.key[0], first.seed[0]), (other.key[1], other.seed[1]))
    again = run(key=jax.random.fold_in(KEY, 1))["private"]
    slope = lambda private: field.sub(private.shares[1], private.shares[0])  # does not depend on the secret
    assert not (slope(first) == slope(again)).any()


def test_the_secrets_of_users_and_their_polynomials_are_their_own():
    private = run()["private"]
    for secret in (private.key, private.seed, private.shares[0], private.shares[:, 0]):
        assert len(np.unique(np.asarray(secret))) == secret.size


def test_a_user_that_is_not_selected_neither_masks_nor_shares():
    who = WHO._replace(selected=survivors(N, [2]))
    result = run(pairwise_masks(group_size=N, threshold=3), who=who, lost=[2])
    assert (np.asarray(result["received"].value[0]) == total(X, np.asarray(who.selected))).all()
    assert not result["private"].shares[2].any()
    assert not result["private"].shares[:, 2].any()
    assert not any(link.up[2] | link.down[2] for link in result["bits"].values())
    assert result["bits"]["advertise"].down.tolist() == [64 * 4, 64 * 4, 0, 64 * 4, 64 * 4, 64 * 4]


def test_bits_of_each_phase():
    """Keys are two words; a share of two secrets is four; opened shares are two; survivors are a bitmap."""
    bits = run(lost=[2], gone=[3])["bits"]
    alive, online = (np.asarray(survivors(N, away)) for away in ([2], [2, 3]))
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
