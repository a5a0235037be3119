"""The paper's two privacy measures: honest users summed at a coordinate, and coordinates that one honest user sends.

Neither of them is about what the server can separate; `components` is.
"""

import numpy as np
from scipy.special import xlog1py

from fedjax_priv.theory import _binomial, _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.sparse_secagg.selection import (
    Setting,
    pair_probability,
    selection_covariance,
    selection_probability,
    survivors,
)

PAPERS_DROPOUT = "[0, 0.5)"
THEOREM = " (the condition of the theorem)"


def aggregated_honest_clients(setting: Setting) -> Result:
    """How many honest survivors send a coordinate? X(l) of them, of mean p (1-theta) (1-gamma) N, exact at finite N.

    Examples:
      >>> setting = Setting(num_clients=100, alpha=0.1, dropout=0.1, adversarial=0.2)
      >>> print(aggregated_honest_clients(setting).round(3))
      6.855
    """
    return secagg_aggregated_honest_clients(setting) * selection_probability(*setting[:2])


def aggregated_honest_clients_limit(setting: Setting) -> Result:
    """T = (1 - exp(-alpha)) (1-theta) (1-gamma) N (Theorem 2), slightly below the mean of X(l).

    T is not a lower bound on X(l): P[X(l) >= T] tends to 1/2 as N grows. P[X(l) >= (1 - e) T] tends to 1 for e > 0.

    Raises:
      ValueError: theta is outside [0, 1/2), the theorem's condition.

    Examples:
      >>> setting = Setting(num_clients=100, alpha=0.1, dropout=0.1, adversarial=0.2)
      >>> print(aggregated_honest_clients_limit(setting).round(3), aggregated_honest_clients(setting).round(3))
      6.852 6.855
    """
    _validate.real(PAPERS_DROPOUT, THEOREM, dropout=_validate.setting(Setting, setting=setting).dropout)
    return -np.expm1(-_validate.real("(0, 1]", alpha=setting.alpha)) * secagg_aggregated_honest_clients(setting)


def aggregated_honest_clients_variance(setting: Setting) -> Result:
    """Variance H p'(1-p') + H(H-1) (1-theta)^2 a (1-a)^(2N-3) of X(l), with p' = p (1-theta) and H = (1-gamma) N.

    The second term is the covariance, which the proof of Theorem 2 leaves out. The variance is of order N, so
    Chebyshev's inequality still gives the theorem's limit.

    Examples:
      >>> setting = Setting(num_clients=100, alpha=0.1, dropout=0.1, adversarial=0.2)
      >>> print(aggregated_honest_clients_variance(setting).round(2))
      10.51
    """
    survival, honest = survivors(setting)
    sent = selection_probability(*setting[:2]) * survival
    joint = survival**2 * selection_covariance(*setting[:2])
    return honest * sent * (1 - sent) + honest * (honest - 1) * joint


def secagg_aggregated_honest_clients(setting: Setting) -> Result:
    """(1-theta) (1-gamma) N: mean number of honest survivors, whose updates SecAgg sums at every coordinate.

    Examples:
      >>> setting = Setting(num_clients=100, alpha=0.1, dropout=0.1, adversarial=0.2)
      >>> print(secagg_aggregated_honest_clients(setting).round(2))
      72.0
    """
    survival, honest = survivors(setting)
    return survival * honest


def revealed_fraction(num_clients: Numbers, num_adversaries: Numbers, alpha: Numbers, dropout: Numbers = 0.0) -> Result:
    """Expected fraction of the d coordinates that exactly one honest user sends (Fig. 4(b)).

    H = N - A users are honest. Without dropouts it is f(H) = H (1 - (1-a)^(N-H)) (1-a)^(H(H-1)/2 + (H-1)(N-H)), since
    two honest users send a coordinate that their pair selects; the paper's number is of this form. With dropouts it is
    the mean of f(h) over h ~ Bin(H, 1-theta) survivors: a lost partner can leave a user alone.

    Args:
      num_clients: N.
      num_adversaries: users A < N/2 that collude with the server.
      alpha: the protocol's parameter, in (0, 1].
      dropout: theta, in [0, 1).

    Examples:
      >>> print(revealed_fraction(num_clients=100, num_adversaries=33, alpha=0.1).round(4))
      0.026
    """
    a, theta = pair_probability(num_clients, alpha), _validate.dropout(dropout)
    n = _validate.integer(at_least=2, num_clients=num_clients)
    honest = n - _validate.integer(at_least=0, num_adversaries=num_adversaries)
    if np.any(2 * honest <= n):
        _validate.fail("num_adversaries", num_adversaries, f"below half of num_clients = {num_clients}")
    if np.max(n) > _validate.LONGEST:
        _validate.fail("num_clients", num_clients, f"at most {_validate.LONGEST}")
    n, honest, a, theta = (np.asarray(x)[..., None] for x in (n, honest, a, theta))
    survivors = np.arange(honest.max() + 1)
    possible = survivors <= honest
    survivors = np.minimum(survivors, honest)
    weight = np.where(possible, _binomial.pmf(survivors, honest, 1 - theta), 0)
    return (weight * _single(survivors, n, a)).sum(-1)


def _single(survivors: np.ndarray, n: np.ndarray, a: np.ndarray) -> Result:
    """f(h): one of h survivors selects the coordinate with users outside, and no other survivor selects it."""
    others = n - survivors
    unselected = np.maximum(survivors * (survivors - 1) / 2 + (survivors - 1) * others, 0)  # pairs; none if h = 0
    return survivors * -np.expm1(xlog1py(others, -a)) * np.exp(xlog1py(unselected, -a))
