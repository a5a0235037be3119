"""Levels, truncation and power allocation against closed forms, quadrature, SciPy's optimisers and simulation."""

import numpy as np
import pytest
from refusals import refused
from scipy import integrate, optimize, special, stats

from fedjax_priv.theory import gaussian, sampled_gaussian
from fedjax_priv.theory import wireless as theory

DELTA = 1e-5


def test_truncated_inversion_of_rayleigh_fading_is_an_exponential_integral():
    draws = np.random.default_rng(0).exponential(size=400_000)  # h^2
    for g in (0.1, 0.7):
        energy, sends = theory.truncated_inversion(g)
        inverse = np.where(draws >= g, 1 / draws, 0)
        assert abs(inverse.mean() - energy) < 4 * inverse.std() / np.sqrt(draws.size)
        assert energy == pytest.approx(integrate.quad(lambda t: np.exp(-t) / t, g, np.inf)[0], rel=1e-9)
        assert abs((draws >= g).mean() - sends) < 4 * np.sqrt(sends * (1 - sends) / draws.size)
    assert np.isinf(theory.truncated_inversion(0.0).energy) and theory.truncated_inversion(0.0).sends == 1
    near = theory.truncated_inversion(0.3, factor=1e-9)
    np.testing.assert_allclose(near, theory.truncated_inversion(0.3), rtol=1e-6)


def test_truncated_inversion_of_rician_fading():
    energy, sends = theory.truncated_inversion(np.array([0.1, 0.2, 0.5]), factor=5.0)
    np.testing.assert_allclose(energy, [1.42510, 1.27150, 0.83265], atol=1e-5)
    np.testing.assert_allclose(sends, [0.99036, 0.96737, 0.81494], atol=1e-5)


def by_mixture(g, factor):
    """E[1 / h^2; h^2 >= g]: (G + 1) h^2 is a sum of n + 1 exponentials, n Poisson of mean G."""
    n, x = np.arange(1, int(factor + 12 * np.sqrt(factor) + 60)), g * (1 + factor)
    several = (stats.poisson.pmf(n, factor) * special.gammaincc(n, x) / n).sum()
    return (1 + factor) * (np.exp(-factor) * special.exp1(x) + several)


@pytest.mark.parametrize("factor", [0.5, 5.0, 100.0, 5e3, 1e5])
def test_truncated_inversion_of_a_narrow_law_of_gains(factor):
    for g in (1e-6, 0.2, 0.99, 1.0, 1.01):
        assert theory.truncated_inversion(g, factor).energy == pytest.approx(by_mixture(g, factor), rel=1e-9)


@pytest.mark.parametrize("factor", [0.5, 5.0])
def test_truncated_inversion_of_rician_fading_that_is_drawn(factor):
    energy, sends = theory.truncated_inversion(0.2, factor=factor)
    scattered = np.random.default_rng(1).normal(size=(2, 400_000)).T @ [1, 1j] / np.sqrt(2)
    square = np.abs(np.sqrt(factor) + scattered) ** 2 / (factor + 1)
    inverse = np.where(square >= 0.2, 1 / square, 0)
    assert abs(inverse.mean() - energy) < 4 * inverse.std() / np.sqrt(square.size)
    assert abs((square >= 0.2).mean() - sends) < 4 * np.sqrt(sends * (1 - sends) / square.size)


@pytest.mark.parametrize(("g", "factor"), [(15.0, 5.0), (3.0, 100.0), (60.0, 0.5), (1e-4, 5.0)])
def test_truncated_inversion_in_the_far_tail(g, factor):
    """How often a user sends is P[h^2 >= g] = e^-G sum_n G^n / n! Q(n + 1, (1 + G) g)."""
    n, x = np.arange(int(factor + 12 * np.sqrt(factor) + 400)), g * (1 + factor)
    sends = (stats.poisson.pmf(n, factor) * special.gammaincc(n + 1, x)).sum()
    found = theory.truncated_inversion(g, factor)
    np.testing.assert_allclose(found.sends, sends, rtol=1e-8)
    assert found.sends <= 1
    np.testing.assert_allclose(theory.truncation_noise(g, factor), found.energy / sends / sends, rtol=1e-7)


