"""The rows of what can be proved, against the least cost found numerically and against models that are linear."""

import itertools
import math
from inspect import unwrap

import numpy as np
import pytest
from scipy.optimize import minimize

from fedjax_priv.theory import cdp_fl as theory


def cost(steps, batches, uploads, lipschitz=None, **view):
    """Of one round, in units of rho_1, which is 2 here."""
    found = theory.proved_rho(theory.Training(1, steps, 1.0, uploads, batches, 1, 1.0), lipschitz=lipschitz, **view)
    return found._replace(rho=found.rho / 2, gaussian_rho=found.gaussian_rho / 2)


def least_cost(touches, uploads, lipschitz):
    """Of bringing the gap z to 0: z <- c z + touch - a >= 0 at price a^2 / v, with v = 1 and h at the last step."""
    steps = len(touches)
    spread = np.tril(lipschitz ** np.maximum(np.subtract.outer(np.arange(steps), np.arange(steps)), 0.0))
    price = 1 / np.append(np.ones(steps - 1), uploads)
    gaps = {"fun": lambda a: spread @ (touches - a), "jac": lambda a: -spread}
    found = minimize(
        lambda a: price @ a**2, touches * 1.0, jac=lambda a: 2 * price * a, method="SLSQP", bounds=[(0, None)] * steps,
        constraints=[
            {"type": "ineq", "fun": lambda a: gaps["fun"](a)[:-1], "jac": lambda a: gaps["jac"](a)[:-1]},
            {"type": "eq", "fun": lambda a: gaps["fun"](a)[-1:], "jac": lambda a: gaps["jac"](a)[-1:]},
        ],
        options={"ftol": 1e-14, "maxiter": 300},
    )  # fmt: skip
    assert found.success
    return found.fun


@pytest.mark.parametrize("lipschitz", [0.0, 0.7, 1.0, 1.05, 1.2, 2.0])
@pytest.mark.parametrize(("steps", "uploads"), [(1, 3), (4, 1), (4, 3), (6, 8)])
def test_row_3_is_the_least_cost_for_the_worst_place_of_one_use(steps, uploads, lipschitz):
    worst = max(least_cost(touches, uploads, lipschitz) for touches in np.eye(steps))
    found = cost(steps, steps + 2, uploads, lipschitz)
    assert found.rho == pytest.approx(worst, rel=1e-6)
    printed = [
        lipschitz ** (2 * j) / (uploads + sum(lipschitz ** (2 * u) for u in range(1, j + 1))) for j in range(steps)
    ]
    assert found.rho == pytest.approx(max(printed), rel=1e-12)
    assert found.row == (1 if uploads == 1 else 2 if steps == 1 else 3), "of equal rows the first"


@pytest.mark.parametrize(("batches", "passes"), [(1, 4), (2, 3), (3, 2), (4, 2)])
@pytest.mark.parametrize("uploads", [1, 2, 3, 6])
def test_row_4_is_the_least_cost_for_the_worst_places_of_a_use_in_each_pass(batches, passes, uploads):
    def worst(lipschitz):
        orders = itertools.product(np.eye(batches), repeat=passes)
        return max(least_cost(np.concatenate(order), uploads, lipschitz) for order in orders)

    found = cost(batches * passes, batches, uploads, 1.0)
    assert found.rho == pytest.approx(worst(1.0), rel=1e-5)
    assert worst(0.8) <= found.rho * (1 + 1e-6)


def linear_rho(maps, touches, others):
    """In units of rho_1: of the sum of uploads if step t is theta <- maps[t] theta + touches[t] + noise.

    Args:
      maps: `[tau]`, of the device whose sample differs.
      touches: `[tau]`, 1 where the sample is in the batch.
      others: `[h-1, tau]`, the other devices' maps.
    """
    gap, variance = 0.0, 0.0
    for factor, touch in zip(maps, touches, strict=True):
        gap, variance = factor * gap + touch, factor**2 * variance + 1
    for device in others:
        alone = 0.0
        for factor in device:
            alone = factor**2 * alone + 1
        variance += alone
    return gap**2 / variance


