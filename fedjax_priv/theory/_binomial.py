"""Binomial probabilities, accurate far in the tails, without `scipy.stats`, whose import takes a second."""

import numpy as np
from scipy.special import betainc, betaln, xlog1py, xlogy

from fedjax_priv.theory._validate import Numbers, Result


def log_choose(n: Numbers, k: Numbers) -> Result:
    """Logarithm of the binomial coefficient, 0 <= k < n + 1; n may be any real number."""
    return -betaln(n - k + 1, k + 1) - np.log1p(n)


def pmf(k: Numbers, n: Numbers, p: Numbers) -> Result:
    """P[Bin(n, p) = k], 0 <= k <= n."""
    return np.exp(log_choose(n, k) + xlogy(k, p) + xlog1py(n - k, -p))


def at_least(k: Numbers, n: Numbers, p: Numbers) -> Result:
    """P[Bin(n, p) >= k], 1 <= k <= n."""
    return betainc(k, n - k + 1, p)


def below(k: Numbers, n: Numbers, p: Numbers) -> Result:
    """P[Bin(n, 1 - p) < k], 1 <= k <= n; p is the probability of a failure. Accurate for small p."""
    return betainc(n - k + 1, k, p)
