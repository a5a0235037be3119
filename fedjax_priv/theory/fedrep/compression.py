"""How much consensus sparsification keeps of an update, and the distance of two sparsified updates."""

from typing import NamedTuple

import numpy as np
from scipy.special import xlog1py

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.fedrep.privacy import check_sizes


class Contraction(NamedTuple):
    """E||g - C(g)||^2 <= residual ||g||^2 for every honest client."""

    kept: Result  # d'/d
    residual: Result  # 1 - d'/d
    inverse: Result  # H = d/d'


def expected_union(num_params: Numbers, num_coordinates: Numbers, num_clients: Numbers) -> Result:
    """E|I| = d (1 - (1 - n/d)^m) at alpha = 1, when every client proposes a uniform set.

    Args:
      num_params: d.
      num_coordinates: n, proposed by a client.
      num_clients: m.

    Raises:
      ValueError: `num_coordinates` above `num_params`.

    Examples:
      >>> print(expected_union(num_params=1000, num_coordinates=50, num_clients=10).round(1))  # of 500 proposals
      401.3
    """
    d, n = check_sizes(num_params, num_coordinates)
    return -d * np.expm1(xlog1py(_validate.integer(num_clients=num_clients), -n / d))


def contraction(
    num_params: Numbers, k: Numbers, num_clients: Numbers, alpha: Numbers, byzantine: Numbers = 0
) -> Contraction:
    """Proposition 2 (eq. 102): 1 - d'/d = (1 - n/d) e^-x, x = alpha n (h-1) / d for n = K/m and h honest clients.

    Equality holds at alpha = 0 if all |g_j| are equal and all clients propose the same set. Proposals of Byzantine
    clients only enlarge the union.

    Args:
      num_params: d.
      k: K, coordinates proposed by all clients together; a multiple of `num_clients`.
      num_clients: m.
      alpha: the probability in [0, 1] that a proposed coordinate is a random one.
      byzantine: number of Byzantine clients, fewer than half of all.

    Examples:
      >>> print(contraction(num_params=1000, k=500, num_clients=10, alpha=1.0).kept.round(3))
      0.394
    """
    m, f = _validate.integer(num_clients=num_clients), _validate.integer(at_least=0, byzantine=byzantine)
    if (2 * f >= m).any():
        _validate.fail("byzantine", byzantine, f"fewer than half of num_clients = {num_clients}")
    d, n = _validate.integer(num_params=num_params), coordinates_of_each(k, num_clients)
    if (n > d).any():
        _validate.fail("k", k, f"at most num_clients * num_params = {np.multiply(num_clients, num_params)}")
    exponent = _validate.real("[0, 1]", alpha=alpha) * n * (m - f - 1) / d
    residual = (1 - n / d) * np.exp(-exponent)
    kept = n / d - (1 - n / d) * np.expm1(-exponent)
    return Contraction(kept, residual, 1 / kept)


def coordinates_of_each(k: Numbers, num_clients: Numbers) -> Result:
    """n = K/m; ValueError unless both are positive integers and m divides K."""
    n, rest = np.divmod(_validate.integer(k=k), _validate.integer(num_clients=num_clients))
    if rest.any():
        _validate.fail("k", k, f"a multiple of num_clients = {num_clients}")
    return n


def dissimilarity(
    difference: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    *,
    both: np.ndarray,
    only_first: np.ndarray,
    only_second: np.ndarray,
) -> Result:
    """Theorem 1 (eq. 3): E||C(v) - C(v')||^2 of two sparsified vectors, coordinate by coordinate.

    It holds for supports N and N' that are independent of the vectors. The paper claims it for any supports, but the
    support of top-K depends on its vector: for v uniform on {e_1, e_2}, with nothing kept of v', the right side is 1/2
    and the left side 1. If both vectors have the same support, as in ConSpar, only `both` is not zero, and no distance
    grows (Proposition 1).

    Args:
      difference: `[..., d]`, E(v_j - v'_j)^2, the paper's rho^2 xi_j.
      first: `[..., d]`, E v_j^2, mu^2 zeta_j.
      second: `[..., d]`, E v'_j^2.
      both: `[..., d]`, P[j in N and N'].
      only_first: `[..., d]`, P[j in N, not in N'].
      only_second: `[..., d]`, P[j in N', not in N].

    Returns:
      `[...]`, the sum over coordinates.

    Examples:
      >>> ones, kept, never = np.ones(2), np.array([1.0, 0.0]), np.zeros(2)  # both keep the first coordinate
      >>> print(dissimilarity(ones, ones, ones, both=kept, only_first=never, only_second=never))
      1.0
    """
    return np.sum(
        _validate.real("[0, inf)", difference=difference) * _validate.real("[0, 1]", both=both)
        + _validate.real("[0, inf)", first=first) * _validate.real("[0, 1]", only_first=only_first)
        + _validate.real("[0, inf)", second=second) * _validate.real("[0, 1]", only_second=only_second),
        axis=-1,
    )
