"""Shamir's secret sharing over F_q (Communications of the ACM, 1979), many secrets at once.

The share of holder h is the value at x = h + 1 of a polynomial whose constant term is the secret: `threshold` shares
determine it, fewer are independent of the secret.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, UInt32

from fedjax_priv._validate import integer
from fedjax_priv.base import Key
from fedjax_priv.crypto import field, prg

MAX_SHARES = 65_535
"""A holder's point is below 2**16, which makes multiplying by it cheap."""


def share(
    key: Key, secrets: UInt32[Array, "*batch k"], *, threshold: int, num_shares: int
) -> UInt32[Array, "holders *batch k"]:
    """Shares of every secret, by polynomials of degree `threshold - 1` with coefficients of their own.

    Holder h's row reveals nothing about the secrets, nor do `threshold - 1` rows together, as far as the coefficients
    are uniform: they are 64-bit-seeded words of `prg`. Work is num_shares x threshold x secrets multiplications.

    Args:
      key: of the coefficients; never used twice.
      secrets: field elements.
      threshold: shares that reconstruct.
      num_shares: holders.

    Raises:
      ValueError: `threshold` is not an integer in [1, num_shares], or `num_shares` not one up to 65,535.
    """
    integer(threshold=threshold, num_shares=num_shares)
    if num_shares > MAX_SHARES:
        raise ValueError(f"num_shares must be at most {MAX_SHARES}, got {num_shares}")
    if threshold > num_shares:
        raise ValueError(f"threshold must be at most num_shares = {num_shares}, got {threshold}")
    flat = secrets.reshape(-1)
    points = _points(num_shares)[:, None]

    def horner(total: Array, coefficient: Array) -> tuple[Array, None]:
        return _times_small_plus(total, points, coefficient[None]), None

    rows = jnp.concatenate([_coefficients(key, threshold - 1, flat.size), flat[None]])
    total, _ = lax.scan(horner, jnp.zeros((num_shares, flat.size), jnp.uint32), rows)
    return field.canonical(total).reshape(num_shares, *secrets.shape)


def _coefficients(key: Key, degree: int, count: int) -> UInt32[Array, "degree count"]:
    if degree * count == 0:
        return jnp.zeros((degree, count), jnp.uint32)
    seed = jax.random.bits(key, (2,), jnp.uint32)
    return prg.expand(seed, "shamir", 0, degree * count).reshape(degree, count)


def _times_small_plus(a: Array, x: Array, c: Array) -> Array:
    """a x + c for any uint32 a, x < 2**16 and an element c, as a uint32 that need not be an element."""
    low, high = field.split(a)
    wraps = (high * x + (low * x >> 16) >> 16) * np.uint32(5)  # 5 for each 2**32 in a x, below 2**19
    product = a * x + wraps
    product = jnp.where(product < wraps, product + np.uint32(5), product)
    total = product + c
    return jnp.where(total < c, total + np.uint32(5), total)


def _points(n: int) -> UInt32[Array, " n"]:
    return jnp.arange(1, n + 1, dtype=jnp.uint32)


def _same(group: Int[Array, " n"] | None, n: int) -> Int[Array, " n"]:
    return jnp.zeros(n, jnp.int32) if group is None else group


def first(threshold: int, available: Bool[Array, " n"], group: Int[Array, " n"] | None = None) -> Bool[Array, " n"]:
    """The first `threshold` available holders of each group, or all where there are fewer."""
    n, group = available.size, _same(group, available.size)
    before = jnp.tri(n, k=-1, dtype=bool) & available[None, :] & (group[:, None] == group[None, :])
    return available & (before.sum(1) < threshold)


def lagrange_weights(chosen: Bool[Array, " n"], group: Int[Array, " n"] | None = None) -> UInt32[Array, " n"]:
    """Weights with which the chosen holders' shares add up to the secret; zero for the others.

    The weight of h is the product of x_k / (x_k - x_h) over the other chosen k of its group: each group interpolates on
    its own.
    """
    group, points = _same(group, chosen.size), _points(chosen.size)
    one = jnp.ones_like(points)

    def factor(products: tuple[Array, Array], peer: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], None]:
        point, counts, its_group = peer
        takes_part = counts & (its_group == group) & (point != points)
        above, below = products
        above = field.mul(above, jnp.where(takes_part, point, one))
        return (above, field.mul(below, jnp.where(takes_part, field.sub(point, points), one))), None

    (above, below), _ = lax.scan(factor, (one, one), (points, chosen, group))
    return jnp.where(chosen, field.mul(above, field.inverse(below)), 0)


def reconstruct(shares: UInt32[Array, "n *batch"], weights: UInt32[Array, " n"]) -> UInt32[Array, "*batch"]:
    """The secrets: the shares' sum with the weights of `lagrange_weights`, in the field.

    With groups, a secret shared within one group has zero shares at the holders of the others.
    """
    column = weights.reshape(-1, *(1,) * (shares.ndim - 1))
    return field.sum(field.mul(shares, column), 0)
