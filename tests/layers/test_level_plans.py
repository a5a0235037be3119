"""Levels with a memory: planned again in every round, and kept within a budget of privacy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.channels import recorded
from fedjax_priv.clients import at_levels, everyone, round_robin
from fedjax_priv.layers import planned_levels, weakest, within_budget
from fedjax_priv.layers.receive_level import Levels
from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory
from helpers import refuses

T, N0, L, EPS, DELTA = 20, 0.7, 0.5, 1.5, 1e-5
WEIGHTS = theory.contraction_weights(T, 0.8)
BUDGET = theory.level_budget(EPS, DELTA, clip=L, receiver_noise=N0)
GAIN = np.sqrt(0.2 + 0.8 * np.random.default_rng(3).exponential(size=(T, 3))).astype(np.float32)
INVERSE = 1 / np.square(GAIN.min(1, keepdims=True).astype(np.float64))[:, 0]


def levels_of(levels, gain):
    """c_t of each round."""
    step = lambda state, of: levels.apply(state, *of)[::-1]
    return jax.lax.scan(step, levels.init(), (jnp.arange(len(gain)), jnp.asarray(gain, jnp.float32)))[1]


@jax.jit
def with_energy(budget, energy, gain):
    return levels_of(planned_levels(WEIGHTS, budget, max_norm=L, energy=energy, expected_inverse=2.0), gain)


def squares(c):
    return np.asarray(c, np.float64) ** 2


@pytest.mark.parametrize("energy", [0.03, 0.06, 5.0])
def test_plans_are_those_of_the_reference(energy):
    """Where energy binds, where both budgets do, and where privacy alone does; never more than either."""
    found = squares(with_energy(BUDGET, energy, GAIN))
    how = {"prices": L**2 * INVERSE, "energy": energy, "expected_price": 2 * L**2}
    expected = theory.allocate_online(WEIGHTS, BUDGET, **how)
    np.testing.assert_allclose(found, expected, rtol=5e-4)
    assert found.sum() <= BUDGET and how["prices"] @ found <= energy
    binds = (bool(found.sum() > 0.9 * BUDGET), bool(how["prices"] @ found > 0.9 * energy))
    assert binds == {0.03: (False, True), 0.06: (True, True), 5.0: (True, False)}[energy]
    blind = theory.allocate_online(WEIGHTS, BUDGET, **how | {"expected_price": 8 * L**2})
    assert energy == 5.0 or np.abs(blind / expected - 1).max() > 0.05


OF_EACH = np.array([0.025, 0.021, 0.04])
PRICES = L**2 / np.square(GAIN.astype(np.float64))


@functools.cache
def of_each():
    """Squared levels with a limit of energy for each client, and what is expected of each."""
    limits, inverse = jnp.asarray(OF_EACH, jnp.float32), np.array([1.5, 2.0, 1.0])
    plan = lambda energy: planned_levels(WEIGHTS, BUDGET, max_norm=L, energy=energy, expected_inverse=inverse)
    return squares(jax.jit(lambda energy: levels_of(plan(energy), GAIN))(limits)), inverse


def test_a_limit_of_energy_for_each_client_is_that_of_the_reference():
    """Two limits bind. The weakest of each round would allow less; the limit of one client breaks others'."""
    found, inverse = of_each()
    expected = theory.allocate_online(WEIGHTS, BUDGET, PRICES, OF_EACH, expected_price=L**2 * inverse)
    np.testing.assert_allclose(found, expected, rtol=5e-4)
    assert (found @ PRICES <= OF_EACH).all() and found.sum() <= BUDGET
    assert ((found @ PRICES > 0.95 * OF_EACH) == [True, False, True]).all()
    weakest = theory.allocate_online(WEIGHTS, BUDGET, (PRICES / OF_EACH).max(1), 1.0)
    assert theory.noise_cost(WEIGHTS, weakest) > 1.02 * theory.noise_cost(WEIGHTS, found)
    alone = theory.allocate_online(WEIGHTS, BUDGET, PRICES[:, 0], OF_EACH[0], expected_price=L**2 * inverse[0])
    assert (alone @ PRICES > 1.3 * OF_EACH).any()


def test_a_channel_that_does_not_change_gets_the_offline_levels():
    """And no more rounds than were planned."""
    found = squares(jax.jit(lambda: levels_of(planned_levels(WEIGHTS, BUDGET, max_norm=L), np.ones((T + 2, 3))))())
    np.testing.assert_allclose(found[:T], theory.allocate(WEIGHTS, BUDGET).squared_levels, rtol=1e-3)
    assert (found[T:] == 0).all()


def test_power_caps_a_plan():
    power, cap = 0.003, BUDGET / 20
    lowest = weakest(power / 10, max_norm=L, noise_variance=0.0, num_params=10)
    levels = planned_levels(WEIGHTS, BUDGET, max_norm=L, at_most=lowest, expected_cap=cap)
    found, caps = squares(jax.jit(lambda: levels_of(levels, GAIN))()), power / L**2 / INVERSE
    expected = theory.allocate_online(WEIGHTS, BUDGET, caps=caps, expected_cap=cap)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert 2 < np.isclose(found, caps, rtol=1e-5).sum() < T - 2


