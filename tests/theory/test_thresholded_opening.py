import functools
from decimal import Decimal, localcontext
from inspect import unwrap
from math import comb

import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import sparse_secagg as theory

SETTING = theory.Setting(100, 0.1, 0.3, 0.33)
ALONE = SETTING._replace(adversarial=0.0)


@pytest.mark.parametrize(
    ("threshold", "opened", "kept", "alone", "colluding"),
    [
        (2, 0.9664, 0.9965, (0.0, 0.0156), (0.01262, 0.05511, 0.1051)),
        (3, 0.9145, 0.9810, (0.0, 0.0), (0.00742, 0.04473, 0.1051)),
        (5, 0.7337, 0.8838, (0.0, 0.0), (0.00152, 0.01540, 0.0616)),
        (8, 0.3710, 0.5575, (0.0, 0.0), (0.00005, 0.00086, 0.00651)),
    ],
)
def test_a_hundred_users(threshold, opened, kept, alone, colluding):
    """Values from inclusion-exclusion over vertices without a neighbour, in integers."""
    assert theory.opened_fraction(SETTING, threshold) == pytest.approx(opened, abs=6e-5)
    assert theory.kept_fraction(SETTING, threshold) == pytest.approx(kept, abs=6e-5)
    for setting, expected in ((ALONE, alone), (SETTING, colluding)):
        read = [theory.opened_sum_fraction(setting, threshold, size + 1) for size in range(len(expected))]
        assert read == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize(("n", "alpha"), [(2, 1.0), (7, 0.9), (100, 0.1), (100, 0.01)])
def test_senders_against_decimals(n, alpha):
    """P[M = m] by the recursion that cancels, with 400 digits."""
    with localcontext() as context:
        context.prec = 400
        q = 1 - Decimal(alpha) / (n - 1)
        power = lambda k: q**k if k else Decimal(1)
        none = []
        for m in range(n + 1):
            none.append(1 - sum((comb(m, k) * power(comb(m, 2) - comb(k, 2)) * none[k] for k in range(m)), Decimal(0)))
        law = [float(comb(n, m) * power(comb(n, 2) - comb(m, 2)) * none[m]) for m in range(n + 1)]
    np.testing.assert_allclose(theory.senders(n, alpha), law, rtol=1e-9, atol=1e-300)


def test_mean_and_variance_are_those_of_the_selections():
    number, law = np.arange(101), theory.senders(100, 0.1)
    mean, p = (law * number).sum(), theory.selection_probability(100, 0.1)
    assert mean == pytest.approx(100 * p, rel=1e-12)
    variance = 100 * p * (1 - p) + 100 * 99 * theory.selection_covariance(100, 0.1)
    assert (law * (number - mean) ** 2).sum() == pytest.approx(variance, rel=1e-10)


def test_sums_that_are_opened_in_simulated_masks():
    """Within 4 standard errors, of rounds in NumPy; the law of a smaller threshold is rejected."""
    n, colluders, rounds, rng = 9, 3, 200_000, np.random.default_rng(0)
    setting = theory.Setting(n, 0.9, 0.25, colluders / n)
    pairs = np.triu(rng.random((rounds, n, n)) < 0.9 / (n - 1), 1)
    sent = (pairs | pairs.swapaxes(1, 2)).any(2) & (rng.random((rounds, n)) < 0.75)
    honest, everybody = sent[:, colluders:].sum(1), sent.sum(1)
    for size in (1, 2, 3):
        read = np.where((honest == size) & (everybody >= 3), size, 0)
        error = 4 * read.std() / np.sqrt(rounds) / honest.mean()
        away = lambda t, size=size, read=read: abs(
            read.mean() / honest.mean() - theory.opened_sum_fraction(setting, t, size)
        )
        assert away(3) < error
        assert size == 3 or away(2) > error
    assert (everybody >= 3).mean() == pytest.approx(theory.opened_fraction(setting, 3), abs=4e-3)


def test_everything_is_opened_from_one_on():
    assert theory.kept_fraction(SETTING, 1) == pytest.approx(1, abs=1e-12)
    total = sum(theory.opened_sum_fraction(SETTING, 1, size) for size in range(1, 68))
    assert total == pytest.approx(1, abs=1e-9)
    assert theory.opened_sum_fraction(SETTING, 2, 68) == 0 == theory.opened_fraction(SETTING, 101)


test_refused = refused(
    (lambda: unwrap(theory.senders)(10, np.array([0.1, 0.2])), "alpha must be one number in"),
    (lambda: unwrap(theory.senders)(np.array([5, 6]), 0.1), "num_clients must be one integer >= 2"),
    *((lambda f=f: f(theory.Setting(5, 0.1, np.array([0.1, 0.2])), 1), "dropout must be one number here, no array")
      for f in (theory.opened_fraction, theory.kept_fraction, functools.partial(theory.opened_sum_fraction, size=1))),
    (lambda: theory.opened_fraction(SETTING, 0), "threshold must be an integer >= 1, got 0"),
    (lambda: theory.opened_sum_fraction(SETTING, 2, 0), "size must be an integer >= 1, got 0"),
    (
        lambda: theory.opened_sum_fraction(SETTING._replace(adversarial=0.333), 2, 1),
        "adversarial must be a multiple of 1 / num_clients, got 0.333",
    ),
    (lambda: theory.senders(2**40, 0.5), "num_clients must be an integer from 2 to 2048, got"),
    (lambda: theory.senders(1, 0.5), "num_clients must be an integer >= 2, got 1"),
)  # fmt: skip
