from inspect import unwrap as unwrapped

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators import coordinate_median, mean, trimmed_mean
from fedjax_priv.analysis import robustness
from fedjax_priv.attacks import foe, infinite
from helpers import refuses

KEY = jax.random.key(3)
M, F, D = 9, 2, 50
HONEST = jnp.arange(M) >= F
UPDATES = np.random.default_rng(0).normal(1, 1, (M, D)).astype(np.float32)


def measured(rule, attack, updates=UPDATES):
    return jax.jit(lambda x: robustness(KEY, rule, attack, x, HONEST))(jnp.asarray(updates))


def test_the_mean_under_foe_in_closed_form():
    """Agg = (1 - delta) m - delta s m, and the distances of all pairs; float64."""
    honest = UPDATES[F:].astype(np.float64)
    centre, share = honest.mean(0), F / M
    found = measured(mean(), foe(0.5))
    assert found.fraction == pytest.approx(share, rel=1e-5)
    assert found.error == pytest.approx((share * 1.5) ** 2 * (centre**2).sum(), rel=1e-5)
    pairs = [((a - b) ** 2).sum() for i, a in enumerate(honest) for b in honest[:i]]
    assert found.spread == pytest.approx(np.mean(pairs), rel=1e-5)
    assert found.c == pytest.approx(float(found.error) / share / np.mean(pairs), rel=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e18])
def test_c_does_not_depend_on_the_scale_of_rows(scale):
    """Though the squares of such rows are no float32."""
    expected = float(measured(mean(), foe(0.5)).c)
    assert measured(mean(), foe(0.5), UPDATES * np.float32(scale)).c == pytest.approx(expected, rel=1e-4)


def test_an_error_far_beyond_the_spread_is_a_number():
    """Rows of 1e-25 and a direction of 1/4: the ratio of the squares is no float32, the error is."""
    updates, honest = jnp.array([[1e-25], [2e-25], [3e-25], [0.0]]), jnp.arange(4) < 3
    found = robustness(KEY, mean(), lambda key, x, honest, byzantine: jnp.ones((1, 1)), updates, honest)
    assert found.error == pytest.approx(1 / 16) and found.spread == 0 and np.isinf(found.ratio)


def test_rules_that_bear_the_attack_have_a_small_c():
    for rule in (coordinate_median(), trimmed_mean(F)):
        found = measured(rule, infinite(), np.where(np.asarray(HONEST)[:, None], UPDATES, np.nan))
        assert 0 < found.c < 1
    assert not np.isfinite(measured(mean(), infinite()).c)


test_bad_arguments = refuses(
    lambda rule, attack: unwrapped(robustness)(KEY, rule, attack, jnp.asarray(UPDATES), HONEST),
    (mean, foe(), "rule must be an Aggregator, .* got mean, which may have to be called first"),
    (mean(), foe, "attack must be a function of 4 arguments, .* got foe, which may have to be called first"),
    (
        mean(),
        lambda key, x, honest, byzantine: x[:3],
        r"attack must return rows of shape \(9, 50\) .* got \(3, 50",
    ),
)


def test_numbers_for_a_mask_of_honest_rows_are_refused():
    """`~honest` of 1 is -2: attacks would count other Byzantine rows."""
    with pytest.raises(ValueError, match=r"^honest must be a bool mask of shape \(9,\), got int32 \(9,\)$"):
        unwrapped(robustness)(KEY, mean(), foe(0.5), UPDATES, HONEST.astype(jnp.int32))
