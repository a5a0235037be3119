"""Shamir's secret sharing over F_q (Communications of the ACM, 1979), for the secrets of many owners at once.

A holder's share is the value, at the holder's point, of a polynomial with the secret as constant term: `threshold`
shares determine the secret, fewer are independent of it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from fedjax_priv._validate import integer
from fedjax_priv.crypto import field, matrix, prg

ORDER = 38
"""Of the subgroup of F_q without 0 of which points are cosets; a divisor of q - 1 = 2 * 5 * 19 * 22605091."""
_TURN = (int(field.Q) - 1) // ORDER
"""2 generates F_q without 0, so `w = 2**_TURN` generates the subgroup."""


def points(num_shares: int) -> UInt32[np.ndarray, " m"]:
    """Where the polynomials are evaluated, for each holder: `2**i w**j` for i = 0, 1, ... and j below 38; `w**38 = 1`.

    Args:
      num_shares: number of holders, m; the points of fewer come first among those of more.

    Examples:
      >>> print(points(77)[[0, 38, 76]])
      [1 2 4]
    """
    return _powers_of_2(_exponents(num_shares))


def share(
    seed: UInt32[Array, "b s"], secrets: UInt32[Array, "b k"], *, threshold: int, num_shares: int
) -> UInt32[Array, "b m k"]:
    """Shares of each owner's secrets, by independent polynomials of degree `threshold - 1`.

    An owner's row h, the shares at `points(num_shares)[h]`, reveals nothing about its secrets, nor do `threshold - 1`
    rows together, if the coefficients are uniform; they are words of the generator in `prg` that takes seeds of this
    length.

    Args:
      seed: two or eight random words of each owner; never use one twice.
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
    b, k = secrets.shape
    others = jax.vmap(lambda seed: _coefficients(seed, k, threshold - 1))(seed)
    polynomials = jnp.concatenate([secrets[..., None], others], 2).reshape(b * k, threshold)
    return jnp.moveaxis(_values(polynomials, num_shares).reshape(num_shares, b, k), 0, 1)


def _coefficients(seed: UInt32[Array, " s"], polynomials: int, degree: int) -> UInt32[Array, "k degree"]:
    if degree == 0:
        return jnp.zeros((polynomials, 0), jnp.uint32)
    return prg.expand(seed, "shamir", 0, polynomials * degree).reshape(polynomials, degree)


def _values(polynomials: UInt32[Array, "p t"], num_points: int) -> UInt32[Array, "m p"]:
    """The values of polynomials, the constant term first, at the first points.

    On a coset of a subgroup of order r, `x**r` is the same number everywhere, and a polynomial needs r coefficients
    only. So the values at m points are two products of matrices: about `m (t / r + r)` multiplications for each
    polynomial, and not the `m t` of one product.
    """
    p, t = polynomials.shape
    if t <= 2 * ORDER:
        return matrix.matmul(_table(_exponents(num_points), np.arange(t)), polynomials.T)
    cosets, folds = -(-num_points // ORDER), -(-t // ORDER)
    coset, place = np.arange(cosets), np.arange(ORDER)
    cut = jnp.pad(polynomials, ((0, 0), (0, folds * ORDER - t))).reshape(p, folds, ORDER)
    fold, shift, turn = _table(coset, ORDER * np.arange(folds)), _table(coset, place), _table(_TURN * place, place)
    folded = matrix.matmul(fold, jnp.moveaxis(cut, 1, 0).reshape(folds, -1)).reshape(cosets, p, ORDER)
    on_subgroup = jnp.moveaxis(field.mul(folded, shift[:, None]), 2, 0)
    values = matrix.matmul(turn, on_subgroup.reshape(ORDER, -1)).reshape(ORDER, cosets, p)
    return jnp.swapaxes(values, 0, 1).reshape(-1, p)[:num_points]


def _table(exponent: Int[np.ndarray, " n"], power: Int[np.ndarray, " k"]) -> UInt32[Array, "n k"]:
    """Powers of `2**exponent`."""
    return jnp.asarray(_powers_of_2(np.outer(exponent, power)))


def _exponents(num_points: int) -> Int[np.ndarray, " m"]:
    coset, place = np.divmod(np.arange(num_points), ORDER)
    return coset + _TURN * place


def _powers_of_2(exponents: Int[np.ndarray, "*n"]) -> UInt32[np.ndarray, "*n"]:
    powers = [pow(2, int(exponent), int(field.Q)) for exponent in exponents.flat]
    return np.array(powers, np.uint32).reshape(exponents.shape)


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
