"""Errors of quantizers: exact, against draws, and below their bounds."""

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import quantizers as theory

V = np.random.default_rng(0).normal(size=50)


def drawn(scaled, runs=20_000):
    """Rounded at random to a neighbour."""
    low = np.floor(scaled)
    return low + (np.random.default_rng(1).random((runs, scaled.size)) < scaled - low)


def agrees(errors, exact):
    return abs(errors.mean() - exact) < 3 * errors.std() / np.sqrt(len(errors))


@pytest.mark.parametrize("levels", [1, 4])
def test_qsgd(levels):
    norm = np.linalg.norm(V)
    rows = norm * np.sign(V) * drawn(levels * np.abs(V) / norm) / levels
    errors, exact = np.square(rows - V).sum(1), theory.qsgd_error(V, levels)
    assert agrees(errors, exact) and exact <= theory.qsgd_error_bound(50, levels) * norm**2
    assert not agrees(errors, exact / 2)
    assert theory.qsgd_error(np.zeros(3), levels) == 0
    assert theory.qsgd_bits(50, levels) == 32 + 50 * (1 + {1: 1, 4: 3}[levels])


@pytest.mark.parametrize("bits", [1, 2, 31, 48, 49, 52])
def test_bits_at_powers_of_two(bits):
    """The largest number of levels for so many bits, and one level more."""
    assert theory.qsgd_bits(10, 2**bits - 1) == 32 + 10 * (1 + bits)
    assert theory.qsgd_bits(10, 2**bits) == 32 + 10 * (2 + bits)


def test_uniform_levels():
    step = 2 * 4.0 / 7
    rows = step * drawn((V + 4.0) / step) - 4.0
    exact = theory.uniform_error(V, 3, 4.0)
    assert agrees(np.square(rows - V).sum(1), exact) and exact <= 50 * step**2 / 4
    assert theory.uniform_error(np.array([5.0]), 1, 2.0) == 9.0


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_the_error_is_in_proportion_to_the_square_of_the_length(size):
    np.testing.assert_allclose(theory.qsgd_error(size * V, 3) / size / size, theory.qsgd_error(V, 3), rtol=1e-12)


def test_errors_that_float64_does_not_hold():
    with np.errstate(over="ignore"):
        assert theory.qsgd_error(np.array([1e200, 2e200]), 1) == np.inf
    assert theory.qsgd_error(np.array([1e200, 0.0]), 1) == 0 == theory.qsgd_error(np.array([3e-200, 4e-200]), 5)


def test_very_many_levels_leave_the_clipping():
    assert theory.uniform_error(np.array([0.3, -3.0]), 1023, 1.0) == 4.0


test_out_of_range = refused(
    (lambda: theory.qsgd_error(np.array(["a"]), 1), "vector"),
    (lambda: theory.uniform_error(V, 1024, 1.0), "bits must be an integer from 1 to 1023, got 1024"),
    (lambda: theory.qsgd_error(np.array([np.nan]), 1), "vector"),
    (lambda: theory.qsgd_error(V[None], 1), "vector"),
    (lambda: theory.qsgd_error(V, 0), "levels"),
    (lambda: theory.qsgd_bits(0, 1), "num_params"),
    (lambda: theory.qsgd_error_bound(3, 0), "levels"),
    (lambda: theory.uniform_error(V, 0, 1.0), "bits"),
    (lambda: theory.uniform_error(V, 1, 0.0), "limit"),
)
