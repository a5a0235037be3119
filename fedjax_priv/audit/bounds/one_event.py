"""What error rates say of any mechanism: the probabilities of one event."""

import numpy as np

from fedjax_priv.audit.bounds.guessing import Rate


def log_ratio(alpha: Rate, beta: Rate, delta: Rate) -> Rate:
    """The least eps with which they agree: `1 - beta <= e^eps alpha + delta`, and with both exchanged.

    Below 0 if they agree with all: of tests that show nothing yet, some are closer to it.
    """
    ratio = np.maximum((1 - beta - delta) / alpha, (1 - alpha - delta) / beta)
    return np.log(np.maximum(ratio, np.finfo(np.float64).tiny))


def epsilon(alpha: Rate, beta: Rate, delta: Rate) -> Rate:
    """As `log_ratio`, and at least 0, as every eps."""
    return np.maximum(log_ratio(alpha, beta, delta), 0.0)


def excess(alpha: Rate, beta: Rate, epsilons: np.ndarray, deltas: np.ndarray) -> Rate:
    """Above 0 if they agree with no (eps, delta)-private mechanism for one of the pairs, that is, below its curve."""
    return np.max([log_ratio(alpha, beta, delta) - each for each, delta in zip(epsilons, deltas, strict=True)], axis=0)
