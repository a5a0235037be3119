"""Upper bounds on the rho of one round, in units of rho_1: the four rows, and the assumptions of each.

h is the number of uploads in the round's sum whose noise the adversary does not know, the device's own included.
k = ceil(tau/B) is how often a sample is used in a round, at most. c is a Lipschitz constant of every step.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result

ASSUMPTIONS = {
    0: "the device took no part",
    1: "none; holds if every local step is seen and all other devices collude",
    2: "none, but that only the sum of the uploads is seen",
    3: "only the sum is seen, a sample is used at most once a round, and every step is lipschitz-Lipschitz",
    4: "only the sum is seen, a round is whole passes over the data, and every step is 1-Lipschitz",
}


class Cost(NamedTuple):
    """A round's rho / rho_1, and the row that gives it."""

    cost: Result
    row: Result


def lipschitz_constant(rate: Numbers, smoothness: Numbers, *, convex: bool) -> Result:
    """c of theta -> theta - eta g(theta), if all batch losses are L-smooth, clipping included.

    max(1, eta L - 1) if they are convex too, which is 1 up to eta = 2/L; else 1 + eta L. Softmax regression with two
    classes stays convex and L-smooth if each sample's gradient is clipped; for a clipped network no c is known.

    Args:
      rate: eta.
      smoothness: L.
      convex: whether every batch loss is convex.

    Examples:
      >>> print(lipschitz_constant(0.1, 2.0, convex=True), lipschitz_constant(0.1, 2.0, convex=False))
      1.0 1.2
    """
    step = _validate.real("[0, inf)", rate=rate) * _validate.real("[0, inf)", smoothness=smoothness)
    return np.maximum(1, step - 1) if _validate.flag(convex=convex) else 1 + step


def every_step(local_steps: Numbers, batches: Numbers) -> Cost:
    """Row 1: k."""
    k = _uses(local_steps, batches)
    return Cost(k, np.ones(np.shape(k)))


def summed(uploads: Numbers, local_steps: Numbers, batches: Numbers) -> Cost:
    """Rows 1 and 2. If tau = 1 or B = 1, the noise of h uploads protects the last use of the sample: k - 1 + 1/h."""
    k = _uses(local_steps, batches)
    last_is_used = (local_steps == 1) | (batches == 1)
    return _smallest({1: k, 2: np.where(last_is_used, k - 1 + 1 / uploads, np.inf)})


def summed_lipschitz(uploads: Numbers, local_steps: Numbers, batches: Numbers, lipschitz: Numbers) -> Cost:
    """The smallest of rows 1 to 4 that apply."""
    cost, row = summed(uploads, local_steps, batches)
    once, whole = np.less_equal(local_steps, batches), np.mod(local_steps, batches) == 0
    third = np.where(once, _used_once(uploads, local_steps, lipschitz), np.inf)
    fourth = np.where(whole & (lipschitz <= 1), _contracting(uploads, local_steps, batches), np.inf)
    best = _smallest({0: cost, 3: third, 4: fourth})
    return Cost(best.cost, np.where(best.row == 0, row, best.row))


def _uses(local_steps: Numbers, batches: Numbers) -> Result:
    """k = ceil(tau/B)."""
    return np.ceil(np.divide(local_steps, batches))


def _smallest(costs: dict[int, Result]) -> Cost:
    """The smallest cost and its row; of equal costs the first."""
    rows, stacked = np.array(list(costs)), np.stack(np.broadcast_arrays(*costs.values()))
    return Cost(stacked.min(0), rows[stacked.argmin(0)])


def _used_once(uploads: Numbers, local_steps: Numbers, lipschitz: Numbers) -> Result:
    """Row 3: max over 0 <= j < tau of c^(2j) / (h + sum_{u=1}^{j} c^(2u)), attained at the first or last j.

    From j to j + 1 its inverse h q^j + sum_{u<j} q^u, q = c^-2, changes by q^j (h (q-1) + 1), which has the same sign
    for all j; it can fall only if c > 1.
    """
    log_q = -2 * np.log(np.maximum(lipschitz, np.nextafter(1, 2)))
    later = np.subtract(local_steps, 1)
    inverse = uploads * np.exp(later * log_q) + np.expm1(later * log_q) / np.expm1(log_q)
    return 1 / np.where(lipschitz <= 1, uploads, np.minimum(uploads, inverse))


def _contracting(uploads: Numbers, local_steps: Numbers, batches: Numbers) -> Result:
    """Row 4: whole passes with 1-Lipschitz steps."""
    k = _uses(local_steps, batches)
    return np.where(batches >= uploads, (k - 1) / batches + 1 / uploads, k**2 / ((k - 1) * batches + uploads))
