import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import sparse_secagg as theory

PROBLEM = theory.Problem(
    weights=np.array([0.5, 0.3, 0.2]), smoothness=2.0, strong_convexity=0.5,
    gradient_variance=np.array([1.0, 2.0, 3.0]), gradient_second_moment=4.0, heterogeneity=0.25, initial_distance=3.0,
)  # fmt: skip


def bound_of(**changes):
    usual = {"num_params": 9, "alpha": 0.1, "dropout": 0.1, "levels": 1.0, "local_steps": 1, "steps": 1}
    how = {name: changes.pop(name, value) for name, value in usual.items()}
    return theory.convergence_bound(PROBLEM._replace(**changes), **how)


def test_bound_is_the_printed_formula():
    """Eqs. 29-31 term by term, the covariance in the paper's unstable form."""
    n, d, alpha, theta, c, e, j = 3, 7, 0.6, 0.2, 16.0, 40, 120
    a = alpha / (n - 1)
    p = 1 - (1 - a) ** (n - 1)
    nu = max(8 * 2 / 0.5, e)
    eta = 2 / (0.5 * (nu + j))
    both = (1 - theta) ** 2 * (1 - 2 * (1 - a) ** (n - 1) + (1 - a) ** (2 * n - 3))
    beta = PROBLEM.weights
    b = 0.25 * 1 + 0.09 * 2 + 0.04 * 3 + 6 * 2 * 0.25 + 8 * 39**2 * 4
    bracket = sum(
        beta[i] ** 2 * (1 / ((1 - theta) * p) - 1)
        + sum(beta[i] * beta[k] * (both / ((1 - theta) * p) ** 2 - 1) for k in range(n) if k != i)
        for i in range(n)
    )
    big_c = n * d * (1 - theta) * p / (4 * c**2 * eta**2) + 4 * e**2 * 4 * bracket
    found = bound_of(num_params=d, alpha=alpha, dropout=theta, levels=c, local_steps=e, steps=j)
    scale = (2 * 2 / 0.5) / (nu + j)
    assert found.printed == pytest.approx(scale * ((b + big_c) / 0.5 + 2 * 2 * 9), rel=1e-12)
    assert found.repaired == pytest.approx(scale * ((b + big_c) / 0.5 + 0.5 * nu / 4 * 9), rel=1e-12)
    assert theory.learning_rate(PROBLEM, e, j) == pytest.approx(eta, rel=1e-14)


def test_printed_bound_fails_where_the_repaired_holds():
    """L=2, mu=1, E=100, B+C=1, a distance of 1: F(w_0) - F* = L/2 = 1 is possible, and the print says 0.2."""
    problem = theory.Problem(np.array([0.5, 0.5]), 2.0, 1.0, 0.0, 0.0, 1 / 12, 1.0)
    at = lambda steps: theory.convergence_bound(
        problem, num_params=1, alpha=1.0, dropout=0.0, levels=1e9, local_steps=steps, steps=0
    )
    bound, few = at(100), at(16)
    assert bound.printed == pytest.approx(0.2, rel=1e-9)
    assert bound.repaired >= 1
    assert few.printed == pytest.approx(few.repaired, rel=1e-12)


def test_bound_falls_and_then_grows_with_the_quantization_error():
    steps = np.array([0, 10**3, 10**5, 10**9, 2 * 10**9])
    bound = bound_of(num_params=100, alpha=0.5, dropout=0.1, levels=1e5, local_steps=5, steps=steps)
    for values in bound:
        assert values[0] > values[1] > values[2]
        assert values[4] / values[3] == pytest.approx(2, rel=1e-2)


@pytest.mark.parametrize("local_steps", [1, 5, 100])
def test_rate_is_what_the_proof_wants(local_steps):
    """eta_0 <= 1 / (4 L), it does not rise, and eta_t <= 2 eta_{t+E}."""
    rate = theory.learning_rate(PROBLEM, local_steps, np.arange(500))
    assert rate[0] <= 1 / (4 * PROBLEM.smoothness)
    assert (np.diff(rate) < 0).all()
    assert (rate[:-local_steps] <= 2 * rate[local_steps:]).all()


def test_sampling_variance_is_that_of_the_masks(case):
    weights = np.arange(1, case.n + 1) / (case.n * (case.n + 1) / 2)
    counted = case.outcomes.sent & case.outcomes.alive
    scale = (1 - case.dropout) * theory.selection_probability(case.n, case.alpha)
    squares = ((counted / scale - 1) @ weights) ** 2
    variance = theory.sampling_variance(weights, case.alpha, case.dropout)
    assert case.outcomes.mean_is(squares, variance)
    independent = np.square(weights).sum() * (1 / scale - 1)
    assert not case.outcomes.mean_is(squares, independent)


test_bad_arguments = refused(
    ({"weights": np.array([0.5, 0.4])}, "weights must be two or more fractions whose sum is 1, got array"),
    ({"smoothness": 0.0}, r"smoothness must be in \(0, inf\), got 0.0"),
    ({"strong_convexity": 3.0}, r"strong_convexity must be in \(0, 2.0\] \(smoothness\), got 3.0"),
    ({"gradient_variance": -1.0}, r"gradient_variance must be in \[0, inf\), got -1.0"),
    ({"gradient_variance": np.ones(2)}, "gradient_variance must be one number or 3, as the weights, got array"),
    ({"heterogeneity": -1.0}, r"heterogeneity must be in \[0, inf\), got -1.0"),
    ({"levels": 0.0}, r"levels must be in \(0, inf\), got 0.0"),
    ({"local_steps": 0}, "local_steps must be an integer >= 1, got 0"),
    ({"steps": -1}, "step must be an integer >= 0, got -1"),
    ({"dropout": 0.5}, r"dropout must be in \[0, 0.5\) \(the condition of the theorem\), got 0.5"),
    by=lambda changes: bound_of(**changes),
)
