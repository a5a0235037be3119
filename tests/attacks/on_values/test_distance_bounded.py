"""Min-Max and Min-Sum against their definition: a search by bisection in float64, not the closed form."""

from inspect import unwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.attacks import min_max, min_sum, on_updates
from fedjax_priv.testing import cohort_of
from helpers import refuses

N, D = 9, 6
KEY = jax.random.key(0)
HONEST = ~np.isin(np.arange(N), [1, 4])
UPDATES = np.random.default_rng(2).normal(0.7, 2, size=(N, D)).astype(np.float32)
SLOPES = {
    "std": lambda x: -x.std(0, ddof=1),
    "unit": lambda x: -x.mean(0) / np.linalg.norm(x.mean(0)),
    "sign": lambda x: -np.sign(x.mean(0)),
}
ATTACKS = {
    "min_max": (min_max, lambda x, row: np.linalg.norm(x - row, axis=1).max(), max),
    "min_sum": (min_sum, lambda x, row: ((x - row) ** 2).sum(), min),
    "min_sum, paper": (lambda p: min_sum(p, bound="largest"), lambda x, row: ((x - row) ** 2).sum(), max),
}
JITTED = {(name, p): jax.jit(make(p)) for name, (make, *_) in ATTACKS.items() for p in SLOPES}


def sent(name, perturbation, updates=UPDATES):
    rows = np.where(HONEST[:, None], updates, np.nan).astype(np.float32)
    return np.asarray(JITTED[name, perturbation](KEY, jnp.asarray(rows), jnp.asarray(HONEST), jnp.asarray(~HONEST)))[0]


def searched(name, slope, x):
    """The largest factor, by bisection, of which the measure is within its bound over honest rows."""
    _, measure, pick = ATTACKS[name]
    bound, low, high = pick(measure(x, row) for row in x), 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        fits = measure(x, x.mean(0) + middle * slope) <= bound
        low, high = (middle, high) if fits else (low, middle)
    return x.mean(0) + low * slope


@pytest.mark.parametrize("perturbation", SLOPES)
@pytest.mark.parametrize("name", ATTACKS)
def test_the_largest_factor_within_the_bound(name, perturbation):
    for offset in (0.0, 0.01, 300.0):
        updates = (UPDATES * np.linspace(0.2, 3, N)[:, None] + offset).astype(np.float32)
        x = updates[HONEST].astype(np.float64)
        expected = searched(name, SLOPES[perturbation](x), x)
        np.testing.assert_allclose(sent(name, perturbation, updates), expected, rtol=1e-6, atol=2e-4)
        turned = searched(name, -SLOPES[perturbation](x), x)
        assert np.abs(turned - expected).max() > 0.1, "the control: the sign of the perturbation"


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("scale", [2.0**-90, 2.0**90])
def test_scaled_updates_give_the_scaled_attack(name, scale):
    expected = sent(name, "std") * np.float32(scale)
    np.testing.assert_allclose(sent(name, "std", UPDATES * np.float32(scale)), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ATTACKS)
def test_equal_updates_and_a_mean_of_zero_leave_the_mean(name):
    equal = np.tile(UPDATES[:1], (N, 1))
    np.testing.assert_allclose(sent(name, "std", equal), UPDATES[0], rtol=1e-5)
    opposite = np.zeros((N, D), np.float32)
    opposite[0], opposite[2] = UPDATES[0], -UPDATES[0]
    for perturbation in ("unit", "sign"):
        np.testing.assert_array_equal(sent(name, perturbation, opposite), np.zeros(D))


def test_the_two_bounds_of_min_sum_are_the_nearest_and_the_farthest_honest_row():
    x = UPDATES[HONEST].astype(np.float64)
    away = np.linalg.norm(x - x.mean(0), axis=1)
    for name, expected in (("min_sum", away.min()), ("min_sum, paper", away.max())):
        assert np.linalg.norm(sent(name, "sign") - x.mean(0)) == pytest.approx(expected, rel=1e-5)


OWN = {
    "min_max": lambda p: min_max(p, seen="own"), "min_sum": lambda p: min_sum(p, seen="own"),
    "min_sum, paper": lambda p: min_sum(p, bound="largest", seen="own"),
}  # fmt: skip


@pytest.mark.parametrize("perturbation", SLOPES)
@pytest.mark.parametrize("name", OWN)
def test_attackers_that_see_their_own_updates_take_these_for_honest_ones(name, perturbation):
    """Honest rows, and those of clients that take no part, are NaN."""
    byzantine, attack = np.isin(np.arange(N), [0, 2, 3, 7]), jax.jit(OWN[name](perturbation))
    rows = jnp.asarray(np.where(byzantine[:, None], UPDATES, np.nan).astype(np.float32))
    honest = jnp.asarray(~byzantine & (np.arange(N) < N - 1))
    found = np.asarray(attack(KEY, rows, honest, jnp.asarray(byzantine)))[0]
    x = UPDATES[byzantine].astype(np.float64)
    np.testing.assert_allclose(found, searched(name, SLOPES[perturbation](x), x), rtol=1e-6, atol=2e-4)


@pytest.mark.parametrize("perturbation", SLOPES)
@pytest.mark.parametrize("name", OWN)
def test_one_attacker_that_sees_its_own_update_sends_it(name, perturbation):
    alone = jnp.arange(N) == 4
    found = jax.jit(OWN[name](perturbation))(KEY, jnp.asarray(UPDATES), ~alone, alone)
    np.testing.assert_array_equal(np.asarray(found)[0], UPDATES[4])


def test_in_a_round_attackers_compute_from_what_they_would_have_sent():
    """The layer gives the attack the honest updates of Byzantine clients that take part, not of all that there are."""
    cohort = cohort_of(N)._replace(byzantine=jnp.arange(N) < 4, selected=jnp.arange(N) != 3)
    layer = on_updates(min_max(seen="own"))
    sent = np.asarray(jax.jit(layer.encode)(KEY, (), (), jnp.asarray(UPDATES), cohort)[0])
    x = UPDATES[:3].astype(np.float64)
    expected = searched("min_max", SLOPES["std"](x), x)
    np.testing.assert_allclose(sent[:3], np.tile(expected, (3, 1)), rtol=1e-6, atol=2e-4)
    np.testing.assert_array_equal(sent[3:], UPDATES[3:])


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: unwrap(min_max)("mean"), "perturbation must be one of 'std', 'unit', 'sign', got 'mean'"),
    (lambda: unwrap(min_sum)("mean"), "perturbation must be one of 'std', 'unit', 'sign', got 'mean'"),
    (lambda: unwrap(min_sum)(bound="max"), "bound must be one of 'least', 'largest', got 'max'"),
    (lambda: unwrap(min_max)(seen="none"), "seen must be one of 'all', 'own', got 'none'"),
    (lambda: unwrap(min_sum)(seen="honest"), "seen must be one of 'all', 'own', got 'honest'"),
    whole=True,
)