def test_full_power_where_no_budget_binds_even_in_rounds_that_hardly_count():
    """Privacy for free: the cap, exactly, however small a weight is."""
    cap = {"at_most": lambda round, gain: 0.5 * gain.min(), "expected_cap": 0.25}
    levels = planned_levels(np.array([1e-36, 1.0]), 10.0, max_norm=1.0, **cap)
    np.testing.assert_allclose(levels_of(levels, np.ones((2, 1))), 0.5, rtol=1e-6)


def too_late(level, budget):
    """The planted error: it stops after the budget was passed."""
    right = within_budget(level, budget)

    def apply(state, round, gain):
        inner, spent = state
        c = jnp.asarray(level(round, gain), jnp.float32)
        return jnp.where(spent < budget, c, 0), (inner, spent + c**2)

    return right._replace(init=lambda: ((), jnp.float32(0)), apply=apply)


@functools.cache
def asked():
    """Levels of which the budget allows some rounds, and not a whole number of them, by filter."""
    ask = lambda round, gain: 0.08 + 0.06 * gain.max()
    run = lambda stop: np.asarray(jax.jit(lambda: levels_of(stop(ask, BUDGET), GAIN))(), np.float64)
    return run(within_budget), run(too_late), 0.08 + 0.06 * GAIN.max(1).astype(np.float64)


def test_a_filter_stops_before_the_budget_is_passed():
    found, late, all_of = asked()
    admitted = np.cumsum(all_of**2) <= BUDGET
    assert 2 < admitted.sum() < T - 2
    np.testing.assert_allclose(found, np.where(admitted, all_of, 0), rtol=1e-6)
    eps = lambda c: float(gaussian.epsilon(DELTA, np.sqrt(4 * L**2 / N0 * (c**2).sum())))
    assert eps(found) <= EPS < eps(late)
    assert (late > 0).sum() == admitted.sum() + 1


def test_an_audit_contradicts_a_filter_that_stops_a_round_late():
    """The worst pair, +L u against -L u, at the levels of both filters: Clopper-Pearson at 99.9%."""
    found, late, _ = asked()
    rng, trials, eps = np.random.default_rng(0), 1_000_000, 0.1
    delta = gaussian.delta(eps, 2 * L * np.sqrt(BUDGET / N0))
    lower = {}
    for name, c in (("right", found), ("late", late)):
        s = 2 * L * np.sqrt((c**2).sum() / N0)
        accept = [rng.normal(mean, 1, trials) > eps / s for mean in (s / 2, -s / 2)]
        ends = [stats.binomtest(int(a.sum()), trials).proportion_ci(0.998) for a in accept]
        lower[name] = ends[0].low - np.exp(eps) * ends[1].high
    assert lower["right"] <= delta < lower["late"]


