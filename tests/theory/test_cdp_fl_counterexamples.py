"""Theorem 1's counterexamples: their laws against Algorithm 1 run in NumPy, their delta against integration."""

import math
from inspect import unwrap

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from fedjax_priv.theory import cdp_fl as theory
from fedjax_priv.theory import gaussian, zcdp
from fedjax_priv.theory.cdp_fl.counterexamples import _stated

DELTA = 1e-4
CASES = [
    pytest.param(case, epsilon, id=f"{case.__name__}-{epsilon}")
    for case in (theory.smooth_convex, theory.one_pass, theory.part_of_a_pass)
    for epsilon in (1.0, 10.0)
]


def densities(law, s):
    """Of both laws."""
    weight = lambda s: stats.norm.pdf(s[:, None], law.means, law.stds) @ law.weights
    return weight(s), weight(-s)


def distance(found):
    """Of the two means, in standard deviations, where there is one of each."""
    return 2 * found.law.means[0] / found.law.stds[0]


@pytest.mark.parametrize(("case", "epsilon"), CASES)
def test_delta_is_the_hockey_stick_divergence(case, epsilon):
    found = case(epsilon, DELTA)
    reach = found.law.means.max() + 14 * found.law.stds.max()
    s = np.linspace(-reach, reach, 200_001)
    here, there = densities(found.law, s)
    assert found.delta == pytest.approx(np.trapezoid(np.maximum(here - math.exp(epsilon) * there, 0), s), rel=1e-4)
    assert found.law.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(("case", "epsilon"), CASES)
def test_theorem_1_is_false(case, epsilon):
    assert case(epsilon, DELTA).delta > 2 * DELTA


def test_smooth_convex():
    ten, one = theory.smooth_convex(10.0, DELTA), theory.smooth_convex(1.0, DELTA)
    assert ten.delta == pytest.approx(0.376, abs=5e-4) and one.delta == pytest.approx(0.0088, abs=5e-5)
    assert theory.epsilon(ten.training, DELTA) == pytest.approx(10, rel=1e-12)
    assert distance(ten) ** 2 / 2 / zcdp.rho(10.0, DELTA) == pytest.approx(100 / 19, rel=1e-12)
    other = theory.smooth_convex(1.0, DELTA, local_steps=3, num_selected=8)
    assert distance(other) ** 2 / 2 / zcdp.rho(1.0, DELTA) == pytest.approx(3 * 8 / (3 + 8 - 1), rel=1e-12)
    assert ten.delta == pytest.approx(gaussian.delta(10.0, distance(ten)), rel=1e-9)
    assert theory.smooth_convex(10.0, DELTA, num_samples=7).delta == pytest.approx(ten.delta, rel=1e-12)


@pytest.mark.parametrize(("case", "epsilon"), CASES[:-1])
def test_true_epsilon_has_the_true_delta(case, epsilon):
    found = case(epsilon, DELTA)
    assert theory.true_epsilon(found.law, found.delta) == pytest.approx(epsilon, rel=1e-6)
    assert theory.true_epsilon(found.law, DELTA) > epsilon


def test_true_epsilon_of_a_sample_that_is_used_and_then_seen():
    """A tenth of the chance that it is used, N(mean, 1) against N(0, 1), which the other data set nearly is."""
    found = theory.part_of_a_pass(10.0, DELTA)
    seen = gaussian.epsilon(1000 * DELTA, distance(found) / 2) - math.log(1000)
    assert theory.true_epsilon(found.law, DELTA) == pytest.approx(seen, rel=1e-4)


def test_true_epsilon_of_a_gaussian_law():
    found = theory.smooth_convex(1.0, DELTA)
    exact = gaussian.epsilon(DELTA, distance(found))
    assert theory.true_epsilon(found.law, DELTA) == pytest.approx(exact, rel=1e-9)
    with pytest.raises(ValueError, match="delta"):
        theory.true_epsilon(found.law, 0.0)


