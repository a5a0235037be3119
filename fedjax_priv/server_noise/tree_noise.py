"""Noise of a binary tree over rounds: every sum of updates gets the noise of few nodes (DP-FTRL)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fedjax_priv import _validate
from fedjax_priv.base import Key
from fedjax_priv.crypto.normal_draws import normal
from fedjax_priv.server_noise import correlations
from fedjax_priv.server_noise.process import ServerNoise
from fedjax_priv.server_noise.streams import stream


def tree(leaves: int, variance_reduced: bool = True) -> ServerNoise:
    """Tree aggregation: the sum of the first t updates of a tree has the noise of at most log2(leaves) + 1 nodes.

    Each complete dyadic interval of rounds has a node with noise N(0, I), drawn again from its key when it is needed.
    A round adds the noise of the sum after it less that of the sum before: at most log2(leaves) + 1 draws. After
    `leaves` rounds a fresh tree starts, whose nodes have new noise. Source: Kairouz, McMahan, Song, Thakkar, Thakurta,
    Xu 2021, arXiv 2103.00039.

    Args:
      leaves: rounds of a tree, >= 1.
      variance_reduced: the sum over an interval is estimated from its node and from both halves, each with the weight
        of its precision (Honaker 2015, bottom-up). A node of height j then has the variance `2^j / (2^{j+1} - 1)` for
        1, at the same privacy; the state holds log2(leaves) vectors of d numbers. Otherwise it holds none.

    Raises:
      ValueError: `leaves` is not an integer >= 1.

    Examples:
      >>> rule = noisy_sum(tree(leaves=64), deviation=2.0)
    """
    leaves = _validate.integer(leaves=leaves)
    _validate.one_of((True, False), variance_reduced=variance_reduced)
    top = leaves.bit_length() - 1
    buffered = variance_reduced and top > 0
    correlation = correlations.Trees(leaves, variance_reduced)

    def row(key: Key, t: Int[Array, ""], buffers: Any, d: int) -> tuple[Array, Any]:
        leaf = t % leaves
        this = jax.random.fold_in(key, t // leaves)
        height = jax.lax.population_count(leaf & ~(leaf + 1))  # of the largest interval that ends with this round
        return (_reduced if buffered else _plain)(this, leaf, height, buffers, d)

    return stream(correlation, lambda d: jnp.zeros((top, d)) if buffered else (), row)


def _plain(
    key: Key, leaf: Int[Array, ""], height: Int[Array, ""], buffers: tuple, d: int
) -> tuple[Float[Array, " d"], tuple]:
    """The node that the sum gains, less those that it replaces."""
    lost = lambda j, noise: noise - _node(key, j, (leaf >> j) - 1, d)
    return jax.lax.fori_loop(0, height, lost, _node(key, height, leaf >> height, d)), buffers


def _reduced(
    key: Key, leaf: Int[Array, ""], height: Int[Array, ""], left: Float[Array, "top d"], d: int
) -> tuple[Float[Array, " d"], Array]:
    """As `_plain`, of estimates: `left[j]` is that of the last complete left half of height j."""
    own = jnp.asarray(_own_weights(left.shape[0]), left.dtype)

    def up(j: Array, carried: tuple[Array, Array]) -> tuple[Array, Array]:
        """From the estimate at height j to the one above."""
        estimate, lost = carried
        node = _node(key, j + 1, leaf >> (j + 1), d)
        return own[j] * node + (1 - own[j]) * (left[j] + estimate), lost + left[j]

    zero = jnp.zeros(d, left.dtype)
    estimate, lost = jax.lax.fori_loop(0, height, up, (_node(key, jnp.int32(0), leaf, d), zero))
    return estimate - lost, left.at[height].set(estimate, mode="drop")


def _own_weights(top: int) -> np.ndarray:
    """The weight of a node of height j + 1 against its halves: 2 v / (2 v + 1), if their estimates have variance v."""
    variance = 2.0 ** np.arange(top) / (2.0 ** np.arange(1, top + 1) - 1)
    return 2 * variance / (2 * variance + 1)


def _node(key: Key, height: Array, index: Array, d: int) -> Float[Array, " d"]:
    """The noise of the interval of rounds `index 2^height` to `(index + 1) 2^height - 1` of a tree."""
    return normal(jax.random.fold_in(jax.random.fold_in(key, height), index), (d,))
