"""Every attack on updates against its closed form in float64, whatever other rows hold."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedjax_priv.attacks import alie, baruch_z, foe, gaussian, infinite, mimic, optimal_alie, sign_flip
from helpers import refuses

N, D = 9, 6
KEY = jax.random.key(5)
NAMES = st.sampled_from(
    (
        "sign_flip",
        "foe",
        "alie",
        "alie, byzfl",
        "alie, baruch",
        "mimic",
        "mimic, last",
        "infinite",
        "gaussian",
        "optimal",
    )
)
MASKS = st.lists(st.booleans(), min_size=N, max_size=N).map(np.array)


def away(sign, z, ddof=0):
    return lambda own, honest: honest.mean(0) + sign * z * honest.std(0, ddof=ddof)


def baruch(own, honest):
    m, f = N, N - len(honest)
    supporters = np.floor(m / 2 + 1) - f
    return away(-1, stats.norm.ppf((m - f - supporters) / (m - f)))(own, honest)


ATTACKS = {
    "sign_flip": sign_flip(2.5),
    "foe": foe(0.3),
    "alie": alie(1.2),
    "alie, byzfl": alie(1.5, ddof=1, sign=1),
    "alie, baruch": alie(),
    "mimic": mimic(2),
    "mimic, last": mimic(50),
    "infinite": infinite(),
    "gaussian": gaussian(),
    "optimal": optimal_alie(lambda updates: jnp.sort(updates, axis=0)[2], evals=3),
}
JITTED = {name: jax.jit(attack) for name, attack in ATTACKS.items()}
REFERENCES = {  # (own [d], honest [h, d]) -> [d]
    "sign_flip": lambda own, honest: -2.5 * own,
    "foe": lambda own, honest: -0.3 * honest.mean(0),
    "alie": away(-1, 1.2),
    "alie, byzfl": away(1, 1.5, ddof=1),
    "alie, baruch": baruch,
    "mimic": lambda own, honest: honest[2],
    "mimic, last": lambda own, honest: honest[-1],
    "infinite": lambda own, honest: np.full(D, np.inf),
}


def sent(name, updates, honest):
    rows = JITTED[name](KEY, jnp.asarray(updates, jnp.float32), jnp.asarray(honest), ~jnp.asarray(honest))
    return np.broadcast_to(np.asarray(rows), updates.shape)


def updates_of(seed):
    return np.random.default_rng(seed).normal(3, 2, size=(N, D)).astype(np.float32)


@pytest.mark.parametrize("name", REFERENCES)
def test_closed_form(name):
    for seed, byzantine in enumerate(([0], [0, 1, 2, 3], [8, 2, 5])):
        updates, honest = updates_of(seed), np.ones(N, bool)
        honest[byzantine] = False
        rows = sent(name, updates, honest)
        for i in byzantine:
            expected = REFERENCES[name](updates[i].astype(np.float64), updates[honest].astype(np.float64))
            np.testing.assert_allclose(rows[i], expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["alie", "alie, byzfl", "alie, baruch", "optimal"])
@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
def test_scaled_updates_give_the_scaled_attack(name, scale):
    """Squares of such deviations vanish or overflow in float32."""
    updates, honest = updates_of(0), np.arange(N) >= 3
    expected = sent(name, updates, honest) * np.float32(scale)
    np.testing.assert_array_equal(sent(name, updates * np.float32(scale), honest), expected)
    assert (expected[0] != updates[honest].mean(0) * np.float32(scale)).any()


@pytest.mark.parametrize("f", [1, 3, 4])
def test_the_mean_turns_round_beyond_the_number_of_honest_clients_for_a_byzantine_one(f):
    updates, honest = jnp.asarray(updates_of(1)), jnp.arange(N) >= f
    mean = np.asarray(updates, np.float64)[f:].mean(0)
    for factor in (0.9, 1.1):
        scale = factor * (N - f) / f
        rows = jnp.where(honest[:, None], updates, foe(scale)(KEY, updates, honest, ~honest))
        np.testing.assert_allclose(rows.mean(0), mean * (N - f - scale * f) / N, atol=1e-4)
        assert (np.asarray(rows.mean(0)) @ mean > 0) == (factor < 1)


@given(name=NAMES, honest=MASKS, seed=st.integers(0, 100), garbage=st.sampled_from((np.nan, np.inf, -np.inf, 1e38)))
def test_rows_of_other_byzantine_clients_make_no_difference(name, honest, seed, garbage):
    updates = updates_of(seed)
    before = sent(name, updates, honest)
    for i in np.flatnonzero(~honest):
        others = ~honest & (np.arange(N) != i)
        after = sent(name, np.where(others[:, None], np.float32(garbage), updates), honest)
        np.testing.assert_array_equal(before[i], after[i])
        assert np.isfinite(after[i]).all() or name in ("infinite", "alie, baruch"), "without a majority there is no z"


@given(name=st.sampled_from(("foe", "alie, baruch", "mimic", "optimal")), seed=st.integers(0, 100))
def test_honest_rows_do_make_a_difference(name, seed):
    updates, honest = updates_of(seed), np.arange(N) >= 2
    changed = np.where(honest[:, None], updates + 1, updates)
    assert (sent(name, updates, honest)[0] != sent(name, changed, honest)[0]).all()


@pytest.mark.parametrize(
    "family", [sign_flip, foe, alie, lambda std: gaussian(0.5, std), lambda mean: gaussian(mean, 2.0)]
)
def test_scales_may_be_traced_and_mapped_over(family):
    updates, honest = jnp.asarray(updates_of(0)), jnp.arange(N) >= 3
    factors = jnp.array([0.0, 0.7, 2.0])
    mapped = jax.jit(jax.vmap(lambda factor: family(factor)(KEY, updates, honest, ~honest)))(factors)
    for factor, rows in zip([0.0, 0.7, 2.0], mapped, strict=True):
        np.testing.assert_allclose(rows, family(factor)(KEY, updates, honest, ~honest), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", [sign_flip, foe, alie, lambda std: gaussian(0.5, std)])
def test_a_traced_scale_out_of_range_is_sent_as_nan(family):
    updates, honest = jnp.asarray(updates_of(0)), jnp.arange(N) >= 3
    assert jnp.isnan(jax.jit(lambda factor: family(factor)(KEY, updates, honest, ~honest))(-1.0)).all()


@pytest.mark.parametrize("mean", [np.inf, -np.inf, np.nan])
def test_a_traced_mean_that_is_not_finite_is_sent_as_nan(mean):
    updates, honest = jnp.asarray(updates_of(0)), jnp.arange(N) >= 3
    assert jnp.isnan(jax.jit(lambda mean: gaussian(mean)(KEY, updates, honest, ~honest))(mean)).all()


@pytest.mark.parametrize(("m", "f", "z"), [(32, 7, 0.2533), (32, 3, 0.0432), (3, 1, 0.0), (50, 24, 1.4261)])
def test_baruch_z(m, f, z):
    assert float(baruch_z(m, f)) == pytest.approx(z, abs=1e-4)
    assert float(jax.jit(baruch_z, static_argnums=0)(m, f)) == pytest.approx(z, abs=1e-4)


def test_gaussian_rows_are_normal_independent_and_bound_to_their_row():
    attack = jax.jit(gaussian(0.5, 2.0))
    rows = np.asarray(attack(KEY, jnp.zeros((8, 5000)), jnp.ones(8, bool), jnp.zeros(8, bool)), np.float64)
    assert stats.kstest(rows.ravel(), stats.norm(0.5, 2).cdf).pvalue > 1e-3
    correlation = np.corrcoef(rows) - np.eye(8)
    assert np.abs(correlation).max() < 5 / np.sqrt(5000)
    fewer = attack(KEY, jnp.ones((5, 5000)), jnp.arange(5) > 2, jnp.arange(5) < 3)
    np.testing.assert_array_equal(fewer, rows[:5].astype(np.float32))
    assert (attack(jax.random.key(6), jnp.zeros((8, 5000)), jnp.ones(8, bool), jnp.zeros(8, bool)) != rows).all()


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: baruch_z(2**40, 3), "num_clients must be below 2**31, got 1099511627776"),
    (lambda: sign_flip(-1.0), "magnitude must be a finite number >= 0, got -1.0"),
    (lambda: foe(np.inf), "scale must be a finite number >= 0, got inf"),
    (lambda: alie(-0.1), "z must be a finite number >= 0, got -0.1"),
    (lambda: alie(ddof=2), "ddof must be one of 0, 1, got 2"),
    (lambda: alie(sign=0), "sign must be one of -1, 1, got 0"),
    (lambda: mimic(-1), "client must be an integer >= 0, got -1"),
    (lambda: gaussian(np.nan), "mean must be a finite number, got nan"),
    (lambda: gaussian(std=-1.0), "std must be a finite number >= 0, got -1.0"),
    whole=True,
)


@pytest.mark.parametrize(
    ("given", "message"),
    [((np.nan, 2), "num_clients must be an integer >= 1, got nan"), ((5, -1), "num_byzantine must be an integer >= 0")],
)
def test_baruch_z_takes_numbers_of_clients(given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        inspect.unwrap(baruch_z)(*given)
