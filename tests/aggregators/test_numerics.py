"""Order statistics, weighted sums in blocks of columns, subsets and top eigenvectors."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators.numerics import column_blocks, order_statistics, subsets
from fedjax_priv.aggregators.numerics.covariance import top_pair
from fedjax_priv.engine.row_norms import norms

RNG = np.random.default_rng(0)
TINY = (1.0, 2.0**-100, 2.0**100)


@pytest.mark.parametrize("n", range(1, 11))
def test_the_network_sorts_every_row_of_zeros_and_ones(n):
    """So it sorts everything (Knuth, 0-1 principle)."""
    rows = np.array(list(itertools.product((0, 1), repeat=n))).T.copy()
    for i, j in order_statistics.comparators(n):
        rows[i], rows[j] = np.minimum(rows[i], rows[j]), np.maximum(rows[i], rows[j])
    assert (np.diff(rows, axis=0) >= 0).all()


def test_a_network_of_32_has_191_exchanges():
    assert len(list(order_statistics.comparators(32))) == 191


@pytest.mark.parametrize(("g", "d"), [(1, 5), (2, 5), (33, 5), (65, 5), (100, 5), (65, 0), (65, 2), (128, 512)])
def test_means_of_ranks(g, d):
    """Also of as many columns as whole blocks have."""
    rows = RNG.normal(size=(g, d)).astype(np.float32)
    rows[RNG.random(rows.shape) < 0.1] = np.nan
    rows[RNG.random(rows.shape) < 0.1] = -np.inf
    ok = RNG.random(g) < 0.8
    ok[0] = True
    ordered = np.sort(np.where(np.isnan(rows[ok]), np.inf, rows[ok]), 0)
    means = jax.jit(order_statistics.mean_of_ranks)
    for low, high in {(0, 1), (len(ordered) // 2, len(ordered) // 2 + 1), (len(ordered) // 3, len(ordered))}:
        found = means(jnp.asarray(rows), jnp.asarray(ok), jnp.int32(low), jnp.int32(high))
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(found, ordered[low:high].mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [0, 1, 5])
@pytest.mark.parametrize("g", [3, 200])
def test_blocks_of_columns(g, columns):
    """Two blocks and a few more columns, which the last block of a map takes with columns of the one before."""
    d = 2 * max(256, 2**15 // g) + columns
    rows, origin, weights = RNG.normal(size=(g, d)), RNG.normal(size=d), RNG.normal(size=(2, g))
    weights[0, 1] = 0
    there = np.float32(rows)
    there[1] = np.nan
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * np.abs(b).max())
    members, near = RNG.random((g, g)) < 0.5, np.arange(g) != 1
    members[0], members[1] = near, True
    members[:, 0] = True

    @jax.jit
    def all_of(weights, there, members, near, x, o):
        lengths = [norms(x * jnp.float32(tiny)) for tiny in TINY]
        sums = column_blocks.weighted_sum(weights, there), column_blocks.means(members, there, near)
        return *sums, column_blocks.gram(x, o), lengths

    x, o = np.float32(rows), np.float32(origin)
    total, mixed, gram, lengths = jax.tree.map(np.asarray, all_of(np.float32(weights[0]), there, members, near, x, o))
    close(total, weights[0] @ rows)
    spoilt = members[:, 1]
    assert np.isnan(mixed[spoilt]).all() and spoilt.any()
    kept = members[~spoilt]
    close(mixed[~spoilt], kept @ np.where(near[:, None], rows, 0) / kept.sum(1, keepdims=True))
    away = rows - origin
    close(gram, away @ away.T)
    for tiny, found in zip(TINY, lengths, strict=True):
        close(found, np.linalg.norm(rows, axis=1) * tiny)


@pytest.mark.parametrize(("n", "k"), [(5, 0), (5, 2), (6, 5)])
def test_subsets_are_in_the_order_of_itertools(n, k):
    found = [tuple(np.flatnonzero(mask)) for mask in subsets.all_but(k, n)]
    assert found == list(itertools.combinations(range(n), n - k))


@pytest.mark.parametrize("gap", [0.5, 1e-2, 1e-4, 1e-6, 0.0])
def test_the_top_pair_is_that_of_lapack(gap):
    """If two eigenvalues are close, any vector of their plane nearly has the largest one."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    matrix = (vectors * np.array([3, 3 * (1 - gap), 1, 0.5, 0.1, 1e-3, 0, 0, 0])) @ vectors.T
    for scale in (1e-30, 1.0, 1e30):
        value, vector = jax.jit(top_pair)(jnp.asarray(matrix * scale, jnp.float32))
        assert value == pytest.approx(3 * scale, rel=2e-6)
        vector = np.asarray(vector, np.float64)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
        assert np.linalg.norm(matrix @ vector - 3 * vector) < 3 * min(gap, 1e-5) + 2e-6
    if gap >= 1e-4:
        assert abs(vector @ vectors[:, 0]) == pytest.approx(1, abs=1e-6)


def test_the_top_pair_of_nothing_is_zero():
    value, vector = top_pair(jnp.zeros((4, 4)))
    assert value == 0 and not np.asarray(vector).any()
