"""What sampling does to eps: log(1 + q (e^eps - 1)), without overflow."""

import numpy as np

from fedjax_priv.theory._validate import Numbers, Result


def amplified(epsilon: Numbers, share: Numbers) -> Result:
    """log(1 + q (e^eps - 1)) for a share q > 0, also above 1: with 1/q it is the inverse of that with q.

    -inf where the logarithm has no value, which needs eps < 0 and q > 1.
    """
    small, large = np.minimum(epsilon, 1), np.maximum(epsilon, 1)
    with np.errstate(divide="ignore"):
        near = np.log1p(np.maximum(share * np.expm1(small), -1))
    return np.where(np.less(epsilon, 1), near, large + np.log(share + (1 - share) * np.exp(-large)))[()]
