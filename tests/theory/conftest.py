"""SparseSecAgg's Bernoulli masks at one coordinate, straight from the protocol: all outcomes, or many drawn ones."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from fedjax_priv.theory import sparse_secagg as theory


class Outcomes(NamedTuple):
    weight: np.ndarray  # [R], probabilities
    mask: np.ndarray  # [R, n, n], b_ij = b_ji
    alive: np.ndarray  # [R, n]
    drawn: bool

    @property
    def sent(self):
        return self.mask.any(2)

    def mean_is(self, values, expected):
        """Exactly, or within 5 standard errors if drawn."""
        mean = self.weight @ values
        error = np.sqrt(self.weight @ (values - mean) ** 2 / len(values)) if self.drawn else 0
        return abs(mean - expected) <= 5 * error + 1e-12 * max(1, abs(mean))


def every_outcome(n, a, dropout):
    pairs = np.array(list(itertools.product([0, 1], repeat=n * (n - 1) // 2)), bool)
    alive = np.array(list(itertools.product([0, 1], repeat=n)), bool)
    weight = np.outer(
        a ** pairs.sum(1) * (1 - a) ** (~pairs).sum(1), (1 - dropout) ** alive.sum(1) * dropout ** (~alive).sum(1)
    )
    shape = len(pairs), len(alive)
    pairs, alive = np.repeat(pairs, shape[1], 0), np.tile(alive, (shape[0], 1))
    return Outcomes(weight.ravel(), _symmetric(pairs, n), alive, drawn=False)


def drawn_outcomes(n, a, dropout, count, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.random((count, n * (n - 1) // 2)) < a
    alive = rng.random((count, n)) >= dropout
    return Outcomes(np.full(count, 1 / count), _symmetric(pairs, n), alive, drawn=True)


def _symmetric(pairs, n):
    mask = np.zeros((len(pairs), n, n), bool)
    i, j = np.triu_indices(n, 1)
    mask[:, i, j] = mask[:, j, i] = pairs
    return mask


class Case(NamedTuple):
    n: int
    adversaries: int  # the first users
    alpha: float
    dropout: float
    outcomes: Outcomes

    @property
    def gamma(self):
        return self.adversaries / self.n

    @property
    def setting(self):
        return theory.Setting(self.n, self.alpha, self.dropout, self.gamma)

    @property
    def honest_survivors(self):
        return self.outcomes.alive & (np.arange(self.n) >= self.adversaries)


@pytest.fixture(scope="session")
def drawn_case():
    return Case(12, 4, 0.8, 0.3, drawn_outcomes(12, 0.8 / 11, 0.3, 40_000, seed=1))


@pytest.fixture(scope="session", params=["all, N=5", "all, N=4, no dropouts", "drawn, N=12"])
def case(request, drawn_case):
    if request.param == "all, N=5":
        return Case(5, 2, 0.7, 0.3, every_outcome(5, 0.7 / 4, 0.3))
    if request.param == "drawn, N=12":
        return drawn_case
    return Case(4, 1, 1.0, 0.0, every_outcome(4, 1 / 3, 0.0))
