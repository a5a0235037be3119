import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from fedjax_priv.theory import fedrep as theory

PROBLEM = theory.Problem(smoothness=3.0, heterogeneity=0.2, gradient_norm=1.5, gradient_std=2.0, initial_gap=0.7)
DEFENCE = theory.Defence(inverse_contraction=8.0, robustness=0.9, byzantine_fraction=0.2)
L, B, D, S, GAP, H = 3.0, 0.2, 1.5, 2.5, 0.7, 8.0
SOME = st.floats(0.01, 20)
PROBLEMS = st.builds(theory.Problem, SOME, SOME, SOME, SOME, SOME)
DEFENCES = st.builds(theory.Defence, st.floats(1, 1000), SOME, st.floats(0, 0.49))


def test_lemmas():
    for how, factor in (({}, 4), ({"decaying": True}, 8)):
        memory = factor * 64 * 25 * 6.25 * 0.01
        error = 8 * 0.9 * 0.2 * 25 * (factor * 64 + 1) * 6.25 * 0.01
        assert theory.memory_bound(PROBLEM, H, 0.1, 5, **how) == pytest.approx(memory, rel=1e-12)
        assert theory.aggregate_error_bound(PROBLEM, DEFENCE, 0.1, 5, **how) == pytest.approx(error, rel=1e-12)


def test_memory_bound_holds_where_coordinates_wait_longest():
    """One constant gradient for everyone, alpha = 0: coordinates are sent in turn, and ||u||^2 gets to a 12th of it."""
    d, n, steps, rate = 60, 2, 3, 0.1
    memory, largest = np.zeros(d), 0.0
    for _ in range(200):
        update = memory + rate * steps * np.ones(d) / math.sqrt(d)
        memory = update.copy()
        memory[np.argsort(-update, kind="stable")[:n]] = 0
        largest = max(largest, np.square(memory).sum())
    problem = theory.Problem(0.0, 0.0, 1.0, 0.0, 0.0)
    bound = theory.memory_bound(problem, theory.contraction(d, 4 * n, 4, 0.0).inverse, rate, steps)
    assert bound / 15 < largest < bound / 10


def test_theorem_3_is_the_printed_formula():
    eta, steps, rounds, c, delta = 1e-3, 6, 400, 0.9, 0.2
    disturbed = c * delta * (4 * H**2 + 1)
    common = 2 * H * D * S + S**2 + 8 * disturbed * S**2
    gamma_2 = 8 * H**2 * steps**2 * L**2 * S**2
    floor = 2 * B * D + 4 * math.sqrt(2 * disturbed) * S * D
    found = theory.convergence_bound(PROBLEM, DEFENCE, rate=eta, local_steps=steps, iterations=rounds)
    for bound, first in (
        (found.printed, 2 * (1 - 1 / steps) * L * D),
        (found.corrected, (1 - 1 / steps) * D * S / 2),
    ):
        gamma_1 = 2 * steps * L * (first + common)
        expected = 2 * GAP / (eta * steps * rounds) + eta * gamma_1 + eta**2 * gamma_2 + floor
        assert bound.value == pytest.approx(expected, rel=1e-12)
        assert bound.vacuous


def test_theorem_4_is_the_printed_formula():
    eta, bias, moment, rounds, c, delta = 2e-3, 0.3, 1.7, 400, 0.9, 0.2
    disturbed = c * delta * (4 * H**2 + 1)
    gamma_1 = 2 * moment**2 * L + 4 * H * moment * D * L + 16 * disturbed * moment**2 * L
    gamma_2 = 8 * H**2 * moment**2 * L**2
    floor = 2 * bias * D + 2 * B * D + 4 * math.sqrt(2 * disturbed) * moment * D
    expected = 2 * GAP / (eta * rounds) + eta * gamma_1 + eta**2 * gamma_2 + floor
    algorithm = theory.LocalAlgorithm(eta, bias, moment)
    found = theory.algorithm_convergence_bound(PROBLEM, DEFENCE, algorithm, iterations=rounds)
    assert found.value == pytest.approx(expected, rel=1e-12)


