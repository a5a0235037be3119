"""Certificates of rules: closed forms against the projection on increasing sequences, and printed values."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from fedjax_priv.theory.robust_rules import (
    coordinate_median_kappa,
    geometric_median_kappa,
    krum_kappa,
    least_kappa,
    mixed_kappa,
    trimmed_mean_kappa,
)
from helpers import refuses

SETTINGS = [(n, f) for n in range(3, 18) for f in range(1, (n - 1) // 2 + 1)]


def of_order_statistics(weights, f):
    """Of `sum_i weights_i x_(i)`, whose f last weights are 0: Byzantine rows beyond the honest ones are the worst."""
    honest = len(weights) - f
    away = weights[:honest] - 1 / honest
    return honest * (isotonic_regression(away).x ** 2).sum()


def trimming(n, f):
    return ((np.arange(n) >= f) & (np.arange(n) < n - f)) / (n - 2 * f)


def median(n):
    return np.where(np.isin(np.arange(n), [(n - 1) // 2, n // 2]), 1 / (2 - n % 2), 0.0)


@pytest.mark.parametrize(("n", "f"), SETTINGS)
def test_rules_of_order_statistics(n, f):
    assert trimmed_mean_kappa(n, f) == pytest.approx(of_order_statistics(trimming(n, f), f), rel=1e-9)
    if n // 2 < n - f:  # or else the even median has a weight on the Byzantine values
        assert coordinate_median_kappa(n, f) == pytest.approx(of_order_statistics(median(n), f), rel=1e-9)


@pytest.mark.parametrize(("n", "f"), [(n, f) for n, f in SETTINGS if n % 2 == 0])
def test_the_lower_median_of_an_even_number_is_worse(n, f):
    """By symmetry as the upper one, on which Byzantine rows above all others have most influence."""
    upper = np.eye(n)[n // 2]
    assert of_order_statistics(upper, f) == pytest.approx(n / (n - 2 * f), rel=1e-9)
    assert n / (n - 2 * f) > coordinate_median_kappa(n, f)


def test_the_table():
    n, f = np.array([7, 11, 15, 16]), np.array([2, 3, 4, 3])
    np.testing.assert_allclose(trimmed_mean_kappa(n, f), [2 / 3, 0.6, 4 / 7, 0.3])
    np.testing.assert_allclose(coordinate_median_kappa(n, f), [1.5, 5 / 3, 1.75, 7 / 6])
    np.testing.assert_allclose(krum_kappa(n, f, "byzfl"), [10, 9.6, 66 / 7, 7.8])
    np.testing.assert_allclose(krum_kappa(n, f), [12.5, 76 / 7, 154 / 15, 221 / 27])
    np.testing.assert_allclose(geometric_median_kappa(7, 2), 100 / 9)
    assert (4 * least_kappa(n, f) <= mixed_kappa(trimmed_mean_kappa(n, f), n, f)).all(), "above the trap of mixing"
    np.testing.assert_allclose(mixed_kappa(1.0, 10, 2), 4.0)


def test_a_wrong_denominator_is_found_out():
    """Rows at 0, f of them Byzantine, and f honest ones at 1: any rule that answers 0 when it must has this ratio."""
    n, f = 11, 3
    honest = np.array([0.0] * (n - 2 * f) + [1.0] * f)
    ratio = honest.mean() ** 2 / honest.var()
    assert least_kappa(n, f) == pytest.approx(ratio)
    assert f / n < ratio and f / (n - f) < ratio


test_bad_arguments = refuses(
    lambda n, f: least_kappa(n, f),
    (4, 2, "num_byzantine must be below half of num_rows, got 2"),
    (4, -1, "num_byzantine must be an integer >= 0, got -1"),
    (0, 0, "num_rows must be an integer >= 1, got 0"),
    whole=True,
)