def test_a_threshold_that_nobody_reaches_is_infinite_noise():
    np.testing.assert_array_equal(theory.truncation_noise(np.array([1e4, 0.0])), [np.inf, np.inf])
    assert np.isinf(theory.truncation_noise(1e4, 5.0)) and theory.truncated_inversion(0.0, 5.0).sends == 1
    assert np.isfinite(theory.truncation_noise(400.0))


def test_the_threshold_of_the_least_noise():
    assert theory.best_truncation() == pytest.approx(0.610058, abs=1e-6)
    assert theory.truncated_inversion(theory.best_truncation()).sends == pytest.approx(0.543319, abs=1e-6)
    for factor in (0.0, 5.0):
        best = theory.best_truncation(factor)
        found = optimize.minimize_scalar(lambda g, f=factor: theory.truncation_noise(g, f), (0.1, 0.5, 2.0))
        assert best == pytest.approx(found.x, rel=1e-4)
    for factor in (1e3, 5e3, 1e5):  # where everybody sends
        assert theory.best_truncation(factor) == pytest.approx(0.5 / by_mixture(0.1, factor), rel=1e-9)
    g, power, received, n0, k = 0.2, 10.0, 1.5, 0.7, 20
    c = theory.truncation_level(power, g, energy_received=received)
    noise = n0 / (c * k * np.exp(-g)) ** 2
    assert noise == pytest.approx(n0 * received / power / k**2 * theory.truncation_noise(g), rel=1e-12)
    assert noise == pytest.approx(n0 * special.exp1(g) * np.exp(2 * g) * received / (power * k**2), rel=1e-12)


def test_who_sends_in_public():
    """Rounds compose as one Gaussian mechanism, of each user by the rounds in which it sends."""
    sends = np.array([[True, True, False], [True, False, True]])
    setting = theory.Round(3, 1.0, 0.5, 0.4, 0.9)
    c, a = np.array([0.7, 1.3]), np.array([1.0, 0.5, 0.8])
    found = theory.public_set_sensitivity(setting, sends, level=c, amplitudes=a, noise_amplitudes=a)
    first = 2 * 0.5 * a[:2] / np.sqrt(0.4 * (1 + 0.25) + 0.9 / 0.49)
    second = 2 * 0.5 * a[[0, 2]] / np.sqrt(0.4 * (1 + 0.64) + 0.9 / 1.69)
    np.testing.assert_allclose(found, [[*first, 0], [second[0], 0, second[1]]])
    alone = theory.public_set_sensitivity(
        setting, sends, level=c, amplitudes=a, noise_amplitudes=a, neighbours="zero-out"
    )
    np.testing.assert_allclose(alone, found / 2)
    eps = theory.public_set_epsilon(DELTA, found)
    np.testing.assert_allclose(gaussian.delta(eps, np.sqrt((found**2).sum(0))), DELTA, rtol=1e-9)
    np.testing.assert_allclose(theory.public_set_epsilon_by_round(DELTA, found)[[0, 1]], [
        gaussian.epsilon(DELTA, found[0].max()), eps.max()])  # fmt: skip
    turns = theory.public_set_epsilon_by_round(DELTA, np.array([[0.3, 0.4], [0.4, 0.0]]))
    np.testing.assert_allclose(turns, gaussian.epsilon(DELTA, np.array([0.4, 0.5])))
    same = theory.rigorous_epsilon(setting._replace(num_users=3), DELTA)
    everybody = theory.public_set_sensitivity(setting, np.ones((1, 3), bool))
    np.testing.assert_allclose(theory.public_set_epsilon(DELTA, everybody), same, rtol=1e-9)


