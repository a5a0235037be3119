"""RiseFL's check: as often as the theory says, and the same integers as NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.crypto import field
from fedjax_priv.layers.random_projections import (
    DEVIATION,
    LARGEST_BOUND,
    PROJECTIONS,
    _gamma,
    is_within_by_projections,
    projected,
)
from fedjax_priv.theory.input_validation import acceptance, threshold

KEY = jax.random.key(11)
COLUMNS = 1500  # more than are drawn at a time
BOUND, CLIENTS, ROUNDS = 1000, 300, 5


def elements(z):
    return field.from_signed(jnp.asarray(z, jnp.int32))


@pytest.fixture(scope="module")
def numbers():
    """All numbers that are drawn for so many coordinates, `[d, k]`: projections of the unit vectors."""
    return np.asarray(field.to_signed(jax.jit(projected)(KEY, elements(np.eye(COLUMNS, dtype=int)))), np.int64)


def test_projections_are_the_integers_that_numpy_gets(numbers):
    """Of positive and negative values, in one block and row by row."""
    z = np.random.default_rng(0).integers(-50_000, 50_000, (3, COLUMNS))
    found = jax.jit(projected)(KEY, elements(z))
    np.testing.assert_array_equal(field.to_signed(found), z @ numbers)
    np.testing.assert_array_equal(found[1:2], projected(KEY, elements(z[1:2])))


def test_numbers_are_normal_and_independent(numbers):
    """The second and fourth moment in standard errors; no two coordinates, chunks or projections share numbers."""
    x = numbers.ravel() / DEVIATION
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        error = np.sqrt((stats.norm.moment(2 * power) - moment**2) / x.size)
        assert abs((x**power).mean() - moment) < 5 * error
    assert abs((1.01 * x) ** 2).mean() - 1 > 5 * np.sqrt(2 / x.size)  # the control
    for rows in (numbers[:1200], numbers[:, :900].T):
        between = np.corrcoef(rows)[np.triu_indices(len(rows), 1)] * np.sqrt(rows.shape[1])
        assert np.abs(between).max() < 6.5 and between.std() == pytest.approx(1, abs=0.02)


def accepted(factor):
    """The fraction of vectors of this norm, in bounds, that pass: independent ones, as they are orthogonal."""
    z = elements(np.eye(CLIENTS, dtype=int) * round(factor * BOUND))
    passes = jax.jit(lambda key, z: is_within_by_projections(key, z, BOUND**2))
    return np.mean([passes(jax.random.key(seed), z) for seed in range(ROUNDS)])


@pytest.mark.parametrize("factor", [1.26, 1.3, 1.34])
def test_longer_vectors_pass_as_often_as_the_theory_says(factor):
    """Within four standard errors; the acceptance of a norm 2% apart is not."""
    found, error = accepted(factor), 0.5 / np.sqrt(CLIENTS * ROUNDS)
    assert abs(found - acceptance(factor)) < 4 * error
    assert abs(found - acceptance(1.02 * factor)) > 4 * error < abs(found - acceptance(factor / 1.02))


def test_vectors_at_the_bound_pass_and_much_longer_ones_do_not():
    assert accepted(1.0) == 1 == accepted(1.15) and accepted(1.5) == 0


def test_vectors_with_many_coordinates_pass_as_often_as_those_with_one():
    """Signs and sizes do not matter: at 1.3 bounds, orthogonal rows of a Hadamard matrix, in many rounds."""
    signs = np.array([[1]])
    for _ in range(6):
        signs = np.block([[signs, signs], [signs, -signs]])
    z = elements(signs * 1300)  # of norm 8 * 1300
    passes = jax.jit(lambda key, z: is_within_by_projections(key, z, (8 * 1000) ** 2))
    found = np.mean([passes(jax.random.key(seed), z) for seed in range(15)])
    assert abs(found - acceptance(1.3)) < 4 * 0.5 / np.sqrt(15 * 64)


def test_the_threshold_is_the_quantile_of_the_theory():
    assert _gamma() == pytest.approx(threshold(PROJECTIONS), rel=1e-9)


def test_no_projection_wraps_below_twice_the_largest_bound():
    """At the largest bound, short vectors pass, and those that could wrap, or saturate 64 bits, do not."""
    most = int(np.sqrt(LARGEST_BOUND))
    z = [[most, 0], [int(1.1 * most), 0], [0, int(1.7 * most)], [2 * most + 9, 0], [2**31 - 1, 0], [2**30, 2**30]]
    assert is_within_by_projections(KEY, elements(z), LARGEST_BOUND).tolist() == [1, 1, 0, 0, 0, 0]
    assert 14 * DEVIATION * 2 * most <= (int(field.Q) - 1) // 2
    assert threshold() * DEVIATION**2 * LARGEST_BOUND < 2**64 - 1
