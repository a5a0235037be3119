"""SecAgg with X25519 and ChaCha20: the same sums, keys that come out of shares, and messages that are garbled."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmarks.garbled import Garbled, accepted, garbling
from fedjax_priv import systems
from fedjax_priv.crypto import x25519
from fedjax_priv.crypto.agreement import X25519
from fedjax_priv.crypto.prg import chacha20, expand
from fedjax_priv.layers import pairwise_masks, plain_field
from fedjax_priv.status import Status
from fedjax_priv.testing import layer_round
from helpers import (
    QUICK,
    Q,
    cohort_of,
    mesh_of,
    refuses,
    same_bits,
    survivors,
    targets,
    towards_target,
    uniform,
)

pytest.importorskip("cryptography")
REAL = {"key_agreement": "x25519", "prg": "chacha20"}
N, D = 7, 2048
KEY = jax.random.key(3)
GROUP = np.array([0, 1, 0, 0, 1, 0, 1])
WHO = cohort_of(N, round=5, group=GROUP.tolist())
X = np.random.default_rng(0).integers(0, Q, (N, D), dtype=np.uint32)
HOLDERS = 4
LAYER = pairwise_masks(2, group_size=HOLDERS, threshold=2, **REAL)


@functools.partial(jax.jit, compiler_options=QUICK)
def played(x, alive, online, garbled, byzantine):
    who = WHO._replace(byzantine=byzantine)
    outcome = layer_round(garbling(LAYER, garbled, X25519), KEY, x, who, alive, online)
    return outcome, accepted(outcome, who)


def play(x=X, lost=(), gone=(), byzantine=(), **garbled):
    nothing = {"key": np.zeros((N, 8)), "commitment": np.zeros((N, 8)), "shares": np.zeros((N, HOLDERS, 16))}
    garbled = Garbled(**{name: np.asarray(a, np.uint32) for name, a in (nothing | garbled).items()})
    alive, online = survivors(N, lost), survivors(N, [*lost, *gone])
    return played(x, alive, online, garbled, ~survivors(N, byzantine))


def total(group, lost=()):
    rows = (group == GROUP) & ~np.isin(np.arange(N), lost)
    return X[rows].astype(object).sum(0) % Q


def sums(outcome):
    return np.asarray(outcome["received"].value)


def test_sums_are_those_in_the_clear_whoever_survives():
    rng, recovered = np.random.default_rng(1), 0
    for _ in range(30):
        lost = np.flatnonzero(rng.random(N) < 0.3)
        gone = np.setdiff1d(np.flatnonzero(rng.random(N) < 0.15), lost)
        outcome, taken = play(lost=lost, gone=gone)
        answers = [np.sum((g == GROUP) & ~np.isin(np.arange(N), [*lost, *gone])) for g in (0, 1)]
        assert np.asarray(taken).tolist() == [number >= 2 for number in answers]
        for group in np.flatnonzero(taken):
            assert (sums(outcome)[group] == total(group, lost)).all()
            recovered += 1
    assert recovered > 40


def words(seed):
    return np.frombuffer(seed, "<u4").astype(np.uint32)


def test_an_upload_is_masked_with_keys_of_x25519_and_words_of_chacha20():
    """Client 2 of group 0, whose pairs come from the host's functions alone; 0 is before it, 3 and 5 behind."""
    outcome, _ = play()
    keys = [x25519.own_keys(row.astype("<u4").tobytes()) for row in np.asarray(outcome["private"].key)]
    assert same_bits(np.asarray(outcome["public"].key), np.stack([words(public) for _, public in keys]))
    stream = jax.jit(lambda seed, purpose: expand(seed, purpose, 5, D, chacha20), static_argnums=1)
    mask = lambda seed, purpose="pairwise mask": np.asarray(stream(jnp.asarray(seed), purpose)).astype(object)
    pair = lambda other: mask(words(x25519.pair_seed(*keys[2], keys[other][1], (5).to_bytes(4, "big"))))
    expected = X[2] + mask(outcome["private"].seed[2], "private mask") + pair(3) + pair(5) - pair(0)
    assert (np.asarray(outcome["upload"][2]) == expected % Q).all()