@pytest.mark.parametrize(
    ("steps", "uploads", "lipschitz"), [(5, 4, 1.0), (5, 4, 1.15), (5, 4, 1.16), (5, 4, 2.0), (3, 2, 1.5)]
)
def test_row_3_is_attained_by_quadratics(steps, uploads, lipschitz):
    """Nothing before the use survives it; after it every step stretches; elsewhere only the last noise is left."""
    others = np.zeros((uploads - 1, steps))
    attained = [
        linear_rho(np.where(np.arange(steps) > place, lipschitz, 0), np.eye(steps)[place], others)
        for place in range(steps)
    ]
    assert cost(steps, steps, uploads, lipschitz).rho == pytest.approx(max(attained), rel=1e-12)


@pytest.mark.parametrize(("batches", "passes", "uploads"), [(1, 10, 10), (2, 3, 2), (2, 4, 7), (3, 3, 5)])
def test_row_4_is_attained_by_quadratics_for_few_batches(batches, passes, uploads):
    touches = np.tile(np.eye(batches)[-1], passes)
    maps = np.where(np.arange(batches * passes) >= batches, 1.0, 0.0)
    attained = linear_rho(maps, touches, np.zeros((uploads - 1, batches * passes)))
    assert cost(batches * passes, batches, uploads, 1.0).rho == pytest.approx(attained, rel=1e-12)


def test_no_linear_model_costs_more():
    """Random maps, shuffles and other devices; c is the largest map of all, and rows 1 and 2 do not hear of it."""
    rng = np.random.default_rng(0)
    for steps, batches, uploads in rng.integers(1, (10, 5, 7), (1500, 3)).tolist():
        size = float(rng.choice([0.5, 1.0, 1.1, 3.0]))
        maps = size * rng.choice([-1.0, -0.3, 0.0, 0.6, 1.0], (uploads, steps))
        passes = math.ceil(steps / batches)
        touches = np.eye(batches)[rng.integers(batches, size=passes)].ravel()[:steps]
        rho = linear_rho(maps[0], touches, maps[1:]) * (1 - 1e-12)
        known, unknown = cost(steps, batches, uploads, size), cost(steps, batches, uploads)
        assert rho <= known.rho <= unknown.rho <= passes
        assert unknown.rho == known.gaussian_rho


def test_rows_1_and_2():
    assert cost(7, 3, 5)[:2] == (3, 1), "uses in three passes; secure aggregation adds nothing provable"
    assert cost(4, 1, 5)[:2] == (pytest.approx(3 + 1 / 5), 2)
    assert cost(1, 9, 5)[:2] == (pytest.approx(1 / 5), 2)
    assert cost(4, 1, 5, adversary="everybody")[:2] == (4, 1)


def test_row_2_is_attained_for_a_full_batch():
    """Each use but the last is followed by a map so large that no later noise hides it."""
    stretch = 1e4
    steps, uploads = 3, 4
    maps = [0.0, stretch, stretch]
    gap = np.array([1.0, 0.0, 0.0])
    assert linear_rho(maps, gap, np.zeros((uploads - 1, steps))) == pytest.approx(1, rel=1e-6)
    assert linear_rho([0.0] * 3, np.eye(3)[-1], np.zeros((uploads - 1, steps))) == pytest.approx(1 / uploads)


def test_rows_are_chosen_round_by_round():
    """Few batches: row 4 for a round in which most noises are known, row 3 cannot be had."""
    found = theory.proved_rho(
        theory.Training(np.array([1, 1, 0]), 4, 1.0, 5, 8, 4, 1.0), dropped=np.array([0, 4, 0]), lipschitz=0.9
    )
    step = theory.step_rho(1.0, 4, 1.0)
    np.testing.assert_allclose(found.rho, step * np.array([4 / (2 + 5), 1 / 2 + 1, 0]))
    np.testing.assert_array_equal(found.row, [4, 4, 0])
    np.testing.assert_array_equal(found.gaussian_row, [1, 1, 0])


def test_a_contraction_is_not_asked_for_where_it_does_not_help():
    assert cost(4, 1, 5, 1.01)[:2] == (pytest.approx(3 + 1 / 5), 2)
    assert cost(5, 2, 5, 1.0)[:2] == (3, 1), "two passes and a half"


def test_convex_is_a_truth_value():
    with pytest.raises(ValueError, match="^convex must be one of True, False, got 'no'$"):
        unwrap(theory.lipschitz_constant)(0.1, 2.0, convex="no")
