"""Who is scheduled how often, and at which gains."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.channels import rayleigh, recorded
from fedjax_priv.clients import best_gains, proportional_fair, round_robin
from fedjax_priv.clients.schedulers import _scheduled, _turn

K, ROUNDS = 20, 20_000
HARMONIC = (1 / np.arange(1, K + 1)).sum()
GROUPS = 10 ** (np.repeat([2.0, 10.0, 30.0], [7, 7, 6]) / 10)


def drawn(draw, n=K, rounds=ROUNDS):
    """`(client [rounds, r], gain [rounds, r])`."""

    def one(state, round):
        who, state = draw.apply(jax.random.fold_in(jax.random.key(5), round), state, round, jnp.ones(n, jnp.int32))
        return state, (who.client, who.gain)

    client, gain = jax.jit(lambda s: jax.lax.scan(one, s, jnp.arange(rounds))[1])(draw.init(jax.random.key(0), n))
    return np.asarray(client), np.asarray(gain, np.float64)


def heard(client):
    return np.bincount(client.ravel(), minlength=K) / len(client)


def test_turns():
    client, gain = drawn(round_robin(3, recorded(np.arange(1.0, 13).reshape(2, 6))), n=6, rounds=2)
    assert client.tolist() == [[0, 1, 2], [3, 4, 5]] and gain.tolist() == [[1, 2, 3], [10, 11, 12]]
    assert drawn(round_robin(4), n=6, rounds=3)[0].tolist() == [[0, 1, 2, 3], [0, 1, 4, 5], [2, 3, 4, 5]]


@pytest.mark.parametrize(("size", "n"), [(3, 7), (1000, 10_007), (6000, 1_000_003), (4, 4)])
def test_turns_are_exact_in_every_round(size, n):
    """As Python integers: rounds times clients need up to 44 bits."""
    draw = round_robin(size)
    state, counts = draw.init(jax.random.key(0), n), jnp.ones(n, jnp.int32)
    turn = jax.jit(lambda round: draw.apply(jax.random.key(0), state, round, counts)[0].client)
    for round in (0, 1, 716_000, 2**31 // size, 2**31 // size + 1, 2**31 - 1):
        assert turn(jnp.int32(round)).tolist() == sorted((round * size + i) % n for i in range(size))


def test_turns_are_exact_in_the_largest_populations():
    """First clients only: an array of so many gains would not fit."""
    for size, n in ((2, 2**31 - 1), (3, 2**31 - 2), (7, 2**31 - 19), (8, 2**31 - 1)):
        for round in (5, 2**30 + 1, 2**31 - 1):
            expected = [(round * size + i) % n for i in range(size)]
            assert _turn(jnp.int32(round), size, n).tolist() == expected


def test_the_best_of_twenty_has_the_harmonic_number_as_mean_square_gain():
    """H_20 = 3.597740; turns have 1."""
    assert pytest.approx(3.597740, abs=5e-7) == HARMONIC
    for draw, expected in ((best_gains(1, fading=rayleigh()), HARMONIC), (round_robin(1, rayleigh()), 1.0)):
        square = drawn(draw)[1] ** 2
        assert abs(square.mean() - expected) < 3 * square.std() / np.sqrt(ROUNDS)


def test_the_best_are_those_with_power():
    """With groups at 2, 10 and 30 dB nobody but the last group is heard; two of a round are the two best."""
    assert heard(drawn(best_gains(1, snr=GROUPS, fading=rayleigh()))[0])[-6:].sum() > 0.99
    gains = np.array([[0.9, 0.3, 0.7, 0.8]])
    assert drawn(best_gains(2, fading=recorded(gains)), n=4, rounds=1)[0].tolist() == [[0, 3]]
    weak_but_near = best_gains(1, snr=np.array([6.0, 1.0]), fading=recorded(np.array([[1.0, 3.0]])))
    assert drawn(weak_but_near, n=2, rounds=1)[0].tolist() == [[1]]  # 9 is above 6: gains are squared, SNRs are not


def test_proportional_fair_hears_everybody_and_at_good_gains():
    """1 / K of the time where rates are linear, at nearly the gains of the best; the best scheduler is not fair."""
    client, gain = drawn(proportional_fair(1, snr=1e-5 * GROUPS, window=1000.0, fading=rayleigh()))
    late = slice(ROUNDS // 4, None)
    assert np.abs(heard(client[late]) * K - 1).max() < 0.12
    assert (gain[late] ** 2).mean() > 0.95 * HARMONIC
    unfair = heard(drawn(best_gains(1, snr=1e-5 * GROUPS, fading=rayleigh()))[0][late])
    assert np.abs(unfair * K - 1).max() > 0.9


@pytest.mark.parametrize("snr", [1e-30, 1e-7])
def test_proportional_fair_compares_links_however_weak_they_are(snr):
    """The one whose rate is most above that of gain 1 comes first, then the next, which had nothing."""
    gains = np.array([[1.0, 1.4, 1.2], [1.0, 1.4, 1.2]])
    few = proportional_fair(1, snr=snr, window=2.0, fading=recorded(gains))
    client, _ = drawn(few, n=3, rounds=2)
    assert client.tolist() == [[1], [2]]


def test_the_average_moves_as_defined():
    """Two clients, w = 2: after each round the one that sent has `(1 - 1/w) avg + rate / w`, the other less."""
    gains = np.array([[1.0, 1.2], [1.0, 1.2], [1.0, 1.2]])
    rate, average, expected = np.log2(1 + 3 * gains[0] ** 2) / 2, np.array([1.0, 1.0]), []
    for _ in range(3):
        k = int(np.argmax(rate / average))
        average = average / 2 + np.where(np.arange(2) == k, rate, 0) / 2
        expected.append([k])
    assert (
        drawn(proportional_fair(1, snr=3.0, window=2.0, fading=recorded(gains)), n=2, rounds=3)[0].tolist() == expected
    )
    assert len({k for (k,) in expected}) == 2


test_bad_arguments = refused(
    (lambda: round_robin(0), "size must be an integer >= 1"),
    (
        lambda: inspect.unwrap(_scheduled)(1, max, 0.5),
        "fading must be a Fading, such as channels.rayleigh.., got float",
    ),
    (lambda: best_gains(1, snr=0.0), "snr must be a finite number > 0"),
    (lambda: proportional_fair(1, window=0.5), "window must be a finite number >= 1, got 0.5"),
    (lambda: proportional_fair(1, window=jnp.float32(0.5)), "window must be a finite number >= 1, got Array"),
    (lambda: best_gains(1, snr=np.ones(3)).init(jax.random.key(0), 4), "snr must be a number, or one per client"),
    (lambda: drawn(round_robin(5), n=4, rounds=1), "size must be at most the number of clients, 4, got 5"),
)
