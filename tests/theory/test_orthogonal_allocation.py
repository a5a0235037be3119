"""Levels of users that send one after another: SciPy's optimiser over all users at once, the dual, and simulation."""

import numpy as np
import pytest
from refusals import refused
from scipy import optimize

from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory

DELTA = 1e-5
WEIGHTS = theory.contraction_weights(50, 0.9)
BUDGET = theory.level_budget(10.0, DELTA, clip=1.0, receiver_noise=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_scipy_finds_no_less_noise_over_all_users_at_once(seed):
    """One problem of T K unknowns, with a limit for each user, by SLSQP; some caps bind, some budgets do not."""
    rng = np.random.default_rng(seed)
    w, budgets = theory.contraction_weights(4, 0.6), np.array([0.5, 1.0, 40.0])
    caps = rng.uniform(0.1, 0.9, (4, 3))
    found = theory.allocate_orthogonal(w, budgets, caps)
    q = found.squared_levels
    assert (q <= caps).all() and (q.sum(0) <= budgets * (1 + 1e-12)).all()
    assert found.privacy_prices[2] == 0 and (q[:, 2] == caps[:, 2]).all() and (found.privacy_prices[:2] > 0).all()
    objective = lambda x: (w / x.reshape(3, 4)).sum()
    solved = optimize.minimize(
        objective, np.minimum(caps.T, 0.1).ravel(), method="SLSQP",
        jac=lambda x: -(w / np.square(x.reshape(3, 4))).ravel(), bounds=[(1e-3, cap) for cap in caps.T.ravel()],
        constraints=[
            {"type": "ineq", "fun": lambda x, k=k: budgets[k] - x.reshape(3, 4)[k].sum()} for k in range(3)
        ], options={"maxiter": 500, "ftol": 1e-10},
    )  # fmt: skip
    assert solved.success and theory.noise_cost(w, q) == pytest.approx(solved.fun, rel=1e-6)
    np.testing.assert_allclose(q, solved.x.reshape(3, 4).T, rtol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_scipy_finds_no_less_noise_under_limits_of_energy(seed):
    """One problem of T K unknowns: a user without energy, one without budget, one that lacks neither, one both."""
    rng = np.random.default_rng(seed)
    w, budgets = theory.contraction_weights(4, 0.6), np.array([40.0, 0.5, 40.0, 0.9])
    prices, energy = 1 / rng.exponential(size=(4, 4)), np.array([1.0, 200.0, np.inf, 0.0])
    middle = theory.allocate(w, budgets[3]).squared_levels
    energy[3] = 0.9 * prices[:, 3] @ middle
    found = theory.allocate_orthogonal(w, budgets, 0.9, prices=prices, energy=energy)
    q = found.squared_levels
    assert (q.sum(0) <= budgets).all() and ((prices * q).sum(0) <= energy).all()
    assert found.energy_prices[0] > 0 == found.privacy_prices[0] and found.energy_prices[1] == 0
    assert found.energy_prices[2] == 0 == found.privacy_prices[2] and found.energy_prices[3] > 0
    rows = lambda x: x.reshape(4, 4)
    solved = optimize.minimize(
        lambda x: (w / rows(x)).sum(), np.minimum(q.T * 0.9, 0.5).ravel(), method="SLSQP",
        jac=lambda x: -(w / np.square(rows(x))).ravel(), bounds=[(1e-4, 0.9)] * 16,
        constraints=[{"type": "ineq", "fun": lambda x: budgets - rows(x).sum(1)}]
        + [{"type": "ineq", "fun": lambda x, k=k: 1 - rows(x)[k] @ prices[:, k] / energy[k]} for k in (0, 1, 3)],
        options={"maxiter": 1000, "ftol": 1e-10},
    )  # fmt: skip
    x = rows(solved.x)  # its line search may end a little above a limit
    within = np.minimum(1, np.minimum(budgets / x.sum(1), energy / (x * prices.T).sum(1)))
    least = (w / (x * within[:, None])).sum()
    assert least * (1 - 1e-5) < theory.noise_cost(w, q) <= least * (1 + 1e-9)


def test_prices_certify_the_levels():
    """Without caps the value is the dual's, `sum_k (2 sum_t sqrt(w_t nu_k) - nu_k B_k)`, and in closed form."""
    budgets = np.array([0.25, 1.0, 3.0]) * BUDGET
    found = theory.allocate_orthogonal(WEIGHTS, budgets)
    value = theory.noise_cost(WEIGHTS, found.squared_levels)
    dual = (2 * np.sqrt(WEIGHTS[:, None] * found.privacy_prices).sum(0) - found.privacy_prices * budgets).sum()
    assert value == pytest.approx(dual, rel=1e-12)
    assert value == pytest.approx((np.sqrt(WEIGHTS).sum() ** 2 / budgets).sum(), rel=1e-12)


def test_equal_users_have_k_times_the_noise_at_one_eps():
    """Of users that send at once; each spends the same eps in both, and the server's mean has the variance it says."""
    k, n0 = 6, 1.3
    budget = theory.level_budget(3.0, DELTA, clip=0.7, receiver_noise=n0)
    together = theory.allocate(WEIGHTS, budget, 0.01)
    apart = theory.allocate_orthogonal(WEIGHTS, np.full(k, budget), 0.01)
    np.testing.assert_array_equal(apart.squared_levels, np.tile(together.squared_levels[:, None], k))
    cost = theory.noise_cost(WEIGHTS, apart.squared_levels)
    assert cost == pytest.approx(k * theory.noise_cost(WEIGHTS, together.squared_levels), rel=1e-12)
    eps = gaussian.epsilon(DELTA, np.sqrt((4 * 0.7**2 * apart.squared_levels / n0).sum(0)))
    np.testing.assert_allclose(eps, 3.0, rtol=1e-6)
    levels = np.sqrt(theory.allocate_orthogonal(np.ones(1), np.array([1.0, 2.0, 0.5])).squared_levels[0])
    noise = np.random.default_rng(0).normal(scale=np.sqrt(n0), size=(200_000, 3))
    mean = (noise / levels).mean(1)  # each is divided by its own level, then the mean of the users
    said = n0 / 3**2 * theory.noise_cost(np.ones(1), levels[None] ** 2)
    assert abs(mean.var() / said - 1) < 4 * np.sqrt(2 / 200_000)


def test_users_apart_have_the_noise_of_users_at_once_and_up_to_k_times_it():
    """Faded users: the weakest holds back all that send at once, and only itself where they send apart."""
    square = np.random.default_rng(1).exponential(size=(50, 8))  # h^2
    ratios = []
    for power in (1e-6, 0.02, 1.0, 1e6):
        together = theory.allocate(WEIGHTS, BUDGET, power * square.min(1)).squared_levels
        apart = theory.allocate_orthogonal(WEIGHTS, np.full(8, BUDGET), power * square).squared_levels
        assert (apart.sum(0) <= BUDGET * (1 + 1e-12)).all()
        ratios.append(theory.noise_cost(WEIGHTS, apart) / theory.noise_cost(WEIGHTS, together))
    assert 1 < ratios[0] < ratios[1] < ratios[2] < ratios[3] < 8 * (1 + 1e-9)
    short = (WEIGHTS / square.min(1)).sum(), (WEIGHTS[:, None] / square).sum()  # full power in every round
    assert ratios[0] == pytest.approx(short[1] / short[0], rel=1e-9) and ratios[0] < 4
    assert ratios[3] == pytest.approx(8, rel=1e-9)


def test_a_user_alone_is_the_same_in_both():
    caps = np.linspace(0.01, 0.05, 50)
    apart = theory.allocate_orthogonal(WEIGHTS, np.array([BUDGET]), caps[:, None])
    together = theory.allocate(WEIGHTS, BUDGET, caps)
    np.testing.assert_array_equal(apart.squared_levels[:, 0], together.squared_levels)
    assert apart.privacy_prices == together.privacy_price
    assert theory.noise_cost(np.ones(2), np.array([[1.0, 0.0], [1.0, 1.0]])) == np.inf


test_bad_arguments = refused(
    (lambda: theory.allocate_orthogonal(np.ones((2, 2)), np.ones(2)), r"weights must be numbers \[T\], got shape"),
    (lambda: theory.allocate_orthogonal(WEIGHTS, np.ones((2, 2))), r"budgets must be numbers \[K\], .* shape \(2, 2\)"),
    (lambda: theory.allocate_orthogonal(WEIGHTS, np.array([1.0, 0.0])), r"budgets must be in \(0, inf\), got"),
    (lambda: theory.allocate_orthogonal(WEIGHTS, np.ones(3), 0.0), r"caps must be in \(0, inf\], got 0.0"),
    (lambda: theory.allocate_orthogonal(WEIGHTS, np.ones(3), prices=np.ones(50)), r"prices .* \[50, 3\], got shape"),
    (lambda: theory.allocate_orthogonal(WEIGHTS, np.ones(3), prices=-1.0), r"prices must be in \(0, inf\), got -1.0"),
    (lambda: theory.allocate_orthogonal(WEIGHTS, np.ones(3), energy=0.0), r"energy must be in \(0, inf\], got 0.0"),
    (lambda: theory.allocate_orthogonal(WEIGHTS, np.ones(3), energy=np.ones(2)), r"energy must be a number"),
    (
        lambda: theory.allocate_orthogonal(WEIGHTS, np.ones(3), np.ones(50)),
        r"caps must be a number, or \[T, K\], \[50, 3\], got shape \(50,\)",
    ),
    (
        lambda: theory.allocate_orthogonal(np.ones(2), np.ones(3), np.ones((3, 2))),
        r"caps must be a number, or \[T, K\], \[2, 3\], got shape \(3, 2\)",
    ),
    (
        lambda: theory.noise_cost(np.ones(2), np.ones((3, 2))),
        r"squared_levels must be a number, \[T\] or \[T, K\], T = 2, got \(3, 2\)",
    ),
    (lambda: theory.noise_cost(np.ones((2, 2)), 1.0), r"weights must be numbers \[T\], got shape \(2, 2\)"),
)
