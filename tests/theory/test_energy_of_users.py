"""Limits of energy of each user: against the dual's certificate, the conditions of an optimum, and SLSQP."""

import numpy as np
import pytest
from refusals import refused
from scipy import optimize

from fedjax_priv.theory import wireless as theory
from fedjax_priv.theory.wireless import _energy_prices

T, K = 30, 6
WEIGHTS = theory.contraction_weights(T, 0.9)
RNG = np.random.default_rng(5)
PRICES = 1 / (0.05 + RNG.exponential(size=(T, K)))
BUDGET = 1.3
FREE = theory.allocate(WEIGHTS, BUDGET).squared_levels @ PRICES


def cost_of_round(found, prices=PRICES):
    return found.privacy_price + prices @ found.energy_price


@pytest.mark.parametrize(
    ("part", "binds"),
    [
        (2.0, (True, 0)),
        (np.array([0.9, 0.95, 2, 2, 0.95, 2]), (True, 2)),
        (np.array([0.2, 0.2, 0.2, 1, 1, 1]), (False, 3)),
    ],
)
def test_the_dual_certifies_levels_and_only_limits_that_bind_have_a_price(part, binds):
    energy = part * FREE
    found = theory.allocate_energy(WEIGHTS, BUDGET, PRICES, energy)
    q, kappa = found.squared_levels, np.asarray(found.energy_price)
    value = theory.noise_cost(WEIGHTS, q)
    assert q.sum() <= BUDGET and (q @ PRICES <= energy).all()
    assert theory.dual_value(WEIGHTS, found, BUDGET, PRICES, energy) == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(q, np.sqrt(WEIGHTS / cost_of_round(found)), rtol=1e-10)
    assert (kappa >= 0).all() and (found.privacy_price > 0, (kappa > 0).sum()) == binds
    np.testing.assert_allclose((q @ PRICES)[kappa > 0], energy[kappa > 0], rtol=1e-9)
    assert (q @ PRICES < 0.999 * energy)[kappa == 0].all()
    assert q.sum() == pytest.approx(BUDGET, rel=1e-9) if found.privacy_price > 0 else q.sum() < 0.999 * BUDGET
    for other in (found._replace(energy_price=kappa + 1e-3 * value), found._replace(energy_price=0.9 * kappa)):
        worse = theory.dual_value(WEIGHTS, other, BUDGET, PRICES, energy)
        assert worse < value * (1 - 1e-5) or not kappa.any()


def test_one_price_for_all_is_not_enough():
    """The controls: a limit on the sum of energies breaks that of a user, and the weakest of each round is stricter."""
    energy = 0.2 * FREE * [1, 2, 3, 1, 2, 3]
    value = theory.noise_cost(WEIGHTS, theory.allocate_energy(WEIGHTS, BUDGET, PRICES, energy).squared_levels)
    together = theory.allocate_energy(WEIGHTS, BUDGET, PRICES.sum(1), energy.sum()).squared_levels
    assert (together @ PRICES > 1.2 * energy).any()
    weakest = theory.allocate_energy(WEIGHTS, BUDGET, (PRICES / energy).max(1), 1.0).squared_levels
    assert (weakest @ PRICES < energy).all() and theory.noise_cost(WEIGHTS, weakest) > 1.1 * value


@pytest.mark.parametrize("cap", [np.inf, 0.05])
def test_slsqp_agrees(cap):
    w, e = WEIGHTS[-8:], PRICES[:8, :3]
    budget = 0.5
    energy = np.array([0.5, 0.7, 0.6]) * (theory.allocate(w, budget).squared_levels @ e)
    found = theory.allocate_energy(w, budget, e, energy, cap)
    rows, unit = np.vstack([np.ones(8) / budget, e.T / energy[:, None]]), 0.05
    solved = optimize.minimize(
        lambda x: (w / x).sum(), np.full(8, 0.05), jac=lambda x: -w / x**2, method="SLSQP",
        bounds=[(1e-3, cap / unit)] * 8, options={"maxiter": 500, "ftol": 1e-13},
        constraints=[{"type": "ineq", "fun": lambda x: 1 - rows @ x * unit, "jac": lambda x: -rows * unit}],
    )  # fmt: skip
    assert solved.success and theory.noise_cost(w, found.squared_levels) == pytest.approx(solved.fun / unit, rel=1e-7)
    np.testing.assert_allclose(found.squared_levels, solved.x * unit, rtol=1e-3)
    assert np.isinf(cap) or 0 < (found.squared_levels == cap).sum() < 8
    assert (np.asarray(found.energy_price) > 0).sum() == 2


def lagrangian(w, found, budget, e, energy, caps):
    """The least over `0 < q <= caps`: a lower bound on any allocation."""
    price = cost_of_round(found, e)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(np.sqrt(w / price) <= caps, 2 * np.sqrt(w * price), w / caps + price * caps)
    return terms.sum() - found.privacy_price * budget - found.energy_price @ energy