def test_uploads_are_uniform_whatever_the_update_and_sizes_are_those_of_256_bits():
    outcome, _ = play(np.full((N, D), 123_456_789, np.uint32))
    assert all(uniform(row, bits=5) for row in np.asarray(outcome["upload"]))
    bits = outcome["bits"]
    assert bits["advertise"].up.tolist() == [512] * N  # a public key and a commitment, 256 bits each
    assert bits["advertise"].down.tolist() == [256 * (3 if g == 0 else 2) for g in GROUP]
    assert bits["share"].up.tolist() == [512 * (3 if g == 0 else 2) for g in GROUP]  # of two secrets of 256 bits
    assert bits["unmask"].up.tolist() == [256 * (4 if g == 0 else 3) for g in GROUP]


def test_the_key_of_a_lost_client_comes_out_of_its_shares():
    """The server has nothing else: with wrong shares of it the group is lost, and the other one is not."""
    outcome, taken = play(lost=[2])
    assert np.asarray(taken).all() and (sums(outcome)[0] == total(0, [2])).all()
    wrong = np.zeros((N, HOLDERS, 16))
    wrong[:, :, 7] = 1  # the last word of every share of a key
    outcome, taken = play(lost=[2], shares=wrong)
    assert np.asarray(taken).tolist() == [False, True]
    assert outcome["received"].status.tolist() == [Status.WRONG_SHARES, 0]
    assert not (sums(outcome)[0] == total(0, [2])).any()
    assert np.asarray(play(shares=wrong)[1]).all(), "without a lost client no key is opened"


@pytest.mark.parametrize("lost", [[], [0]], ids=["alive", "lost"])
@pytest.mark.parametrize("what", ["key", "commitment", "shares"])
def test_a_garbled_message_costs_its_group_and_no_other(what, lost):
    """A bit of the key or of the commitment of client 0, or one of every key and seed that client 2 holds shares of."""
    garbled = np.zeros({"shares": (N, HOLDERS, 16)}.get(what, (N, 8)))
    if what == "shares":
        garbled[2, :, 7::8] = 1
    else:
        garbled[0, 3] = 1 << 20
    outcome, taken = play(lost=lost, **{what: garbled})
    unused = what == "commitment" and bool(lost)  # of a lost client's seed, which is not opened
    assert np.asarray(taken).tolist() == [unused, True]
    assert (sums(outcome)[1] == total(1)).all()
    bits = np.asarray(outcome["sent"].status) | np.asarray(outcome["received"].status)[GROUP]
    assert set(bits[GROUP == 0]) <= {0, int(Status.WRONG_SHARES)} and (bits[GROUP == 0].any() or unused)


def test_nobody_notices_a_key_that_its_owner_garbles():
    """A client that lies does not report itself: its group is lost in noise, the other one is not."""
    garbled = np.zeros((N, 8))
    garbled[0, 3] = 1
    outcome, taken = play(np.zeros((N, D), np.uint32), byzantine=[0], key=garbled)
    assert np.asarray(taken).all()
    assert uniform(sums(outcome)[0], bits=5) and not sums(outcome)[1].any()


def test_a_system_gives_the_same_bits_on_two_devices_as_in_the_clear_on_one():
    data, n, d = targets(6, 5), 6, 5
    step = lambda **how: _step(systems.secagg(towards_target(), num_clients=n, dropout=0.3, **how), data, d)
    real, plain = step(mesh=mesh_of(2), block=2, **REAL), step(mesh=None, secure_sum=plain_field())
    assert int(real.status) == 0 and 2 <= int(real.counted.sum()) < n
    assert same_bits(jax.device_get(real.direction), jax.device_get(plain.direction))


def _step(system, data, d):
    state = system.init(KEY, jnp.zeros(d), data)
    return jax.jit(system.step, compiler_options=QUICK)(KEY, state, data)[1]


test_bad_arguments = refuses(
    lambda make: make(),
    (
        lambda: pairwise_masks(group_size=4, key_agreement="x25519"),
        "prg must be 'chacha20' with key_agreement",
    ),
    (lambda: pairwise_masks(group_size=1001, **REAL), "group_size must be at most 1000 with key_agreement='x25519'"),
)
