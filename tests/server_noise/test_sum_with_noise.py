"""The aggregator that adds noise to a sum: its laws, its arithmetic, and that it needs no rows."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv import aggregators
from fedjax_priv.base import Received
from fedjax_priv.server_noise import Clipping, ServerNoise, adaptive_noisy_sum, independent, noisy_sum
from fedjax_priv.testing import check_aggregator

KEY = jax.random.key(5)
ROWS = jnp.arange(6.0).reshape(2, 3)


def test_it_keeps_the_laws_of_an_aggregator():
    check_aggregator(noisy_sum(independent(), 0.3, 0.5))


def test_it_is_the_sum_and_noise_of_unit_deviation_times_the_factor():
    ones = ServerNoise(lambda d: jnp.int32(3), lambda key, state, d: (jnp.full(d, state, jnp.float32), state + 1))
    rule = noisy_sum(ones, 0.5, 0.25)
    for count, rows in (([1, 4], ROWS.sum(0)), ([0, 4], ROWS[1]), ([0, 0], 0 * ROWS[0])):
        direction, kept = rule.apply(KEY, jnp.int32(3), Received(ROWS, jnp.array(count)))
        np.testing.assert_allclose(direction, 0.25 * (rows + 0.5 * 3))
        assert kept.counted == kept.lost == 4
    assert not rule.needs_rows and rule.most_byzantine(5) == 0


@pytest.mark.parametrize("step", [aggregators.clipping(99.0), aggregators.bucketing(2), aggregators.arc(1)])
def test_noise_hides_that_nobody_came_behind_a_step_too(step):
    rule = aggregators.pre_aggregated(step, noisy_sum(independent(), 1.0))
    nobody, _ = rule.apply(KEY, rule.init(3), Received(ROWS, jnp.array([0, 0])))
    assert not rule.needs_rows and np.isfinite(nobody).all() and np.all(nobody != 0)
    if rule.most_byzantine(1) < 0:
        alone, _ = rule.apply(KEY, rule.init(3), Received(ROWS, jnp.array([0, 1])))
        assert np.isnan(alone).all(), "too few rows for the step"


test_bad_arguments = refused(
    (lambda: noisy_sum(independent(), -1.0), "deviation must be a finite number >= 0, got -1.0"),
    (
        lambda: inspect.unwrap(noisy_sum)(independent, 1.0),
        r"noise must be a ServerNoise, such as server_noise.independent\(\), got independent, which may have to",
    ),
    (
        lambda: inspect.unwrap(adaptive_noisy_sum)(0.5, 1.0, 1.0, clipping=Clipping(0.1, 0.5), bit=0.5, clients=9),
        "noise must be a ServerNoise, such as .*, got float",
    ),
    (
        lambda: inspect.unwrap(adaptive_noisy_sum)(independent(), 1.0, 1.0, clipping=0.1, bit=0.5, clients=9),
        "clipping must be a Clipping, such as .*, got float",
    ),
    (lambda: noisy_sum(independent(), 1.0, 0.0), "factor must be a finite number > 0, got 0.0"),
)
