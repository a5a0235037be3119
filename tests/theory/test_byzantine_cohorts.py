"""Byzantine clients of a cohort, against sums of Python integers."""

import inspect
from math import comb

import numpy as np
import pytest

from fedjax_priv.theory.byzantine_cohorts import probability_of_more, tolerated_for


def tail(population, bad, size, tolerated):
    ways = (comb(bad, k) * comb(population - bad, size - k) for k in range(tolerated + 1, min(bad, size) + 1))
    return sum(ways) / comb(population, size)


@pytest.mark.parametrize("setting", [(100, 10, 20, 4), (12, 5, 5, 2), (1000, 100, 50, 9), (10, 3, 10, 3)])
def test_the_tail_of_the_hypergeometric_law(setting):
    assert probability_of_more(*setting) == pytest.approx(tail(*setting), rel=1e-9)


@pytest.mark.parametrize("rounds", [1, 2, 3, 200])
def test_no_smaller_number_would_do(rounds):
    fails = lambda f: 1 - (1 - tail(100, 10, 20, f)) ** rounds
    for f in range(4, 9):  # a risk just above what is exceeded with f, and just below
        assert tolerated_for(100, 10, 20, rounds=rounds, risk=fails(f) * 1.001) == f
        assert tolerated_for(100, 10, 20, rounds=rounds, risk=fails(f) * 0.999) == f + 1


def test_the_least_that_is_needed_at_the_ends():
    assert tolerated_for(10, 3, 10, rounds=5, risk=0.5) == 3, "all come"
    assert tolerated_for(10, 0, 4, rounds=5, risk=0.5) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 1, 0), "population must be an integer >= 1"),
        ((2**31, 10, 20, 4), r"population must be an integer below 2\*\*31, got 2147483648"),
        ((10, 11, 1, 0), "num_byzantine must be an integer from 0 to population = 10, got 11"),
        ((10, 1, 0, 0), "cohort_size must be an integer >= 1"),
        ((10, 1, 11, 0), "cohort_size must be an integer from 1 to population = 10"),
        ((np.float64(100), 10, 20, 4), "population must be an integer"),
        ((100, np.float64(10), 20, 4), "num_byzantine must be an integer"),
        ((100, 10, np.float64(20.5), 4), "cohort_size must be an integer"),
        ((10, 1, 2, -1), "tolerated must be an integer >= 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        inspect.unwrap(probability_of_more)(*arguments)


def test_bad_risks():
    with pytest.raises(ValueError, match="^rounds must be an integer >= 1"):
        tolerated_for(10, 1, 2, rounds=0, risk=0.1)
    with pytest.raises(ValueError, match="^risk must be in"):
        tolerated_for(10, 1, 2, rounds=1, risk=1.0)
