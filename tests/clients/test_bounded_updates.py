"""The ball of an update, which is smaller where numbers are rounded afterwards."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.base import Told
from fedjax_priv.clients import bounded, bounded_and_counted, everyone
from fedjax_priv.clients.bounded_updates import CLIP as CLIP_NORM
from helpers import targets, towards_target

KEY = jax.random.key(5)
N, D, CLIP, BIT = 6, 12, 0.25, 0.5
DATA = targets(N, D)


def norms(local, params):
    """Euclidean norms of what clients send, in float64; none is inside the ball before."""
    who, _ = everyone().apply(KEY, (), jnp.int32(0), DATA.count)
    update, _, _ = local.apply(KEY, (), params, DATA, who)
    return np.linalg.norm(np.asarray(update, float), axis=1)


@pytest.mark.parametrize("margin", [0.0, 1e-3, 0.1])
def test_rounding_by_the_margin_leaves_the_norm_within_one(margin):
    local = bounded(towards_target(), clip=CLIP, margin=margin)
    np.testing.assert_allclose(norms(local, jnp.full(D, 9.0)) + margin * D**0.5, 1.0, rtol=1e-5)


@pytest.mark.parametrize("margin", [0.0, 1e-3, 0.1])
def test_with_a_bit_too(margin):
    local = bounded_and_counted(towards_target(), bit=BIT, margin=margin)
    found = norms(local, Told(jnp.full(D, 9.0), {CLIP_NORM: jnp.float32(CLIP)}))
    np.testing.assert_allclose(found + margin * (D + 1) ** 0.5, (1 + (BIT / 2) ** 2) ** 0.5, rtol=1e-5)


test_bad_margins = refused(
    *(
        (functools.partial(make, towards_target(), margin=margin), "margin must be a finite number >= 0, got")
        for make in (functools.partial(bounded, clip=1.0), functools.partial(bounded_and_counted, bit=BIT))
        for margin in (-0.5, float("nan"), float("inf"), True)
    ),
    (
        lambda: norms(bounded(towards_target(), clip=CLIP, margin=0.3), jnp.full(D, 9.0)),
        "margin must be far below .* = 0.288675 for 12 coordinates, got 0.3",
    ),
)