def test_hidden_senders_without_noise_of_their_own():
    """The Poisson-sampled Gaussian mechanism with noise multiplier sqrt(N0) / (c L), by integrals of its pairs."""
    p, s = 0.3, 0.8
    one = sampled_gaussian.Round(1 / s, p)
    y = np.linspace(-14, 14, 280_001)
    law = lambda mean: (1 - p) * stats.norm.pdf(y) + p * stats.norm.pdf(y - mean)
    over = lambda first, second, eps: np.maximum(first - np.exp(eps) * second, 0).sum() * (y[1] - y[0])
    removed, replaced = [0.0641905, 0.0135531, 0.00167000], [0.134429, 0.0399536, 0.00642634]
    hidden = theory.Round(20, p, s, 0.0, 1.0)
    tables = (0.1, 0.5, 1.0), removed, replaced, (0.153453, 0.0986039, 0.0574638)
    for eps, leaves, other, joint in zip(*tables, strict=True):
        found = [float(sampled_gaussian.delta(eps, [(one, 1)], how)) for how in ("add/remove", "replacement")]
        np.testing.assert_allclose(found, [leaves, other], rtol=1e-5)
        plain = stats.norm.pdf(y)
        pairs = [over(law(s), plain, eps), over(plain, law(s), eps)], [over(law(s), law(-s), eps)]
        np.testing.assert_allclose([max(each) for each in pairs], found, rtol=1e-5)
        assert p * float(gaussian.delta(np.log1p(np.expm1(eps) / p), 2 * s)) == pytest.approx(joint, rel=1e-5)
        assert joint > other
        assert found[0] <= found[1] <= theory.rigorous_delta(hidden, eps)
    totals = [float(sampled_gaussian.epsilon(DELTA, [(one, 10)], how)) for how in ("add/remove", "replacement")]
    np.testing.assert_allclose(totals, [4.8437, 7.1826], atol=2e-4)
    counted = [float(theory.rigorous_delta(hidden, eps)) for eps in (0.1, 0.5, 1.0)]
    np.testing.assert_allclose(counted, [0.153771, 0.100804, 0.0604653], rtol=1e-5)


def test_budgets_of_sensitivity():
    for eps, printed, exact in ((1.0, 0.0485752, 0.0718514), (10.0, 3.480853, 4.001783)):
        assert theory.printed_sensitivity_budget(eps, DELTA) == pytest.approx(printed, abs=2e-7 * eps * 10)
        assert theory.squared_sensitivity_budget(eps, DELTA) == pytest.approx(exact, abs=2e-7 * eps * 10)
        assert gaussian.epsilon(DELTA, np.sqrt(exact)) == pytest.approx(eps, rel=1e-5)
    assert theory.level_budget(10.0, DELTA, clip=0.5, receiver_noise=2.0) == pytest.approx(8 * 1.000446, rel=1e-5)


@pytest.mark.parametrize(("eps", "delta"), [(0.0, 1e-20), (0.0, 1e-150), (1e36, 1e-5), (1e300, 0.5), (0.0, 0.999999)])
def test_budgets_of_sensitivity_of_any_size(eps, delta):
    budget = theory.squared_sensitivity_budget(eps, delta)
    if eps:
        assert budget == pytest.approx(2 * eps, rel=1e-12)  # s^2 / 2 is nearly all of the loss
    else:
        np.testing.assert_allclose(gaussian.delta(0.0, np.sqrt(budget)), delta, rtol=1e-12)


WEIGHTS = theory.contraction_weights(50, 0.9)
BUDGET = theory.level_budget(10.0, DELTA, clip=1.0, receiver_noise=1.0)


