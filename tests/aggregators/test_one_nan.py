"""One NaN among many numbers, over which XLA's maximum passes on a CPU where it takes several at once."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.aggregators import fltrust
from fedjax_priv.aggregators.pre_aggregation.clipping import clipped
from fedjax_priv.base import Received
from fedjax_priv.engine.row_norms import norms

G, D = 9, 1000


def test_fltrust_does_not_trust_a_row_with_one():
    made, key = fltrust(), jax.random.key(0)
    rows = np.random.default_rng(0).normal(1.0, 0.1, (G, D)).astype(np.float32)
    rows[-1, 3] = np.nan
    apply = lambda rows: made.apply(key, made.init(D), Received(rows, jnp.ones(G, jnp.int32)))[0]
    for run, several in ((apply, rows), (jax.vmap(apply), np.stack([rows] * 40))):
        assert np.isfinite(jax.jit(run)(several)).all()


def test_clipping_makes_the_whole_row_nan():
    rows = np.ones((G, D), np.float32)
    rows[-1, 3] = np.nan
    shorten = lambda rows: clipped(rows, norms(rows), 1.0)
    for run, several in ((shorten, rows), (jax.vmap(shorten), np.stack([rows] * 40))):
        found = np.isnan(jax.jit(run)(several)).reshape(-1, G, D)
        assert found[:, -1].all() and not found[:, :-1].any()
