"""Which coordinates a user sends: those that the Bernoulli mask of at least one of its pairs selects.

N >= 2 users, `alpha` in (0, 1]. Every pair selects every coordinate with probability a = alpha / (N - 1),
independently.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import xlog1py

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result


class Setting(NamedTuple):
    """A round of SparseSecAgg; a function that takes one raises ValueError for a field outside its range.

    Fields are numbers or arrays, which are broadcast.
    """

    num_clients: Numbers  # N >= 2
    alpha: Numbers  # in (0, 1]: the protocol's parameter, about the fraction of coordinates that a user sends
    dropout: Numbers = 0.0  # theta in [0, 1): probability that a user is lost
    adversarial: Numbers = (
        0.0  # gamma in [0, 1/2): fraction of users that collude with the server; 0 is the server alone
    )


def survivors(setting: Setting) -> tuple[Result, Result]:
    """1 - theta, and H = (1 - gamma) N honest users; ValueError names a field outside its range."""
    n = _validate.integer(at_least=2, num_clients=_validate.setting(Setting, setting=setting).num_clients)
    return 1 - _validate.dropout(setting.dropout), (1 - _validate.adversarial(setting.adversarial)) * n


def pair_probability(num_clients: Numbers, alpha: Numbers) -> Result:
    """a = alpha / (N - 1): the probability that a pair selects a coordinate (eq. 13).

    Examples:
      >>> print(pair_probability(100, 0.1).round(5))
      0.00101
    """
    n = _validate.integer(at_least=2, num_clients=num_clients)
    return _validate.real("(0, 1]", alpha=alpha) / (n - 1)


def selection_probability(num_clients: Numbers, alpha: Numbers) -> Result:
    """p = 1 - (1 - a)^(N-1): the probability that a user sends a coordinate (eq. 14); below alpha for N > 2.

    Examples:
      >>> print(selection_probability(100, 0.1).round(4))
      0.0952
    """
    a = pair_probability(num_clients, alpha)
    return -np.expm1(xlog1py(np.asarray(num_clients) - 1.0, -a))


def both_selected_probability(num_clients: Numbers, alpha: Numbers) -> Result:
    """1 - 2 (1-a)^(N-1) + (1-a)^(2N-3): the probability that two given users both send a coordinate (eq. 144).

    Examples:
      >>> print(both_selected_probability(100, 0.1).round(4))  # independent users: 0.0952**2 = 0.0091
      0.0099
    """
    return selection_probability(num_clients, alpha) ** 2 + selection_covariance(num_clients, alpha)


def selection_covariance(num_clients: Numbers, alpha: Numbers) -> Result:
    """a (1-a)^(2N-3) > 0: covariance of two users' selections of one coordinate, from eqs. 14 and 144.

    Examples:
      >>> print(selection_covariance(100, 0.1).round(5))
      0.00083
    """
    a = pair_probability(num_clients, alpha)
    return a * np.exp(xlog1py(2.0 * np.asarray(num_clients) - 3, -a))