def test_privacy_for_free_allocates_most_to_the_last_rounds():
    found = theory.allocate(WEIGHTS, BUDGET)
    q = found.squared_levels
    value = theory.noise_cost(WEIGHTS, q)
    assert BUDGET == pytest.approx(1.000446, abs=1e-6) == q.sum()
    np.testing.assert_allclose([q[0], q[-1]], [0.00418550, 0.0553103], rtol=1e-5)
    assert value == pytest.approx(327.0256, abs=1e-4) == np.sqrt(WEIGHTS).sum() ** 2 / BUDGET
    constant = theory.noise_cost(WEIGHTS, BUDGET / 50)
    assert (constant, value / constant) == pytest.approx((497.2015, 0.657732), rel=1e-6)
    assert theory.dual_value(WEIGHTS, found, BUDGET) == pytest.approx(value, rel=1e-12)
    wrong = 0.9 ** (np.arange(1, 51) / 2)  # falls, where it should rise
    assert theory.noise_cost(WEIGHTS, wrong * BUDGET / wrong.sum()) == pytest.approx(1633.76, abs=0.01)


def test_caps_of_power():
    found = theory.allocate(WEIGHTS, BUDGET, 0.03)
    q = found.squared_levels
    assert (q == 0.03).sum() == 18 and q.sum() == pytest.approx(BUDGET)
    assert theory.noise_cost(WEIGHTS, q) == pytest.approx(365.462, abs=1e-3)
    last, least = WEIGHTS[-12:], 0.2
    solved = solve(last, 0.018, (np.ones(12), least))
    few = theory.allocate(last, least, 0.018).squared_levels
    assert 0 < (few == 0.018).sum() < 12
    assert theory.noise_cost(last, few) == pytest.approx(solved, rel=1e-5)
    free = theory.allocate(WEIGHTS, BUDGET, np.linspace(0.005, 0.02, 50))
    assert free.privacy_price == 0 and (free.squared_levels == np.linspace(0.005, 0.02, 50)).all()


@pytest.mark.parametrize("largest", [1e-6, 1.0, 400.0])
def test_levels_are_those_of_their_price_or_capped(largest):
    """What is optimal: `q = min(cap, sqrt(w / nu))`, the budget used up; also where small weights take what is left."""
    w = largest * np.array([1.0, 0.3, 1e-4, 1e-6])
    for caps in (np.inf, np.array([0.5, 0.1, np.inf, np.inf]), np.array([1e-3, 1e-3, 1.0, np.inf])):
        q, nu, _ = theory.allocate(w, 2.0, caps)
        np.testing.assert_allclose(q, np.minimum(caps, np.sqrt(w / nu)), rtol=1e-9)
        assert q.sum() == pytest.approx(2.0, rel=1e-12)


FREE = np.array([0.5, 1.0, 1e-4]) / 1.5001


@pytest.mark.parametrize(("size", "budget"), [(1e-300, 1e200), (1.0, 1e161), (1e300, 1e-200), (1e-300, 1e300)])
def test_levels_do_not_depend_on_the_size_of_weights_and_budgets(size, budget):
    """Prices are in units of w / B^2, which float64 may not hold."""
    w = np.array([0.25, 1.0, 1e-8])
    np.testing.assert_allclose(theory.allocate(size * w, budget).squared_levels / budget, FREE, rtol=1e-12)
    capped = theory.allocate(size * w, budget, 0.5 * budget).squared_levels
    np.testing.assert_allclose(capped / budget, theory.allocate(w, 1.0, 0.5).squared_levels, rtol=1e-12)
    assert capped.sum() <= budget


@pytest.mark.parametrize(("rounds", "contraction"), [(10_000, 0.9), (400, 0.1)])
def test_the_first_of_many_rounds_count_next_to_nothing(rounds, contraction):
    """Weights underflow there; levels are at least those of the optimum, sqrt(rho) apart, and add up to the budget."""
    w = theory.contraction_weights(rounds, contraction)
    found = theory.allocate(w, 2.0).squared_levels
    fraction = np.sqrt(contraction)
    np.testing.assert_allclose(found[-9:], 2.0 * (1 - fraction) * fraction ** np.arange(8.0, -1, -1), rtol=1e-12)
    assert (found > 0).all() and found.sum() <= 2.0
    assert theory.noise_cost(w, found) == pytest.approx(1 / (1 - fraction) ** 2 / 2.0, rel=1e-12)
    priced = theory.allocate_energy(w, 2.0, np.full(rounds, 3.0), 3.0)
    np.testing.assert_allclose(priced.squared_levels[-9:], found[-9:] / 2, rtol=1e-9)


