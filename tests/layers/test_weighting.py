"""Weights, in addition to the laws: the mean by weights told to the server."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import Received
from fedjax_priv.layers import (
    plain,
    plain_field,
    public_weighted_mean,
    quantize,
    scale,
    stack,
    stateless,
    weighted_mean,
)
from helpers import cohort_of, run_layer, survivors

N, D = 6, 5
KEY = jax.random.key(0)
WEIGHT = np.array([1, 2, 3, 4, 5, 6]) / 21
GROUP = np.array([0, 1, 0, 1, 1, 0])
WHO = cohort_of(N, group=GROUP, weight=WEIGHT)
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


def run(layer, lost=(), who=WHO):
    alive = survivors(N, lost) & who.selected
    return run_layer(layer, KEY, jnp.asarray(X), who, alive)


def test_the_mean_is_one_of_survivors_in_each_group():
    layer = stack(weigh=public_weighted_mean(2, factor=2.5), send=plain(2))
    for lost in ([], [1, 5], [0, 2]):
        received = run(layer, lost)["received"]
        for g in (0, 1):
            mine = (g == GROUP) & np.asarray(survivors(N, lost))
            expected = 2.5 * (WEIGHT[mine, None] * X[mine]).sum(0) / WEIGHT[mine].sum()
            np.testing.assert_allclose(received.value[g], expected, rtol=1e-5)
            assert received.count[g] == mine.sum()


def test_a_group_without_survivors_has_no_mean():
    received = run(stack(weigh=public_weighted_mean(2), send=plain(2)), [0, 2, 5])["received"]
    assert received.count.tolist() == [0, 3]
    assert not received.value[0].any()


def test_what_is_left_out_of_the_sum_leaves_its_weight_in():
    """As in SparseSecAgg, where a client's weight counts at coordinates it does not send."""
    layer = stack(weigh=public_weighted_mean(2), half=stateless(lambda key, x, who: x.at[:, ::2].set(0)), send=plain(2))
    received, mine = run(layer)["received"], GROUP == 0
    expected = (WEIGHT[mine, None] * X[mine]).sum(0) / WEIGHT[mine].sum()
    np.testing.assert_allclose(received.value[0], np.where(np.arange(D) % 2, expected, 0), rtol=1e-5)


def test_a_weight_is_32_bits_when_the_round_opens():
    who = WHO._replace(selected=survivors(N, [3]))
    bits = run(stack(weigh=public_weighted_mean(2), send=plain(2)), [1], who)["bits"]
    assert bits["advertise"].up.tolist() == [32, 32, 32, 0, 32, 32]
    assert not bits["advertise"].down.any()


def test_the_weights_of_a_group_that_was_not_recovered_make_no_difference():
    layer = public_weighted_mean(2)
    public = (WHO.weight, WHO.group)
    decoded = layer.decode(survivors(N), public, Received(jnp.ones((2, D)), jnp.array([0, 3])))
    assert decoded.count.tolist() == [0, 3]
    np.testing.assert_allclose(decoded.value[1], 21 / 11, rtol=1e-6)


@pytest.mark.parametrize("make", [scale, public_weighted_mean])
def test_factors(make):
    for wrong in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="factor must be a finite number > 0"):
            make(factor=wrong)
    encoded = jax.jit(lambda factor: make(factor=factor).encode(KEY, (), (), jnp.asarray(X), WHO)[0])
    np.testing.assert_allclose(encoded(2.0), 2 * WEIGHT[:, None] * X, rtol=1e-6)
    assert jnp.isnan(encoded(-2.0)).all(), "a traced one out of range is not finite"


def test_a_lie_about_a_weight_divides_everything():
    """The last of three clients sends nothing but the weight that leaves one grid point of the total."""
    levels, x = 2.0**20, jnp.array([[3.0], [1.0], [2.0]])
    who = cohort_of(3, weight=[0.25, 0.5, 0.25])
    lie = stateless(lambda key, rows, cohort: rows.at[2].set(jnp.array([0.0, 1 / levels - 0.75])), whole=True)
    found = {
        name: run_layer(
            stack(weigh=weighted_mean(), **attack, quantize=quantize(levels, max_terms=3), send=plain_field()),
            KEY, x, who, survivors(3, ()),
        )["received"].value
        for name, attack in (("honest", {}), ("attacked", {"attack": lie}))
    }  # fmt: skip
    np.testing.assert_allclose(found["honest"], [[1.75]], rtol=1e-5)
    np.testing.assert_allclose(found["attacked"], [[1.25 * levels]], rtol=1e-5)
