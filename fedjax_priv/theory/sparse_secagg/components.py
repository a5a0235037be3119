"""What the server can separate: sums over the connected components of the honest survivors' masks at a coordinate.

After shares are opened, the server knows all masks of lost and colluding users. At a coordinate, only masks between
pairs of honest survivors that both selected it hide anything. These pairs form a random graph G(h, a) of mean degree
about alpha (1-theta) (1-gamma) < 1, whose components are small. This contradicts Theorem 2 of the paper.

If gamma N is not an integer, the formulas use H = (1-gamma) N as it is and interpolate between the exact values.
"""

import numpy as np
from scipy.special import xlog1py, xlogy

from fedjax_priv.theory import _validate
from fedjax_priv.theory._binomial import log_choose
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.sparse_secagg.selection import Setting, pair_probability, selection_probability, survivors


def isolated_fraction(setting: Setting) -> Result:
    """Which fraction of the values that honest survivors send does the server read alone?

    ((1 - a(1-theta))^(H-1) - (1-a)^(N-1)) / p: the selecting partners of a value are all lost or colluding.

    Examples:
      >>> print(isolated_fraction(Setting(num_clients=100, alpha=0.1, dropout=0.1, adversarial=0.2)).round(3))
      0.272
    """
    (survival, honest), a, lost = survivors(setting), pair_probability(*setting[:2]), np.asarray(setting.dropout)
    with np.errstate(divide="ignore", invalid="ignore"):  # two clients that select everything
        odds = np.where(lost > 0, a * lost / (1 - a), 0)
    # the logarithm of how many times as likely it is that all partners are lost or colluding as that there is none
    times = xlog1py(honest - 1, odds) - xlog1py(np.asarray(setting.num_clients) - honest, -a)
    return np.exp(xlog1py(honest - 1, -a * survival)) * -np.expm1(-times) / selection_probability(*setting[:2])


def component_fraction(setting: Setting, size: Numbers) -> Result:
    """Which fraction of the values that honest survivors send does the server read as a sum of exactly `size` = s?

    A given survivor is in a component of s with probability
    C(H-1, s-1) (1-theta)^(s-1) P[G(s, a) connected] (theta + (1-theta) (1-a)^s)^(H-s): the others of the component
    survive, and everybody else is lost or selects with none of them. The fraction is this divided by p; for s = 1 it is
    `isolated_fraction`.

    Examples:
      >>> setting = Setting(num_clients=100, alpha=0.1, dropout=0.1, adversarial=0.2)
      >>> print(component_fraction(setting, np.array([1, 2, 3])).round(3))  # alone, as a sum of two, of three
      [0.272 0.655 0.065]
    """
    s = _validate.integer(size=size)
    (survival, honest), a = survivors(setting), pair_probability(*setting[:2])
    possible = s < honest + 1
    s = np.where(possible, s, 1)
    apart = xlog1py(np.maximum(honest - s, 0), survival * np.expm1(xlog1py(s, -a)))
    joined = log_choose(honest - 1, s - 1) + xlogy(s - 1, survival) + _log_connected(s, a)
    of_many = np.where(possible, np.exp(joined + apart), 0) / selection_probability(*setting[:2])
    return np.where(np.asarray(size) == 1, isolated_fraction(setting), of_many)[()]


def connected_probability(size: Numbers, edge_probability: Numbers) -> Result:
    """P[G(s, a) connected], of a graph of s >= 1 vertices whose edges exist with probability a > 0, independently.

    Examples:
      >>> print(connected_probability(3, 0.5).round(3))  # two or three of the three edges
      0.5
    """
    edge = _validate.real("(0, 1]", edge_probability=edge_probability)
    return np.exp(_log_connected(_validate.integer(size=size), edge))


def _log_connected(size: Result, edge: Result) -> Result:
    """Elementwise, from one table for all sizes of an edge probability."""
    row, edge = np.broadcast_arrays(np.asarray(size - 1, np.int64), np.asarray(edge))
    distinct, column = np.unique(edge, return_inverse=True)
    return _log_connected_table(int(row.max()) + 1, distinct)[row, column.reshape(row.shape)]


def _log_connected_table(most: int, edge: np.ndarray) -> np.ndarray:
    """log P[G(s, a) connected] for s = 1, ..., `most`, `[most, len(edge)]`.

    Gilbert's recursion (1959) subtracts and loses all digits of P ~ a^(s-1) at a = 1e-4, s = 6. Here all terms are
    positive: a vertex reaches the others in generations, and `reach[u, k]` is the log probability that the k vertices
    of the last generation lead to all of u others.
    """
    reach = np.full((most, most + 1, len(edge)), -np.inf)
    reach[0] = 0.0
    for others in range(1, most):
        last, found = np.arange(1, most - others + 1)[:, None, None], np.arange(1, others + 1)[:, None]
        met = np.log(-np.expm1(xlog1py(last, -edge)))  # a given vertex meets one of the last
        chance = log_choose(others, found) + found * met + xlog1py(last * (others - found), -edge)
        further = reach[others - found[:, 0], found[:, 0]]
        reach[others, 1 : most - others + 1] = np.logaddexp.reduce(chance + further, axis=1)
    return reach[:, 1]
