"""The Skellam mechanism on integer vectors (Agarwal, Kairouz and Liu 2021): Renyi divergences, and eps from them."""

import numpy as np

from fedjax_priv.theory import _roots, _validate
from fedjax_priv.theory._validate import Numbers

ORDERS = np.array([*range(2, 65), *range(72, 257, 8), *(round(2 ** (k / 2)) for k in range(17, 41))])
"""Renyi orders; the theorem is proved for integers."""


def rdp(distance: Numbers, num_coordinates: Numbers, variance: Numbers) -> np.ndarray:
    """Upper bounds on the Renyi divergence of Sk(v)^d and its shift by an integer vector, `[..., ORDERS]`.

    alpha D2^2 / (2v) + min(((2 alpha - 1) D2^2 + 6 D1) / (4 v^2), 3 D1 / (2v)), Corollary 3.6. D2 is the Euclidean norm
    of the shift and D1 = min(sqrt(d) D2, D2^2) bounds its L1 norm. The first term is the divergence of the Gaussian
    mechanism. To compose mechanisms, add their divergences.

    Args:
      distance: D2, the distance of two adjacent sums in grid points, >= 0. For vectors of norm at most B it is 2B if
        one vector is replaced by any other, and B if it is replaced by zeros.
      num_coordinates: d.
      variance: v, of all noise in the sum that the adversary does not know, in squared grid points, > 0.

    Examples:
      >>> print(rdp(distance=10.0, num_coordinates=100, variance=1e4)[:3].round(5), ORDERS[:3])
      [0.01  0.015 0.02 ] [2 3 4]
    """
    d2 = _validate.real("[0, inf)", distance=distance)[..., None]
    d = _validate.integer(num_coordinates=num_coordinates)[..., None]
    v = _validate.real("(0, inf)", variance=variance)[..., None]
    d1 = np.minimum(np.sqrt(d) * d2, d2**2)
    correction = np.minimum(((2 * ORDERS - 1) * d2**2 + 6 * d1) / (4 * v**2), 3 * d1 / (2 * v))
    return ORDERS * d2**2 / (2 * v) + correction


def epsilon(rdp: np.ndarray, delta: float) -> float:
    """The least eps at `delta` in (0, 1) that Renyi divergences `[ORDERS]` imply, by the conversion of dp-accounting.

    Raises:
      ValueError: `rdp` has another shape.

    Examples:
      >>> print(round(epsilon(rdp(distance=10.0, num_coordinates=100, variance=1e4), 1e-5), 3))
      0.375
    """
    values = _validate.real("[0, inf)", rdp=rdp)
    if values.shape != ORDERS.shape:
        _validate.fail("rdp", values.shape, f"of shape {ORDERS.shape}")
    return _converted(values, _validate.number("(0, 1)", delta=delta))


def variance_for_epsilon(
    epsilon: float, delta: float, *, distance: float, num_coordinates: int, rounds: int = 1
) -> float:
    """How much noise is enough? The variance v in each round's sum that makes `rounds` rounds (eps, delta)-private.

    Args:
      epsilon: to be reached, > 0.
      delta: in (0, 1).
      distance: as in `rdp`, > 0.
      num_coordinates: as in `rdp`.
      rounds: that a client takes part in.

    Examples:
      >>> print(round(variance_for_epsilon(1.0, 1e-5, distance=10.0, num_coordinates=100)))
      1638
    """
    target, delta = _validate.number("(0, inf)", epsilon=epsilon), _validate.number("(0, 1)", delta=delta)
    d2, count = _validate.number("(0, inf)", distance=distance), float(_validate.whole(rounds=rounds))
    num_coordinates, scale = _validate.whole(num_coordinates=num_coordinates), d2**2 * count

    def reached(ratio: float) -> float:
        return _converted(count * rdp(d2, num_coordinates, ratio * scale), delta) if ratio > 0 else np.inf

    return scale * float(_roots.unbounded_least(np.vectorize(reached, otypes=[np.float64]), target))


def _converted(rdp: np.ndarray, delta: float) -> float:
    from dp_accounting import rdp as accountant  # takes a second

    return float(accountant.compute_epsilon(ORDERS.tolist(), rdp.tolist(), delta)[0])
