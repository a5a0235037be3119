"""Bytes of an iteration of FedREP, and SparseSecAgg's parameter for the same fraction of coordinates."""

from typing import NamedTuple

import numpy as np
from scipy.special import log1p

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.fedrep.compression import coordinates_of_each


class Communication(NamedTuple):
    """What one client sends and receives in one iteration, without keys and shares of secure aggregation."""

    up_words: Result  # n indices and |I| values
    down_words: Result  # |I| indices and |I| values
    bits: Result  # both ways, 32 to a word


def communication(k: Numbers, num_clients: Numbers, union: Numbers | None = None) -> Communication:
    """Up n indices and |I| values, down |I| indices and |I| values, in 32-bit words; at most (96 + 32/m) K bits.

    Top-K in both directions, without consensus, takes 128 K bits.

    Args:
      k: K, coordinates proposed by all clients together; a multiple of `num_clients`.
      num_clients: m.
      union: |I|, or its mean, from n = K/m to K; by default K, the largest possible.

    Examples:
      >>> one = communication(k=1000, num_clients=10)
      >>> print(one.up_words, one.down_words, one.bits)
      1100.0 2000.0 99200.0
    """
    n = coordinates_of_each(k, num_clients)
    size = _validate.real("[0, inf)", union=k if union is None else union)
    if ((size < n) | (size > k)).any():
        _validate.fail("union", union, f"from k / num_clients = {n} to k = {k}")
    up, down = n + size, 2 * size
    return Communication(up, down, 32 * (up + down))


def sparse_secagg_alpha(ratio: Numbers, num_clients: Numbers) -> Result:
    """At which alpha does SparseSecAgg send a fraction p of coordinates? alpha_s = (m-1) (1 - (1-p)^(1/(m-1))).

    Args:
      ratio: p > 0, at most 1 - (1 - 1/(m-1))^(m-1), which gives alpha_s = 1 and is about 0.63 for many clients.
      num_clients: m, at least 2.

    Examples:
      >>> print(sparse_secagg_alpha(ratio=0.1, num_clients=100).round(4))
      0.1053
    """
    others = _validate.integer(at_least=2, num_clients=num_clients) - 1
    alpha = -others * np.expm1(log1p(-_validate.real("(0, 1)", ratio=ratio)) / others)
    if (alpha > 1 + 1e-12).any():
        _validate.fail("ratio", ratio, f"at most 1 - (1 - 1/(m-1))^(m-1) for m = num_clients = {num_clients}")
    return np.minimum(alpha, 1)