def test_proposition_3_is_the_printed_formula():
    eta, steps, beta = 0.02, 5, 0.9
    stale = beta * (1 - beta**steps) / (steps * (1 - beta))
    drift = sum(j * (1 - beta ** (steps - j)) for j in range(steps)) / steps
    found = theory.momentum_sgd(PROBLEM, rate=eta, local_steps=steps, beta=beta)
    assert found.printed == pytest.approx((eta * steps, stale * D + S + drift * L * S, S), rel=1e-12)
    assert found.corrected == pytest.approx((eta * steps, stale * (D + S) + eta * drift * L * S, S), rel=1e-12)
    once = theory.momentum_sgd(PROBLEM, rate=eta, local_steps=1, beta=0.0)
    assert once.corrected == pytest.approx((eta, 0, S))
    assert once.printed.bias == pytest.approx(S)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1 - 1e-4, 1 - 1e-9, 1 - 1e-15])
@pytest.mark.parametrize("steps", [1, 5, 300])
def test_proposition_3_keeps_its_digits_as_momentum_goes_to_1(beta, steps):
    with mpmath.workdps(50):
        b = mpmath.mpf(beta)
        stale = b * (1 - b**steps) / (steps * (1 - b))
        drift = sum(j * (1 - b ** (steps - j)) for j in range(steps)) / steps
    problem = PROBLEM._replace(smoothness=1e6)
    found = theory.momentum_sgd(problem, rate=0.01, local_steps=steps, beta=beta)
    np.testing.assert_allclose(found.corrected.bias, float(stale * (D + S) + 0.01 * drift * 1e6 * S), rtol=1e-12)
    np.testing.assert_allclose(found.printed.bias, float(stale * D + S + drift * 1e6 * S), rtol=1e-12)
    each = theory.momentum_sgd(problem, rate=0.01, local_steps=np.array([[steps], [2]]), beta=np.array([beta, 0.1]))
    assert each.corrected.bias.shape == (2, 2) and each.corrected.bias[0, 0] == found.corrected.bias


@given(
    problem=PROBLEMS, defence=DEFENCES, rate=st.floats(1e-6, 1), steps=st.integers(1, 50), rounds=st.integers(1, 10**6)
)
def test_without_momentum_theorem_4_is_the_corrected_theorem_3(problem, defence, rate, steps, rounds):
    third = theory.convergence_bound(problem, defence, rate=rate, local_steps=steps, iterations=rounds)
    plain = theory.momentum_sgd(problem, rate=rate, local_steps=steps, beta=0.0)
    fourth = theory.algorithm_convergence_bound(problem, defence, plain.corrected, iterations=rounds)
    assert fourth.value == pytest.approx(third.corrected.value, rel=1e-12)
    assert fourth.vacuous == (fourth.value >= problem.gradient_norm**2)
    moment = math.hypot(problem.gradient_norm, problem.gradient_std)
    assert third.printed.value == third.corrected.value or steps > 1
    if third.printed.value != pytest.approx(third.corrected.value, rel=1e-12):
        assert (third.printed.value < third.corrected.value) == (4 * problem.smoothness < moment)


@given(
    problem=PROBLEMS, rate=st.floats(1e-6, 1), steps=st.integers(1, 50), beta=st.floats(0, 0.99),
    inverse=st.floats(1, 1000),
)  # fmt: skip
def test_proposition_3_as_printed_says_nothing(problem, rate, steps, beta, inverse):
    printed = theory.momentum_sgd(problem, rate=rate, local_steps=steps, beta=beta).printed
    assert theory.algorithm_convergence_bound(problem, theory.Defence(inverse), printed, iterations=10**9).vacuous


