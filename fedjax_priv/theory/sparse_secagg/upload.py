"""Bits of an upload, how many coordinates a pair selects, and whether enough users remain to unmask the sum.

`num_params` is d >= 1, `num_clients` is N >= 2, and `alpha` in (0, 1] is the protocol's parameter.
"""

import numpy as np
from scipy.special import kl_div

from fedjax_priv.theory import _binomial, _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.sparse_secagg.selection import pair_probability, selection_probability

FIELD_BITS = 32
"""Bits of an element of F_q, q = 2**32 - 5."""


def upload_bits(num_params: Numbers, num_clients: Numbers, alpha: Numbers) -> Result:
    """Expected bits a user uploads: 32 for each of p d selected coordinates, and a bitmap of d bits.

    Examples:
      >>> print(upload_bits(num_params=1000, num_clients=100, alpha=0.1).round())  # without sparsification: 32,000
      4047.0
    """
    d = _validate.integer(num_params=num_params)
    return d * (FIELD_BITS * selection_probability(num_clients, alpha) + 1)


def compression_ratio(num_clients: Numbers, alpha: Numbers) -> Result:
    """32 / (32 p + 1): bits of a SecAgg upload divided by the expected bits of a SparseSecAgg upload.

    Examples:
      >>> print(compression_ratio(100, 0.1).round(2))
      7.91
    """
    return FIELD_BITS / (FIELD_BITS * selection_probability(num_clients, alpha) + 1)


def upload_std(num_params: Numbers, num_clients: Numbers, alpha: Numbers) -> Result:
    """Standard deviation sqrt(d p (1-p)) of the number |U_i| of selected coordinates.

    Examples:
      >>> print(upload_std(num_params=1000, num_clients=100, alpha=0.1).round(2))
      9.28
    """
    d, p = _validate.integer(num_params=num_params), selection_probability(num_clients, alpha)
    return np.sqrt(d * p * (1 - p))


def upload_tail(num_params: Numbers, num_clients: Numbers, alpha: Numbers, excess: Numbers) -> Result:
    """Bound exp(-d KL(p + e || p)) on P[|U_i| / d > p + e] (Theorem 1); 0 where p + e > 1.

    Args:
      excess: e >= 0, above the mean p of |U_i| / d; e = alpha - p gives the ratio alpha of Theorem 1.

    Examples:
      >>> print(f"{upload_tail(num_params=1000, num_clients=100, alpha=0.1, excess=0.05):.1e}")
      3.0e-06
    """
    d, p = _validate.integer(num_params=num_params), selection_probability(num_clients, alpha)
    share = p + _validate.real("[0, inf)", excess=excess)
    return np.exp(-d * (kl_div(share, p) + kl_div(1 - share, 1 - p)))


def upload_tail_hoeffding(num_params: Numbers, excess: Numbers) -> Result:
    """The looser bound exp(-2 d e^2) on the same probability, for any p (Theorem 1).

    Examples:
      >>> print(f"{upload_tail_hoeffding(num_params=1000, excess=0.05):.1e}")
      6.7e-03
    """
    d = _validate.integer(num_params=num_params)
    return np.exp(-2 * d * _validate.real("[0, inf)", excess=excess) ** 2)


def pair_overflow_probability(num_params: Numbers, num_clients: Numbers, alpha: Numbers, cap: Numbers) -> Result:
    """Union bound on the probability that one of the N(N-1)/2 pairs of a round selects more than `cap` coordinates.

    A pair selects Bin(d, a) of them.

    Args:
      cap: the most coordinates of a pair for which there is room, >= 0.

    Examples:
      >>> print(f"{pair_overflow_probability(num_params=100_000, num_clients=100, alpha=0.1, cap=170):.1e}")
      7.0e-07
    """
    d, cap = _validate.integer(num_params=num_params), _validate.integer(at_least=0, cap=cap)
    n, a = _validate.integer(at_least=2, num_clients=num_clients), pair_probability(num_clients, alpha)
    one = np.where(cap < d, _binomial.at_least(np.minimum(cap + 1, d), d, a), 0)
    return np.minimum(n * (n - 1) / 2 * one, 1)


def recovery_probability(num_clients: Numbers, dropout: Numbers, threshold: Numbers | None = None) -> Result:
    """P[Bin(N, 1 - theta) >= t]: the probability that enough users survive to unmask the sum (Corollary 2, finite N).

    Args:
      num_clients: N, all of them holding shares.
      dropout: theta; the paper's is below 1/2, where the probability tends to 1 as N grows.
      threshold: shares t that reconstruct a secret, in [1, N]; floor(N/2) + 1 if not given.

    Examples:
      >>> print(recovery_probability(20, 0.3).round(3), recovery_probability(100, 0.3).round(6))
      0.952 0.999978
    """
    n = _validate.integer(num_clients=num_clients)
    theta = _validate.dropout(dropout)
    t = n // 2 + 1 if threshold is None else _validate.integer(threshold=threshold)
    if np.any(t > n):
        _validate.fail("threshold", threshold, f"at most num_clients = {num_clients}")
    return _binomial.at_least(t, n, 1 - theta)
