"""What error rates say of any mechanism: the probabilities of one event."""

import numpy as np

from fedjax_priv.audit.bounds.guessing import Rate


def epsilon(alpha: Rate, beta: Rate, delta: Rate) -> Rate:
    """The least eps with which they agree: `1 - beta <= e^eps alpha + delta`, and with both exchanged."""
    return np.log(np.maximum(1.0, np.maximum((1 - beta - delta) / alpha, (1 - alpha - delta) / beta)))


def excess(alpha: Rate, beta: Rate, epsilons: np.ndarray, deltas: np.ndarray) -> Rate:
    """Above 0 if they agree with no (eps, delta)-private mechanism for one of the pairs, that is, below its curve."""
    return np.max([epsilon(alpha, beta, delta) - each for each, delta in zip(epsilons, deltas, strict=True)], axis=0)