def test_where_the_bounds_begin_to_say_something():
    """c delta (4H^2+1) S^2 < D^2/32 with an attack; with momentum 0.9 at least 36 local steps."""
    problem = theory.Problem(1.0, 0.0, 1.0, 0.0, 1.0)
    limit = 1 / 32 / (4 * 640.0**2 + 1)
    for factor, vacuous in ((0.99, False), (1.01, True)):
        defence = theory.Defence(640.0, factor * limit / 0.25, 0.25)
        found = theory.convergence_bound(problem, defence, rate=1e-9, local_steps=1, iterations=10**14)
        assert found.corrected.vacuous == vacuous
    for steps, vacuous in ((35, True), (36, False)):
        algorithm = theory.momentum_sgd(problem, rate=1e-9, local_steps=steps, beta=0.9).corrected
        found = theory.algorithm_convergence_bound(problem, theory.Defence(1.0), algorithm, iterations=10**14)
        assert found.vacuous == vacuous


@given(problem=PROBLEMS, defence=DEFENCES, factor=st.floats(1.01, 10))
def test_bounds_grow_with_what_makes_the_problem_harder(problem, defence, factor):
    bound = lambda problem, defence: (
        theory.convergence_bound(problem, defence, rate=0.01, local_steps=3, iterations=100).corrected.value
    )
    for name in problem._fields:
        harder = problem._replace(**{name: factor * getattr(problem, name)})
        assert bound(harder, defence) > bound(problem, defence)
    for name in ("inverse_contraction", "robustness"):
        weaker = defence._replace(**{name: factor * getattr(defence, name)})
        assert bound(problem, weaker) >= bound(problem, defence)


def test_arrays_are_broadcast():
    rates = np.array([1e-4, 1e-3])
    found = theory.convergence_bound(PROBLEM, DEFENCE, rate=rates, local_steps=2, iterations=np.array([[10], [20]]))
    assert found.printed.value.shape == found.corrected.vacuous.shape == (2, 2)


def memory_of(inverse=H, rate=0.1, **changes):
    return theory.memory_bound(PROBLEM._replace(**changes), inverse, rate, 5)


def error_of(**changes):
    return theory.aggregate_error_bound(PROBLEM, DEFENCE._replace(**changes), 0.1, 5)


def bound_of(**how):
    return theory.convergence_bound(PROBLEM, DEFENCE, **{"rate": 0.1, "local_steps": 1, "iterations": 1} | how)


NEGATIVE_MOMENT = theory.LocalAlgorithm(0.1, 0.0, -1.0)
test_bad_arguments = refused(
    (lambda: memory_of(rate=0.0), r"rate must be in \(0, inf\), got 0.0$"),
    (lambda: memory_of(inverse=0.5), r"inverse_contraction must be in \[1, inf\), got 0.5$"),
    (lambda: memory_of(smoothness=-1.0), r"smoothness must be in \[0, inf\), got -1.0$"),
    (lambda: memory_of(heterogeneity=math.nan), r"heterogeneity must be in \[0, inf\), got nan$"),
    (lambda: error_of(robustness=-1.0), r"robustness must be in \[0, inf\), got -1.0$"),
    (lambda: error_of(byzantine_fraction=0.5), r"byzantine_fraction must be in \[0, 0.5\), got 0.5$"),
    (lambda: bound_of(local_steps=0), "local_steps must be an integer >= 1, got 0$"),
    (lambda: bound_of(iterations=1.5), "iterations must be an integer >= 1, got 1.5$"),
    (lambda: theory.momentum_sgd(PROBLEM, rate=0.1, local_steps=1, beta=1.0), r"beta must be in \[0, 1\), got 1.0$"),
    (lambda: theory.momentum_sgd(PROBLEM, rate=0.1, local_steps=2**40, beta=0.5), "local_steps must be at most"),
    (lambda: theory.algorithm_convergence_bound(PROBLEM, DEFENCE, NEGATIVE_MOMENT, iterations=1),
     r"moment must be in \[0, inf\), got -1.0$"),
)  # fmt: skip
