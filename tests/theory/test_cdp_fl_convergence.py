"""Theorem 2 and Lemma 6 against models whose mean and variance at every step are known exactly."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from fedjax_priv.theory import cdp_fl as theory

ETA, STEPS, ROUNDS, R, GAMMA, SIGMA = 0.02, 4, 50, 3, 8, 0.6
L, BETA, GAP, D, LAMBDA = 2.0, 1.5, 0.7, 5, 0.3
PROBLEM = theory.Problem(L, BETA, GAP, D)
TRAINING = theory.Schedule(ETA, STEPS, ROUNDS, R, GAMMA, SIGMA)


def test_theorem_2_and_lemma_6_are_the_printed_formulas():
    k = STEPS * ROUNDS
    drift = (STEPS - 1) * (2 * STEPS - 1)
    theorem = (
        2 * GAP / (ETA * k)
        + ETA * L * BETA**2 / (2 * GAMMA)
        + ETA * L * D * SIGMA**2 / (2 * R)
        + drift * (2 * ETA**2 * L**2 * BETA**2 / (3 * GAMMA) + ETA**2 * L**2 * D * SIGMA**2 * (R + 1) / (3 * R))
    )
    lemma = (
        (1 - ETA * LAMBDA) / (k * ETA * LAMBDA) * GAP
        + ETA * L * BETA**2 / (4 * LAMBDA * GAMMA)
        + ETA * L * D * SIGMA**2 / (4 * R * LAMBDA)
        + ETA**2 * L**2 * drift * (BETA**2 / (3 * LAMBDA * GAMMA) + D * SIGMA**2 * (R + 1) / (6 * R * LAMBDA))
    )
    assert theory.convergence_bound(PROBLEM, TRAINING).printed.value == pytest.approx(theorem, rel=1e-12)
    assert theory.strongly_convex_bound(PROBLEM, TRAINING, LAMBDA).printed.value == pytest.approx(lemma, rel=1e-12)


def test_corrected_formulas():
    v = BETA**2 / GAMMA + D * SIGMA**2
    noise = ETA * L * v / R + (STEPS - 1) / 2 * (1 + ETA * L) ** (2 * STEPS) * ETA**2 * L**2 * v * (1 - 1 / R)
    k = STEPS * ROUNDS
    found = theory.convergence_bound(PROBLEM, TRAINING).corrected.value
    assert found == pytest.approx(2 * GAP / (ETA * k) + noise, rel=1e-12)
    found = theory.strongly_convex_bound(PROBLEM, TRAINING, LAMBDA).corrected.value
    assert found == pytest.approx((1 - ETA * LAMBDA) / (k * ETA * LAMBDA) * GAP + noise / (2 * LAMBDA), rel=1e-12)


def test_conditions_on_the_rate():
    rates = np.array([0.1, 0.15, 1.0, 1.01]) / L  # 5 x + 3 tau^2 x^2 <= 1 up to x = 0.1013 at tau = 4, 0.1805 at 1
    for steps, printed in ((4, [True, False, False, False]), (1, [True, True, False, False])):
        found = theory.convergence_bound(PROBLEM, TRAINING._replace(rate=rates, local_steps=steps))
        np.testing.assert_array_equal(found.printed.applies, printed)
        np.testing.assert_array_equal(found.corrected.applies, [True, True, True, False])
        assert found.printed.value.shape == (4,)
    edges = np.array([0.1012, 0.1014]) / L
    found = theory.strongly_convex_bound(PROBLEM, TRAINING._replace(rate=edges), LAMBDA)
    np.testing.assert_array_equal(found.printed.applies, [True, False])


def federated_sgd(curvatures, start, rate, steps, rounds, selected, variance, samples, rng):
    """One loss sum_j c_j x_j^2 / 2 for all devices: mean_{k<K} ||grad f||^2 and mean_{k=1..K} f at the average.

    Args:
      curvatures: `[d]`.
      start: `[d]`.
      rate: eta.
      steps: tau.
      rounds: T.
      selected: r.
      variance: `[d]`, of the gradient's noise.
      samples: runs.
      rng: of the noise.
    """
    shared = np.tile(start, (samples, 1))
    squares, values = [], []
    for _ in range(rounds):
        local = np.repeat(shared[:, None], selected, 1)
        for _ in range(steps):
            squares.append(np.square(local.mean(1) * curvatures).sum(-1))
            local = local - rate * (local * curvatures + np.sqrt(variance) * rng.standard_normal(local.shape))
            values.append((np.square(local.mean(1)) @ curvatures) / 2)
        shared = local.mean(1)
    return np.mean(squares, 0), np.mean(values, 0)


@pytest.mark.parametrize(
    ("rate", "steps", "selected", "curvatures", "start", "loose"),
    [
        (0.18, 1, 1, [1.0], 0.0, 2), (0.9, 1, 3, [1.0, 0.5], 1.0, 3), (0.05, 8, 1, [1.0, 0.2], 2.0, 8),
        (0.05, 8, 4, [1.0, 0.2], 2.0, 20),
    ],
)  # fmt: skip
def test_corrected_bounds_hold_of_quadratics(rate, steps, selected, curvatures, start, loose):
    """And are at most `loose` times what is measured; several devices of several steps do not drift apart on them."""
    curvatures, d = np.array(curvatures), len(curvatures)
    found = federated_sgd(
        curvatures, np.full(d, start), rate, steps, 80, selected, np.ones(d), 200, np.random.default_rng(0)
    )
    problem = theory.Problem(1.0, 0.0, (curvatures * start**2).sum() / 2, d)
    training = theory.Schedule(rate, steps, 80, selected, 1, 1.0)
    bounds = (
        theory.convergence_bound(problem, training).corrected,
        theory.strongly_convex_bound(problem, training, curvatures.min()).corrected,
    )
    for measured, bound in zip(found, bounds, strict=True):
        error = measured.std() / math.sqrt(len(measured))
        assert bound.applies and measured.mean() - 5 * error <= bound.value <= loose * measured.mean()


@pytest.mark.parametrize(("steps", "selected"), [(1, 4), (2, 2), (10, 7), (30, 3)])
def test_corrected_bound_allows_for_the_spread_of_local_models(steps, selected):
    """Of f = -x^2/2, whose models part fastest: L^2 times the mean over steps of their mean square distance."""
    rate = 0.1
    apart = [rate**2 * sum((1 + rate) ** (2 * done) for done in range(step)) for step in range(steps)]
    spread = (1 - 1 / selected) * np.mean(apart)
    training = theory.Schedule(rate, steps, 10, selected, 1, 1.0)
    bound = theory.convergence_bound(theory.Problem(1.0, 0.0, 0.0, 1), training).corrected.value - rate / selected
    assert spread * (1 - 1e-9) - 1e-15 <= bound <= spread * (1 + rate) ** (2 * steps) + 1e-15


def test_batch_noise_is_treated_as_privacy_noise_of_its_variance():
    """The corrected bounds know the variance of a step only."""
    training = theory.Schedule(0.1, 5, 10, 3, 4, 0.0)
    sampled = theory.convergence_bound(theory.Problem(1.0, 2.0, 1.0, 6), training).corrected.value
    private = theory.convergence_bound(theory.Problem(1.0, 0.0, 1.0, 6), training._replace(sigma=1 / math.sqrt(6)))
    assert private.corrected.value == pytest.approx(sampled, rel=1e-12)


def test_printed_bounds_halve_the_noise():
    """f = x^2/2 from 0, one device and step, noise variance 1: stationary mean of x^2 eta / (2 - eta)."""
    problem, training = theory.Problem(1.0, 0.0, 0.0, 1), theory.Schedule(0.18, 1, 20_000, 1, 1, 1.0)
    variance, squares = 0.0, []
    for _ in range(20_001):
        squares.append(variance)
        variance = (1 - 0.18) ** 2 * variance + 0.18**2
    gradient, value = np.mean(squares[:-1]), np.mean(squares[1:]) / 2
    assert gradient == pytest.approx(0.0989, abs=1e-4) and value == pytest.approx(0.0495, abs=1e-4)
    theorem, lemma = theory.convergence_bound(problem, training), theory.strongly_convex_bound(problem, training, 1.0)
    assert theorem.printed == (pytest.approx(0.0900), True) and lemma.printed == (pytest.approx(0.0450), True)
    assert gradient < theorem.corrected.value and value < lemma.corrected.value


def test_printed_bounds_charge_unlike_devices_nothing():
    """Devices c_i (x - s_i)^2 / 2 from the minimum of f, without noise: bound 0, but measured 3.1e-5."""
    curvatures, centres, rate = np.array([1.0, 0.1]), np.array([1.0, -1.0]), 0.133
    shared = (curvatures @ centres) / curvatures.sum()
    squares = []
    for _ in range(2000):
        local = np.full(2, shared)
        for _ in range(2):
            squares.append(np.mean(curvatures * (local.mean() - centres)) ** 2)
            local = local - rate * curvatures * (local - centres)
        shared = local.mean()
    assert np.mean(squares) == pytest.approx(3.1e-5, rel=0.02)
    found = theory.convergence_bound(theory.Problem(1.0, 0.0, 0.0, 1), theory.Schedule(rate, 2, 2000, 2, 1, 0.0))
    assert found.printed == (0, True)


def test_printed_bounds_charge_the_selection_nothing():
    """Devices (x -+ 1)^2 / 2, one of them in each round of one step: an exact recursion for E x^2, to 0.099."""
    rate, square, squares = 0.18, 0.0, []
    for _ in range(2000):
        squares.append(square)
        square = (1 - rate) ** 2 * square + rate**2  # x <- (1 - eta) x +- eta
    assert np.mean(squares) == pytest.approx(0.099, abs=5e-4)
    found = theory.convergence_bound(theory.Problem(1.0, 0.0, 0.0, 1), theory.Schedule(rate, 1, 2000, 1, 1, 0.0))
    assert found.printed == (0, True)


@given(
    values=st.tuples(*[st.floats(0.01, 3)] * 3), steps=st.integers(1, 20), selected=st.integers(1, 30),
    factor=st.floats(1.01, 5),
)  # fmt: skip
def test_bounds_grow_with_what_makes_the_problem_harder(values, steps, selected, factor):
    problem = theory.Problem(*values, 7)
    training = theory.Schedule(0.01, steps, 30, selected, 4, 0.5)

    def at(problem, training):
        found = theory.convergence_bound(problem, training), theory.strongly_convex_bound(problem, training, 0.01)
        return np.array([bound.value for bounds in found for bound in bounds])

    plain = at(problem, training)
    for name in ("initial_gap", "gradient_std", "smoothness"):
        assert (at(problem._replace(**{name: factor * getattr(problem, name)}), training) > plain).all()
    assert (at(problem._replace(num_params=8), training) > plain).all()
    for harder in ({"sigma": 0.5 * factor}, {"rounds": 29}):
        assert (at(problem, training._replace(**harder)) > plain).all()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *((name, -1.0, r"in \[0, inf\)") for name in ("smoothness", "gradient_std", "initial_gap", "sigma")),
        *((name, 0, "an integer >= 1") for name in ("num_params", "local_steps", "rounds", "num_selected")),
        ("batch_size", 1.5, "an integer >= 1"),
        ("rate", 0.0, r"in \(0, inf\)"),
    ],
)
def test_bad_arguments(name, value, allowed):
    replaced = [whole._replace(**{name: value}) if name in whole._fields else whole for whole in (PROBLEM, TRAINING)]
    for bound in (theory.convergence_bound, functools.partial(theory.strongly_convex_bound, strong_convexity=LAMBDA)):
        with pytest.raises(ValueError, match=f"^{name} must be {allowed}, got {value}$"):
            bound(*replaced)


test_bad_strong_convexity = refused(
    (0.0, r"strong_convexity must be in \(0, inf\), got 0.0$"),
    (2.1, "strong_convexity must be at most smoothness = 2.0, got 2.1$"),
    by=lambda strong_convexity: theory.strongly_convex_bound(PROBLEM, TRAINING, strong_convexity),
)
