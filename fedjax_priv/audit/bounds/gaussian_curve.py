"""What error rates imply for a Gaussian mechanism without sampling (Nasr et al. 2023, section 5).

The trade-off curve of such a mechanism is `beta = Phi(Phi^-1(1 - alpha) - mu)`. Both errors of a test count, so a
threshold in the middle of the scores says as much as one in the tails. For any other mechanism the result bounds mu and
not eps.
"""

import numpy as np
from scipy.special import ndtri

from fedjax_priv.audit.bounds.guessing import Rate
from fedjax_priv.theory import gaussian


def mu(alpha: Rate, beta: Rate) -> Rate:
    """The least mu that allows these error rates; at most 0 if every mu allows them."""
    return -ndtri(alpha) - ndtri(beta)


def epsilon(alpha: Rate, beta: Rate, delta: Rate) -> Rate:
    """Eps at `delta` of the Gaussian mechanism with this mu."""
    return gaussian.epsilon(delta, np.maximum(mu(alpha, beta), 0.0))


def excess(alpha: Rate, beta: Rate, epsilons: np.ndarray, deltas: np.ndarray) -> float:
    """Above 0 if the Gaussian mechanism with this mu violates one of the pairs (eps, delta)."""
    return float(np.max(gaussian.delta(epsilons, np.maximum(mu(alpha, beta), 0.0)) - deltas))