def test_smooth_convex_attains_what_is_proved():
    found = theory.smooth_convex(1.0, DELTA)
    proved = theory.proved_rho(found.training, lipschitz=1.0)
    assert proved.row == 4 and proved.rho == pytest.approx(distance(found) ** 2 / 2, rel=1e-12)
    assert gaussian.delta(theory.proved_epsilon(proved, DELTA).epsilon, distance(found)) < DELTA


def test_one_pass():
    found = theory.one_pass(10.0, DELTA)
    assert theory.epsilon(found.training, DELTA) == pytest.approx(10, rel=1e-12)
    unit = 1 + 1 / (8 * found.sigma)
    chance = lambda sign: found.law.weights @ stats.norm.sf(4.8 * unit, sign * found.law.means, found.law.stds)
    assert found.delta >= chance(1) - math.exp(10) * chance(-1) >= 0.0104
    np.testing.assert_allclose(found.law.means / unit, [1 / (500 * found.sigma), 0], atol=0.02)
    np.testing.assert_allclose(found.law.stds / unit, [1, 1], atol=0.003)


def test_one_pass_barely_feels_its_clipping():
    """The first noise is integrated over, with the other samples' gradient clipped in the second step."""
    found = theory.one_pass(10.0, DELTA)
    growth, touch, rest = 1 / (8 * found.sigma), 1 / (500 * found.sigma), math.sqrt(1 + 2 * 9)
    noise = np.linspace(-14, 14, 200_001)
    step = growth * 8
    for sign in (1, -1):
        first = noise + sign * touch
        second = noise + (1 - 1 / 500) * np.clip(growth * noise, -step, step) + sign * touch
        mean = 0.5 * (
            stats.norm.sf(found.threshold, first + np.clip(growth * first, -step, step), rest)
            + stats.norm.sf(found.threshold, second, rest)
        )
        chance = np.trapezoid(stats.norm.pdf(noise) * mean, noise)
        expected = found.law.weights @ stats.norm.sf(found.threshold, sign * found.law.means, found.law.stds)
        assert abs(chance - expected) < 1e-14


def test_part_of_a_pass():
    """A batch that is known would cost rho_1 / r; the claim is a 1,000th of that."""
    found = theory.part_of_a_pass(10.0, DELTA)
    used = theory.proved_rho(found.training)
    assert used.row == 2 and used.rho == pytest.approx(1000 * zcdp.rho(10.0, DELTA), rel=1e-12)
    assert found.delta == pytest.approx(1e-3, rel=1e-6), "the sample is used, and then seen"
    assert theory.part_of_a_pass(10.0, DELTA, num_samples=10).delta == pytest.approx(2.78e-4, rel=2e-3)


def run(rng, count, sigma, device, others, num_others=9, rate=0.5):
    """Algorithm 1, one round from 0 in one dimension with G = 1: `[count]`, the sum of the uploads over eta sigma.

    Args:
      rng: of the noise.
      count: runs.
      sigma: noise.
      device: for each step a function of theta, `[count]`, the mean of the clipped gradients.
      others: one function, of every other device's samples and steps.
      num_others: r - 1.
      rate: eta.
    """
    theta, rest = np.zeros(count), np.zeros((num_others, count))
    for gradient in device:
        theta = theta - rate * (gradient(theta) + sigma * rng.standard_normal(count))
        rest = rest - rate * (others(rest) + sigma * rng.standard_normal(rest.shape))
    return (theta + rest.sum(0)) / (rate * sigma)


def smooth_convex_sums(rng, count, sigma, sign):
    return run(rng, count, sigma, [lambda theta: -sign / 100] * 10, lambda theta: np.clip(theta / 0.5, -1, 1))


def one_pass_sums(rng, count, sigma, sign):
    first = rng.random(count) < 0.5
    others = lambda theta: np.clip(-theta / (8 * 0.5 * sigma), -1, 1)
    mean = lambda used: lambda theta: np.where(used, (-sign + 499 * others(theta)) / 500, others(theta))
    return run(rng, count, sigma, [mean(first), mean(~first)], lambda theta: 0.0)


