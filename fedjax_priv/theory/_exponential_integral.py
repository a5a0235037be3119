"""The exponential integral E_1 times e^x, also where E_1 underflows."""

import numpy as np
from scipy import special

from fedjax_priv.theory._validate import Numbers, Result

_FAR = 100.0  # e^x does not overflow up to here; below, hyperu has fewer digits


def scaled_exp1(x: Numbers) -> Result:
    """`e^x E_1(x)` for x > 0, about 1 / x where x is large."""
    near = np.minimum(x, _FAR)
    return np.where(np.less(x, _FAR), np.exp(near) * special.exp1(near), special.hyperu(1, 1, np.maximum(x, _FAR)))[()]
