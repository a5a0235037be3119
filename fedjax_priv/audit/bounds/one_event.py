"""What error rates imply for any mechanism, by the probabilities of one event."""

import numpy as np

from fedjax_priv.audit.bounds.guessing import Rate


def log_ratio(alpha: Rate, beta: Rate, delta: Rate) -> Rate:
    """The least eps that allows these rates: `1 - beta <= e^eps alpha + delta`, and the same with both exchanged.

    Below 0 if every eps allows them; among such tests, the one closest to 0 is closest to showing something.
    """
    ratio = np.maximum((1 - beta - delta) / alpha, (1 - alpha - delta) / beta)
    return np.log(np.maximum(ratio, np.finfo(np.float64).tiny))


def epsilon(alpha: Rate, beta: Rate, delta: Rate) -> Rate:
    """`log_ratio`, or 0 if that is larger, since eps is never negative."""
    return np.maximum(log_ratio(alpha, beta, delta), 0.0)


def excess(alpha: Rate, beta: Rate, epsilons: np.ndarray, deltas: np.ndarray) -> Rate:
    """Above 0 if no (eps, delta)-private mechanism allows these rates, for one of the pairs."""
    return np.max([log_ratio(alpha, beta, delta) - each for each, delta in zip(epsilons, deltas, strict=True)], axis=0)