def part_of_a_pass_sums(rng, count, sigma, sign):
    used = rng.random(count) < 0.001
    return run(rng, count, sigma, [lambda theta: np.where(used, -sign, 0)], lambda theta: 0.0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("sums", [smooth_convex_sums, one_pass_sums, part_of_a_pass_sums], ids=lambda f: f.__name__)
def test_law_is_that_of_algorithm_1(sums, sign):
    found = getattr(theory, sums.__name__.removesuffix("_sums"))(10.0, DELTA)
    drawn = sums(np.random.default_rng(5 + sign), 20_000, found.sigma, sign)
    cdf = lambda s, sign: (
        stats.norm.cdf(np.asarray(s)[:, None], sign * found.law.means, found.law.stds) @ found.law.weights
    )
    assert stats.kstest(drawn, lambda s: cdf(s, sign)).pvalue > 1e-3
    if sums is not part_of_a_pass_sums:  # in which a sample in a thousand is used
        assert stats.kstest(drawn, lambda s: cdf(s, -sign)).pvalue < 1e-6


def test_part_of_a_pass_sums_show_when_the_sample_is_used():
    found = theory.part_of_a_pass(10.0, DELTA)
    for sign in (1, -1):
        drawn = part_of_a_pass_sums(np.random.default_rng(3), 20_000, found.sigma, sign)
        seen = (sign * drawn > found.threshold).sum()
        assert abs(seen - 20) < 5 * math.sqrt(20) and (sign * drawn < -found.threshold).sum() == 0


def test_an_audit_contradicts_theorem_1_and_not_what_is_proved():
    """Stated eps = 1 at m = 100; E: S beyond the midpoint by eps / mu standard deviations, 1e5 runs of each."""
    found, count, epsilon = theory.smooth_convex(1.0, DELTA), 100_000, 1.0
    assert found.threshold == pytest.approx(epsilon / distance(found) * found.law.stds[0], rel=1e-9)
    rng = np.random.default_rng(0)
    drawn = [smooth_convex_sums(rng, count, found.sigma, sign) for sign in (1, -1)]

    def measured(stated, threshold):
        here, there = ((sums > threshold).mean() for sums in drawn)
        error = math.sqrt((here * (1 - here) + math.exp(2 * stated) * there * (1 - there)) / count)
        return here - math.exp(stated) * there, error

    value, error = measured(epsilon, found.threshold)
    assert value == pytest.approx(0.0089, abs=3 * 0.0012) and error == pytest.approx(0.0012, rel=0.25)
    assert value - 5 * error > DELTA
    proved = theory.proved_epsilon(theory.proved_rho(found.training, lipschitz=1.0), DELTA)
    for threshold in found.law.stds[0] * np.linspace(0, 4, 9):
        value, error = measured(proved.epsilon, threshold)
        assert value < DELTA + 3 * error


ONE, PROVED = theory.smooth_convex(1.0, DELTA)[:2]
test_bad_arguments = refused(
    (lambda: unwrap(_stated)(np.array([1.0, 2.0]), DELTA, ONE), "epsilon must be one number in"),
    (lambda: unwrap(_stated)(1.0, np.array([0.1, 0.2]), ONE), "delta must be one number in"),
    (lambda: unwrap(theory.true_epsilon)(PROVED, np.array([0.1, 0.2])), "delta must be one number in"),
    (lambda: theory.smooth_convex(0.0, DELTA), r"epsilon must be in \(0, inf\), got 0.0"),
    (lambda: theory.smooth_convex(1.0, 1.0), r"delta must be in \(0, 1\), got 1.0"),
    (lambda: theory.smooth_convex(1.0, DELTA, local_steps=0), "local_steps must be an integer >= 1, got 0"),
    (lambda: theory.one_pass(1.0, DELTA, batch_size=0), "batch_size must be an integer >= 1, got 0"),
    (
        lambda: unwrap(theory.part_of_a_pass)(1.0, DELTA, batch_size="a"),
        "batch_size must be an integer >= 1, got 'a'",
    ),
    (lambda: theory.part_of_a_pass(1.0, DELTA, batch_size=1000), "batch_size must be below num_samples = 1000, got"),
    (lambda: theory.part_of_a_pass(1.0, DELTA, batch_size=3), "batch_size must be a divisor of num_samples = 1000"),
)
