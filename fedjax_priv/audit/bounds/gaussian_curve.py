"""What error rates say of a Gaussian mechanism without sampling (Nasr et al. 2023, section 5).

The trade-off curve of such a mechanism is `beta = Phi(Phi^-1(1 - alpha) - mu)`, so both errors of a test count, and a
test in the middle tells as much as one in the tails. Of any other mechanism the result is a bound on mu, and not on
eps.
"""

import numpy as np
from scipy.special import ndtri

from fedjax_priv.audit.bounds.guessing import Rate
from fedjax_priv.theory import gaussian


def mu(alpha: Rate, beta: Rate) -> Rate:
    """The least mu with which they agree, below 0 if they say nothing."""
    return -ndtri(alpha) - ndtri(beta)


def epsilon(alpha: Rate, beta: Rate, delta: Rate) -> Rate:
    """Eps of the Gaussian mechanism with that mu."""
    return gaussian.epsilon(delta, np.maximum(mu(alpha, beta), 0.0))


def excess(alpha: Rate, beta: Rate, epsilons: np.ndarray, deltas: np.ndarray) -> float:
    """Above 0 if that mechanism is not (eps, delta)-private for one of the pairs."""
    return float(np.max(gaussian.delta(epsilons, np.maximum(mu(alpha, beta), 0.0)) - deltas))
