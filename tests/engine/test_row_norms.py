"""Scales of rows, against `math.frexp`."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.engine.row_norms import norms, unit_scale


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("top", [0, 3, -30])
def test_scales_are_powers_of_two_by_the_exponent(double, top):
    with jax.enable_x64(double):
        sizes = np.array(
            [1, 0.5, 0.4999, 3e-19, 7e30, 2.0**-126, 3.4e38, *[1e-300, 1e300] * double],
            jnp.float64 if double else jnp.float32,
        )
        expected = [2.0 ** np.clip(top - math.frexp(size)[1], -126, 126) for size in sizes.tolist()]
        np.testing.assert_array_equal(unit_scale(jnp.asarray(sizes), top), expected)
        others = jnp.array([0.0, jnp.nan, jnp.inf], sizes.dtype)
        np.testing.assert_array_equal(unit_scale(others, top), 2.0**top)


def test_norms_of_huge_rows_that_were_divided_before():
    """XLA folds the division and the scale; a scale of 2^-126 divided by 1.5 is 0 on a CPU."""
    rows = np.random.default_rng(0).uniform(0.5, 1, size=(2, 5)) * np.array([1.5e38, 3e37])[:, None]
    found = jax.jit(lambda x: norms(x / 1.5))(jnp.asarray(rows, jnp.float32))
    np.testing.assert_allclose(found, np.linalg.norm(rows / 1.5, axis=1), rtol=1e-6)


def test_norms_of_tiny_and_huge_rows():
    rows = np.random.default_rng(0).normal(size=(4, 7)) * np.array([1e-36, 1e-20, 1.0, 1e37])[:, None]
    np.testing.assert_allclose(norms(jnp.asarray(rows, jnp.float32)), np.linalg.norm(rows, axis=1), rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(9, 1000), (1000, 7), (1, 8000)])
def test_one_number_among_many_that_is_not_finite_is_seen(shape, bad):
    """XLA's maximum passes over NaN on a CPU where it takes several numbers at once."""
    rows = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    rows[-1, 3] = bad
    for run, given in ((norms, rows), (jax.vmap(norms), np.stack([rows] * 40))):
        found = np.asarray(jax.jit(run)(given)).reshape(-1, len(rows))
        np.testing.assert_allclose(
            found[:, :-1], np.tile(np.linalg.norm(rows[:-1], axis=1), (len(found), 1)), rtol=1e-6
        )
        assert not np.isfinite(found[:, -1]).any()