def test_problems_of_all_kinds_are_certified():
    """Short and long, users alike, limits tiny or loose, gains over six decades, caps that hardly allow any."""
    rng, gaps = np.random.default_rng(0), []
    for kind in range(60):
        rounds, users = int(rng.integers(1, 40)), int(rng.integers(1, 20))
        w = rng.uniform(0.5, 1) ** np.arange(rounds - 1.0, -1, -1)
        budget, e = 10 ** rng.uniform(-4, 3), 1 / (rng.exponential(size=(rounds, users)) + 10 ** rng.uniform(-6, 0))
        e = np.tile(e[:, :1], users) if kind % 5 == 0 else e
        free = theory.allocate(w, budget).squared_levels
        energy = free @ e * 10 ** rng.uniform(-3, 1, users) * (1e-6 if kind % 7 == 0 else 1)
        caps = np.full(rounds, np.inf) if kind % 3 else free * 10 ** rng.uniform(-1, 1, rounds)
        found = theory.allocate_energy(w, budget, e, energy, caps)
        q = found.squared_levels
        assert (q > 0).all() and q.sum() <= budget and (q @ e <= energy).all() and (q <= caps).all()
        gaps.append(theory.noise_cost(w, q) / lagrangian(w, found, budget, e, energy, caps) - 1)
    assert min(gaps) > -1e-9 and max(gaps) < 1e-8


def test_one_user_is_a_column_of_many():
    prices, energy = PRICES[:, 0], 0.4 * FREE[0]
    one = theory.allocate_energy(WEIGHTS, BUDGET, prices, energy)
    column = theory.allocate_energy(WEIGHTS, BUDGET, prices[:, None], energy)
    twice = theory.allocate_energy(WEIGHTS, BUDGET, np.stack([prices, prices], 1), energy)
    assert isinstance(one.energy_price, float) and one.energy_price == column.energy_price[0] > 0
    np.testing.assert_allclose(twice.squared_levels, one.squared_levels, rtol=1e-9)
    assert sum(twice.energy_price) == pytest.approx(one.energy_price, rel=1e-8)


def test_numbers_too_far_apart_for_float64_are_refused(monkeypatch):
    monkeypatch.setattr(_energy_prices, "_STEPS", 2)  # prices that are far from right keep no limit
    with pytest.raises(FloatingPointError, match="too far apart"):
        theory.allocate_energy(WEIGHTS, BUDGET, PRICES, 1e-3 * FREE)


def test_online_levels_keep_the_limit_of_each_user():
    """What is expected comes true: as offline; elsewhere it costs more. A user without a limit changes nothing."""
    same, energy = np.broadcast_to(PRICES[0], (8, K)), 0.03 * FREE
    offline = theory.allocate_energy(WEIGHTS[-8:], 0.4, same, energy).squared_levels
    np.testing.assert_allclose(theory.allocate_online(WEIGHTS[-8:], 0.4, same, energy), offline, rtol=1e-8)
    q = theory.allocate_online(WEIGHTS[-8:], 0.4, PRICES[:8], energy, expected_price=PRICES.mean(0))
    best = theory.allocate_energy(WEIGHTS[-8:], 0.4, PRICES[:8], energy)
    assert (q @ PRICES[:8] <= energy * (1 + 1e-12)).all() and (q @ PRICES[:8] > 0.8 * energy).any()
    assert theory.noise_cost(WEIGHTS[-8:], q) > 1.01 * theory.noise_cost(WEIGHTS[-8:], best.squared_levels)
    limit = np.where(np.arange(K) == 2, 1.0, np.inf)
    free = theory.allocate_online(WEIGHTS[-8:], 0.4, PRICES[:8], limit, expected_price=PRICES.mean(0))
    alone = theory.allocate_online(WEIGHTS[-8:], 0.4, PRICES[:8, 2], 1.0, expected_price=PRICES[:, 2].mean())
    np.testing.assert_allclose(free, alone, rtol=1e-8)


test_bad_arguments = refused(
    (lambda: theory.allocate_energy(WEIGHTS, 1.0, PRICES[:3], 1.0), r"prices must be \[T\] or \[T, K\], T = 30, got"),
    (lambda: theory.allocate_energy(WEIGHTS, 1.0, PRICES, np.ones(5)), "energy must be a number, or one per user of p"),
    (lambda: theory.allocate_energy(WEIGHTS, 1.0, PRICES[:, 0], np.ones(1)), "energy must be a number, or one per"),
    (lambda: theory.allocate_energy(WEIGHTS, 1.0, PRICES, 0.0), r"energy must be in \(0, inf\], got 0.0"),
    (
        lambda: theory.allocate_online(WEIGHTS, 1.0, PRICES, 1.0, expected_price=np.ones(2)),
        "expected_price must be a number, or one per user, 6, got",
    ),
)