def test_an_energy_budget_next_to_the_one_of_privacy():
    """The dual meets the value where both bind, where one does, and where caps bind SLSQP agrees."""
    prices = 1 / np.random.default_rng(4).exponential(size=50).clip(0.2)
    free = theory.allocate(WEIGHTS, BUDGET)
    whole = float(prices @ free.squared_levels)
    seen = set()
    for energy in (2 * whole, 0.8 * whole, 0.2 * whole):
        found = theory.allocate_energy(WEIGHTS, BUDGET, prices, energy)
        q = found.squared_levels
        assert q.sum() <= BUDGET * (1 + 1e-9) and prices @ q <= energy * (1 + 1e-9)
        value = theory.noise_cost(WEIGHTS, q)
        assert theory.dual_value(WEIGHTS, found, BUDGET, prices, energy) == pytest.approx(value, rel=1e-8)
        other = found._replace(energy_price=1.5 * found.energy_price + 30)
        worse = theory.dual_value(WEIGHTS, other, BUDGET, prices, energy)
        assert worse < value * (1 - 1e-5)
        seen.add((found.privacy_price > 0, found.energy_price > 0))
    assert seen == {(True, False), (True, True), (False, True)}
    last, e = WEIGHTS[-12:], prices[:12]
    energy = 0.9 * e @ theory.allocate(last, 0.15, 0.015).squared_levels
    capped = theory.allocate_energy(last, 0.15, e, energy, caps=0.015)
    assert capped.privacy_price > 0 < capped.energy_price and (capped.squared_levels == 0.015).any()
    solved = solve(last, 0.015, (np.ones(12), 0.15), (e, energy))
    assert theory.noise_cost(last, capped.squared_levels) == pytest.approx(solved, rel=1e-5)


def test_online_levels_cost_more_than_offline_ones_unless_nothing_was_unknown():
    """Planned with the mean price; the offline optimum is below by its certificate."""
    assert theory.noise_cost(WEIGHTS, theory.allocate_online(WEIGHTS, BUDGET)) == pytest.approx(327.0256, abs=1e-4)
    weights, budget, same = WEIGHTS[-8:], BUDGET / 4, np.full(8, 2.0)
    offline = theory.allocate_energy(weights, budget, same, 0.3).squared_levels
    np.testing.assert_allclose(theory.allocate_online(weights, budget, same, 0.3), offline, rtol=1e-9)
    capped = theory.allocate(weights, budget, 0.02).squared_levels
    np.testing.assert_allclose(theory.allocate_online(weights, budget, caps=0.02, expected_cap=0.02), capped, rtol=1e-9)
    rng, excess = np.random.default_rng(8), []
    for energy in (0.1, 0.3):
        prices = 1 / (0.1 + rng.exponential(size=8))
        for expected in (0.5 * prices.mean(), 2 * prices.mean()):
            q = theory.allocate_online(weights, budget, prices, energy, expected_price=expected)
            assert q.sum() <= budget * (1 + 1e-9) and prices @ q <= energy * (1 + 1e-9)
            best = theory.allocate_energy(weights, budget, prices, energy)
            certified = theory.dual_value(weights, best, budget, prices, energy)
            excess.append(theory.noise_cost(weights, q) / certified - 1)
    assert min(excess) > -1e-9 and max(excess) > 0.02
    assert theory.noise_cost(weights, 1.3 * q) < certified  # the control: levels that overspend


