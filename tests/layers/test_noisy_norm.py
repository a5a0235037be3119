"""Honest noise exceeds the bound as seldom as it says, and the bound is not much larger than it must be."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from fedjax_priv.layers.noisy_norm import squared_noisy_bound
from fedjax_priv.layers.rounded_norm import FAILURE


def law_of_squared_norm(x, variance):
    """`P[||x + n||^2 > b]` for every b by exact convolution over two coordinates or one, in float64."""
    reach = int(12 * math.sqrt(variance)) + 40
    n = np.arange(-reach, reach + 1)
    p = stats.skellam.pmf(n, variance / 2, variance / 2)
    squares = [(value + n) ** 2 for value in x]
    total = squares[0] if len(x) == 1 else (squares[0][:, None] + squares[1][None, :]).ravel()
    weight = p if len(x) == 1 else np.outer(p, p).ravel()
    return lambda bound: weight[total > bound].sum()


@pytest.mark.parametrize("variance", [0.05, 1.0, 30.0, 400.0])
@pytest.mark.parametrize("x", [(0,), (50,), (30, 40), (0, 0), (7, -1), (1000,)])
def test_noise_exceeds_the_bound_as_seldom_as_it_says(x, variance):
    """For whatever vector of the norm; a third of the margin would not be enough."""
    squared = sum(v * v for v in x)
    exceeds = law_of_squared_norm(x, variance)
    for failure in (FAILURE, 1e-3):
        assert exceeds(squared_noisy_bound(squared, variance, len(x), failure)) <= failure
    margin = squared_noisy_bound(squared, variance, len(x)) - squared
    assert exceeds(squared + margin // 3) > FAILURE


def test_the_bound_grows_by_about_the_variance_of_all_coordinates():
    """By 5% more at 100,000 coordinates, and what a vector and its noise share; never by less."""
    for norm, variance, d in itertools.product((10, 1000), (4.0, 900.0), (10**5, 10**6)):
        bound = norm**2
        more = squared_noisy_bound(bound, variance, d) - bound
        assert 1 < more / (d * variance) < 1.06 + 2 * norm * 12 * math.sqrt(variance) / (d * variance)
        assert more > squared_noisy_bound(bound, variance, d, 1e-3) - bound
    assert squared_noisy_bound(12345, 0.0, 10**6) == 12345


def test_vectors_with_noise_pass_and_would_not_without_room_for_it():
    rng, d, variance = np.random.default_rng(0), 400, 25.0
    x = np.zeros((5000, d), int)
    x[np.arange(5000), rng.integers(d, size=5000)] = 300
    noisy = x + rng.poisson(variance / 2, x.shape) - rng.poisson(variance / 2, x.shape)
    squares = (noisy**2).sum(1)
    assert (squares <= squared_noisy_bound(300**2, variance, d)).all() and (squares > 300**2).mean() > 0.99
