"""Users whose probabilities differ by round: eps of the worst user's rounds, against losses composed on a fine grid."""

import itertools

import numpy as np
import pytest
from scipy import signal, stats

from fedjax_priv.theory import _by_user, wireless

USERS, ROUNDS, CLIP, SIGMA2, N0, DELTA = 3, 4, 1.0, 0.5, 0.8, 1e-4
P = np.array([[0.9, 0.1, 0.3], [0.2, 0.8, 0.1], [0.1, 0.2, 0.9], [0.7, 0.3, 0.2]])
A = np.array([[0.9, 1.0, 0.7], [0.8, 0.8, 1.0], [1.0, 0.7, 0.8], [0.8, 1.0, 0.9]])
ABOUT = wireless.Round(USERS, P, CLIP, SIGMA2, N0)
STEP, Y = 2e-3, np.linspace(-14, 14, 20_001)  # of a loss; what is received


def parts(p, a, user, gradient, known_set):
    """`[views, y]` of what the server sees of a round: who sends, or how many do, and the received signal."""
    found = {}
    for taken in itertools.product([False, True], repeat=USERS):
        here = np.array(taken)
        mean = a @ (here * np.where(np.arange(USERS) == user, gradient, -CLIP))
        scale = np.sqrt(SIGMA2 * (here @ a**2) + N0)
        name = taken if known_set else here.sum()
        found[name] = found.get(name, 0) + np.prod(np.where(here, p, 1 - p)) * stats.norm.pdf(Y, mean, scale)
    return np.array(list(found.values()))


def attained(eps, user, amplitudes, known_set):
    """The larger delta of both orders of the user's two inputs, after all rounds."""
    deltas = []
    for sign in (1, -1):
        total = np.ones(1)
        for p, a in zip(P, amplitudes, strict=True):
            first, second = (parts(p, a, user, g * sign * CLIP, known_set) for g in (1, -1))
            loss = np.rint(np.log(first / second) / STEP).astype(int)
            mass = np.bincount((loss + _FAR).ravel(), (first * (Y[1] - Y[0])).ravel(), 2 * _FAR + 1)
            total = signal.fftconvolve(total, mass)
        loss = STEP * (np.arange(total.size) - ROUNDS * _FAR)
        deltas.append((total * np.maximum(1 - np.exp(np.minimum(eps - loss, 0)), 0)).sum())
    return max(deltas)


_FAR = 30_000  # steps of a loss


@pytest.mark.parametrize("known_set", [False, True])
def test_the_worst_user_attains_the_figure_of_its_own_rounds(known_set, monkeypatch):
    of = wireless.known_set_epsilon if known_set else wireless.rigorous_epsilon
    eps = of(ABOUT, DELTA, rounds=ROUNDS)
    told = [attained(eps, user, np.ones((ROUNDS, USERS)), known_set) for user in range(USERS)]
    assert 0.9 * DELTA < max(told) < 1.01 * DELTA
    after = wireless.epsilon_by_round(ABOUT, DELTA, rounds=ROUNDS, known_set=known_set)
    assert after[-1] == pytest.approx(eps, rel=1e-6) and (np.diff(after) >= 0).all()
    first = of(ABOUT._replace(participation=P[:2]), DELTA, rounds=2)
    assert after[1] == pytest.approx(first, rel=2e-3)
    monkeypatch.setattr(_by_user, "MOST", 0)
    each_round = of(ABOUT, DELTA, rounds=ROUNDS)
    assert each_round > 1.1 * eps
    assert wireless.epsilon_by_round(ABOUT, DELTA, rounds=ROUNDS, known_set=known_set)[-1] == pytest.approx(each_round)


def test_users_limited_by_power(monkeypatch):
    """The bound counts the weakest of other senders, so that it is not attained."""
    eps = wireless.limited_epsilon(ABOUT, DELTA, amplitudes=A, rounds=ROUNDS)
    told = max(attained(eps, user, A, True) for user in range(USERS))
    assert 0.2 * DELTA < told < DELTA
    monkeypatch.setattr(_by_user, "MOST", 0)
    assert wireless.limited_epsilon(ABOUT, DELTA, amplitudes=A, rounds=ROUNDS) > 1.1 * eps


def test_users_that_no_other_exceeds():
    ranks = np.array([[0.5, 0.5, 0.2, 0.9, 0.4], [0.5, 0.5, 0.8, 0.1, 0.5]])
    assert sorted(_by_user.leaders(ranks)) == [0, 2, 3]
    assert _by_user.leaders(np.ones((3, 4))) == [0]