def test_a_smaller_request_does_not_reopen_a_spent_budget():
    ask = lambda round, gain: jnp.where(round == 2, 0.9, 0.1)
    found = jax.jit(lambda: levels_of(within_budget(ask, 0.5), np.ones((6, 1))))()
    np.testing.assert_allclose(found, [0.1, 0.1, 0, 0, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("rounds", [3, 1000])
def test_a_budget_that_is_a_whole_number_of_rounds_is_spent(rounds):
    """To a round at most, however many share it; squares add up to no more than the budget, exactly."""
    spent = jax.jit(lambda budget: levels_of(within_budget(0.37, budget), np.ones((rounds + 5, 1))) > 0)
    budget = rounds * float(np.float32(0.37)) ** 2
    assert spent(1.00001 * budget).sum() == rounds
    assert rounds - 2 <= spent(0.999 * budget).sum() < rounds


def test_no_level_is_so_small_that_it_is_free():
    levels = within_budget(1e-8, 1.0)
    _, (_, left) = levels.apply(levels.init(), jnp.int32(0), jnp.ones(1))
    assert left == levels.init()[1] - 1


def test_levels_leave_the_draw_they_are_added_to_as_it_was():
    """Its state, and what it measures, are its own."""
    draw = everyone()._replace(
        init=lambda key, n: jnp.int32(7), measures=lambda who, state: {"state": state},
        apply=lambda key, state, round, count: (everyone().apply(key, (), round, count)[0], state + 1),
    )  # fmt: skip
    levelled = at_levels(draw, within_budget(0.5, 1.0))
    key, count = jax.random.key(0), jnp.ones(3, int)
    who, state = levelled.apply(key, levelled.init(key, 3), jnp.int32(0), count)
    assert levelled.measures is not None and levelled.measures(who, state)["state"] == 8
    assert (who.level == 0.5).all() and who.selected.all() and (who.participation == 1).all()
    silent = at_levels(draw, within_budget(1.5, 1.0))
    who, _ = silent.apply(key, silent.init(key, 3), jnp.int32(0), count)
    assert (who.level == 0).all() and not who.selected.any() and (who.participation == 0).all()


def test_levels_that_are_none_cost_their_round_and_nothing_of_the_budget():
    for bad in (jnp.nan, -1.0, 0.0, jnp.inf):
        levels = within_budget(lambda round, gain, bad=bad: jnp.where(round == 1, bad, 0.1), 0.025)
        np.testing.assert_allclose(levels_of(levels, np.ones((5, 1))), [0.1, 0, 0.1, 0, 0], rtol=1e-6)
    silent = within_budget(Levels(tuple, lambda state, round, gain: (jnp.where(round == 1, 0.0, 0.1), state)), 1.0)
    assert (np.asarray(levels_of(silent, np.ones((3, 1)))) > 0).tolist() == [True, False, True]


@pytest.mark.parametrize("energy", [None, 2.0, np.full(3, 2.0)], ids=["none", "the weakest", "each"])
def test_a_round_of_no_level_takes_nothing_from_a_plan(energy):
    """Four alike rounds, of which the second has no level: a quarter of what binds, nothing, two halves of the rest."""
    limit = {} if energy is None else {"energy": energy, "expected_inverse": 1.0}

    def found(cap, gain):
        at_most = lambda round, gain: jnp.where(round == 1, cap, 9.0)
        levels = planned_levels(np.ones(4), 4.0, max_norm=1.0, at_most=at_most, **limit)
        return levels_of(levels, jnp.ones((4, 3)).at[1, 0].set(gain))

    bad = [(0.0, 1.0), (jnp.nan, 1.0), (jnp.inf, 1.0)] + ([] if energy is None else [(9.0, 0.0), (9.0, jnp.nan)])
    expected = (4 if energy is None else 2) * np.array([1 / 4, 0, 3 / 8, 3 / 8])
    for squared in squares(jax.jit(jax.vmap(found))(*jnp.array(bad).T)):
        np.testing.assert_allclose(squared, expected, rtol=1e-3)


test_bad_arguments = refuses(
    lambda how: planned_levels(**{"weights": WEIGHTS, "budget": 1.0, "max_norm": 1.0, **how}),
    ({"weights": np.array([1.0, 0.0])}, "weights must be a finite number > 0, got 0.0"),
    ({"weights": 1.0}, r"weights must have shape \[T\], T >= 1, got \(\)"),
    ({"budget": -1.0}, "budget must be a finite number > 0, got -1.0"),
    ({"energy": 1.0}, "expected_inverse must be given with energy 1.0 and only then, got None"),
    ({"expected_inverse": 1.0}, "expected_inverse must be given with energy None and only then, got 1.0"),
    ({"at_most": lambda gain: gain}, r"at_most must be a function of \(round, gain\)"),
    ({"expected_cap": 0.0}, "expected_cap must be a number > 0, got 0.0"),
    ({"expected_cap": jnp.array(-1.0)}, r"expected_cap must be a number > 0, got Array\(-1"),
    ({"energy": np.ones(3), "expected_inverse": np.ones(2)}, r"energy must be a number or \[n\], .* \(3,\) and \(2,\)"),
    (
        {"energy": 1.0, "expected_inverse": np.ones(3)},
        r"energy must be a number or \[n\], and expected_inverse a number",
    ),
    ({"energy": np.array([1.0, 0.0]), "expected_inverse": 1.0}, "energy must be a finite number > 0, got 0.0"),
)


def test_limits_are_of_the_clients_of_the_round():
    levels = planned_levels(WEIGHTS, 1.0, max_norm=1.0, energy=np.ones(3), expected_inverse=1.0)
    with pytest.raises(ValueError, match="energy must be one number per client of a round, 2, got 3"):
        levels.apply(levels.init(), jnp.int32(0), jnp.ones(2))


def test_a_limit_for_each_client_is_for_rounds_of_all():
    """A place of a cohort is another client in each round: its limit would be nobody's."""
    of = lambda energy: planned_levels(WEIGHTS, 1.0, max_norm=1.0, energy=energy, expected_inverse=1.0)
    gains = recorded(np.array([[1.0, 0.3, 1.0]] * T))
    count = jnp.ones(3, jnp.int32)

    def draw(levels, size):
        chosen = at_levels(round_robin(size, fading=gains), levels)
        return chosen.apply(jax.random.key(0), chosen.init(jax.random.key(0), 3), jnp.int32(0), count)[0]

    for levels in (of(np.ones(2)), within_budget(of(np.ones(2)), 0.5)):
        with pytest.raises(ValueError, match="levels must keep one limit for all where a round is of 2 of 3 clients"):
            draw(levels, 2)
    assert draw(of(1.0), 2).level[0] > 0 and draw(of(np.ones(3)), 3).level[0] > 0


test_bad_budgets = refuses(
    lambda how: within_budget(**{"level": 0.1, "budget": 1.0, **how}),
    ({"budget": 0.0}, "budget must be a finite number > 0, got 0.0"),
    ({"level": -0.1}, "level must be a finite number > 0, got -0.1"),
    ({"level": lambda gain: gain}, r"level must be a function of \(round, gain\)"),
)