def solve(weights, cap, *limits):
    """The least cost by SLSQP, in units of the cap; each limit is `(a, b)`, for a q <= b."""
    found = optimize.minimize(
        lambda x: (weights / x).sum(), np.full(weights.size, 0.3), jac=lambda x: -weights / x**2, method="SLSQP",
        bounds=[(1e-3, 1.0)] * weights.size, options={"maxiter": 500, "ftol": 1e-12},
        constraints=[{"type": "ineq", "fun": lambda x, a=a, b=b: b / cap - a @ x} for a, b in limits],
    )  # fmt: skip
    assert found.success
    return found.fun / cap


def test_the_gap_of_a_quadratic_stays_below_the_bound():
    """Exactly: coordinate i of curvature l_i shrinks by 1 - l_i / mu and gets noise of variance N0 / (q_t K^2 mu^2)."""
    curvature = np.linspace(0.1, 1.0, 7)
    n0, k, start = 1.0, 20, 1.0
    for q in (theory.allocate(WEIGHTS, BUDGET).squared_levels, np.full(50, BUDGET / 50)):
        square = np.full(7, start)
        for level in q:
            square = (1 - curvature) ** 2 * square + n0 / (level * k**2)
        gap = (curvature * square).sum() / 2
        bound = 0.9**50 * (curvature * start).sum() / 2 + 7 * n0 / (2 * k**2) * theory.noise_cost(WEIGHTS, q)
        assert 0.9**50 * curvature.sum() / 2 < gap < bound


test_bad_arguments = refused(
    (lambda: theory.truncated_inversion(-0.1), r"threshold must be in \[0, inf\), got -0.1"),
    (lambda: theory.truncation_level(0.0, 0.1, energy_received=1.0), r"power must be in \(0, inf\), got 0.0"),
    (lambda: theory.squared_sensitivity_budget(0.0, 1e-200), "delta must be larger: float64 does not hold"),
    (lambda: theory.squared_sensitivity_budget(1e308, 1e-5), "epsilon must be smaller: float64 does not hold"),
    (lambda: theory.allocate(WEIGHTS, -1.0), r"budget must be in \(0, inf\), got -1.0"),
    (lambda: theory.allocate(np.zeros(2), 1.0), r"weights must be in \(0, inf\), got"),
    (lambda: theory.allocate(np.ones((2, 3)), 1.0), r"weights must be numbers \[T\], got shape \(2, 3\)"),
    (lambda: theory.allocate_online(np.ones((2, 3)), 1.0), r"weights must be numbers \[T\], got shape \(2, 3\)"),
    (lambda: theory.allocate(WEIGHTS, 1.0, np.ones(3)), r"caps must be a number, or \[T\], T = 50, got shape \(3,\)"),
    (lambda: theory.noise_cost(np.ones(2), np.array([1.0, -1.0])), r"squared_levels must be in \[0, inf\), got"),
    (lambda: theory.allocate(WEIGHTS, 1.0, 0.0), r"caps must be in \(0, inf\], got 0.0"),
    (
        lambda: theory.allocate_online(WEIGHTS, 1.0, expected_price=0.0),
        r"expected_price must be in \(0, inf\), got 0.0",
    ),
    (lambda: theory.allocate_online(WEIGHTS, 1.0, expected_cap=-1.0), r"expected_cap must be in \(0, inf\], got -1.0"),
    (lambda: theory.contraction_weights(3, 1.5), r"contraction must be in \(0, 1\], got 1.5"),
    (
        lambda: theory.received_at_most(theory.Round(2, 1.0, 1.0, 0.1), gain=1.0, power=1.0),
        "noise_variance must be 0, got 0.1",
    ),
    (
        lambda: theory.public_set_sensitivity(theory.Round(2, 1.0, 1.0, 0.1), np.ones((1, 2), bool), level=0.0),
        r"level must be in \(0, inf\), got 0.0",
    ),
    (
        lambda: theory.rigorous_epsilon(theory.Round(2, 0.5, 1.0, 0.1, np.ones(3)), DELTA, rounds=2),
        "receiver_noise must be a number, or one per round: rounds = 2",
    ),
)
