"""Shamir's secret sharing over F_q (Communications of the ACM, 1979), for several secrets of one owner at once.

A holder's share is the value, at the holder's point, of a polynomial with the secret as constant term: `threshold`
shares determine the secret, fewer are independent of it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from fedjax_priv._validate import integer
from fedjax_priv.crypto import field, prg


def share(
    seed: UInt32[Array, " s"], secrets: UInt32[Array, " k"], *, threshold: int, num_shares: int
) -> UInt32[Array, "m k"]:
    """Shares of each secret, by independent polynomials of degree `threshold - 1`.

    Row h, the shares at the point h + 1, reveals nothing about the secrets, nor do `threshold - 1` rows together, if
    the coefficients are uniform; they are words of the generator in `prg` that takes seeds of this length.

    Polynomials are written in Newton's basis, `sum_j c_j x (x - 1) ... (x - j + 1) / j!`, which is as uniform: the
    coefficients are the differences at 0, and a step to the next point adds to each difference the next one.
    Differences of an order above the number of remaining points are dropped from time to time. Work is at most m x
    threshold x k additions, three quarters of that at a threshold of m / 2, and no multiplication.

    Args:
      seed: two or eight random words, for the coefficients; never use it twice.
      secrets: field elements.
      threshold: number of shares that reconstruct.
      num_shares: number of holders, m.

    Raises:
      ValueError: `threshold` is not an integer in [1, num_shares], or `num_shares` is not an integer below q.
    """
    integer(threshold=threshold, num_shares=num_shares)
    if num_shares >= field.Q:
        raise ValueError(f"num_shares must be below q = {field.Q}, got {num_shares}")
    if threshold > num_shares:
        raise ValueError(f"threshold must be at most num_shares = {num_shares}, got {threshold}")

    def to_next_point(differences: Array, _: None) -> tuple[Array, Array]:
        differences = field.add(differences, jnp.pad(differences[:, 1:], ((0, 0), (0, 1))))
        return differences, differences[:, 0]

    differences = jnp.concatenate([secrets[:, None], _coefficients(seed, secrets.size, threshold - 1)], 1)
    shares, left = [], num_shares
    for steps in _stretches(num_shares, threshold):
        differences, part = jax.lax.scan(to_next_point, differences[:, : left + 1], length=steps)
        shares.append(part)
        left -= steps
    return jnp.concatenate(shares)


STRETCH = 256
"""Points between two droppings of differences."""


def _stretches(num_shares: int, threshold: int) -> list[int]:
    """Numbers of steps between droppings."""
    whole, rest = divmod(threshold, STRETCH)
    first = num_shares - threshold + (rest if whole else threshold)
    return [first, *[STRETCH] * whole]


def _coefficients(seed: UInt32[Array, " s"], polynomials: int, degree: int) -> UInt32[Array, "k degree"]:
    if degree == 0:
        return jnp.zeros((polynomials, 0), jnp.uint32)
    return prg.expand(seed, "shamir", 0, polynomials * degree).reshape(polynomials, degree)


def first(threshold: int, available: Bool[Array, " m"], group: Int[Array, " m"] | None = None) -> Bool[Array, " m"]:
    """The first `threshold` available holders of each group; all, if there are fewer."""
    if group is None:
        return available & (jnp.cumsum(available) <= threshold)
    before = jnp.tri(available.size, k=-1, dtype=bool) & available[None, :] & (group[:, None] == group[None, :])
    return available & (before.sum(1) < threshold)


def lagrange_weights(
    points: UInt32[Array, " m"], chosen: Bool[Array, " m"], group: Int[Array, " m"] | None = None
) -> UInt32[Array, " m"]:
    """Weights with which the shares of the chosen holders add up to the secret; zero for other holders.

    The weight of h is the product of x_k / (x_k - x_h) over the other chosen k of its group, in barycentric form
    `prod_k x_k / (x_h prod_(k != h) (x_k - x_h))`, which takes one division a holder. Each group
    interpolates separately.
    """
    group = jnp.zeros(points.size, jnp.int32) if group is None else group
    peers = chosen[:, None] & (group[:, None] == group[None, :])  # k, h
    gaps = field.sub(*jnp.broadcast_arrays(points[:, None], points[None, :]))
    of_all = field.prod(jnp.where(peers, points[:, None], np.uint32(1)))
    of_others = field.prod(jnp.where(peers & (gaps != 0), gaps, np.uint32(1)))
    return jnp.where(chosen, field.mul(of_all, field.inverse(field.mul(points, of_others))), 0)


def reconstruct(shares: UInt32[Array, "m k"], weights: UInt32[Array, " m"]) -> UInt32[Array, " k"]:
    """The secrets: the sum of shares with the weights of `lagrange_weights`, in the field."""
    return field.sum(field.mul(shares, weights[:, None]), 0)
