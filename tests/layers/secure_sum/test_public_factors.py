"""Uploads that the server multiplies by public integers: the sum, who counts, and what it costs to tell."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.lattice import spacing_of_weighed
from fedjax_priv.layers import coded_masks, one_shot_masks
from helpers import Q, cohort_of, run_layer, survivors

N, D, FEWEST, LARGEST = 6, 7, 3, 50
LAYERS = {
    "coded": coded_masks(num_values=D, group_size=N, colluders=1, lost=3, threshold=FEWEST),
    "one_shot": one_shot_masks(
        group_size=N, committee=4, threshold=2, fewest=FEWEST, length=5,
        spacing=spacing_of_weighed(N, 21, D, 0.0, LARGEST),
    ),
}  # fmt: skip
SIGNED = np.random.default_rng(0).integers(-400, 401, (N, D))
LOST = [4]


@functools.partial(jax.jit, static_argnums=0)
def played(layer, factor):
    who = cohort_of(N, round=3)._replace(factor=factor)
    return run_layer(layer, jax.random.key(1), jnp.asarray(SIGNED % Q, jnp.uint32), who, survivors(N, LOST))


def with_factors(name, *factor):
    return played(LAYERS[name], jnp.array(factor, jnp.uint32))


@pytest.mark.parametrize("name", LAYERS)
def test_the_sum_is_that_of_the_products(name):
    factor = np.array([3, 0, LARGEST, 1, 9, 2])
    result = with_factors(name, *factor)
    alive = np.asarray(survivors(N, LOST))
    expected = (factor[alive, None] * SIGNED[alive]).sum(0) % Q
    assert np.asarray(result["received"].value)[0].tolist() == expected.tolist() and result["received"].count[0] == 5


@pytest.mark.parametrize("name", LAYERS)
def test_an_upload_times_zero_hides_nobody(name):
    """Five arrive. With three zeros the sum is of two, and nobody answers; with two it is of three, which is enough."""
    few, enough = with_factors(name, 0, 0, 7, 0, 1, 1), with_factors(name, 0, 0, 7, 1, 1, 1)
    assert few["received"].count[0] == 0 and not np.asarray(few["header"].sums).any()
    assert not np.asarray(few["header"].sent).any() and not np.asarray(few["bits"]["unmask"].up).any()
    assert enough["received"].count[0] == 5 and np.asarray(enough["header"].sent).any()
