"""What the server can separate: sums over the connected components of the honest survivors' masks at a coordinate.

Once shares are opened the server knows the masks of the lost and of the colluding. At a coordinate only pairs of honest
survivors that both selected it hide anything: a random graph G(h, a) of mean degree about
alpha (1-theta) (1-gamma) < 1, whose components are small. This contradicts Theorem 2 of the paper.

Where gamma N is no whole number, H = (1-gamma) N is put into the formulas as it is, which interpolates between the
exact values.
"""

import numpy as np
from scipy.special import xlog1py, xlogy

from fedjax_priv.theory import _validate
from fedjax_priv.theory._binomial import log_choose
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.sparse_secagg.selection import pair_probability, selection_probability


def isolated_fraction(num_clients: Numbers, alpha: Numbers, dropout: Numbers, adversarial: Numbers) -> Result:
    """Share of the values honest survivors send that the server reads alone.

    ((1 - a(1-theta))^(H-1) - (1-a)^(N-1)) / p: the selecting partners of a value are all lost or colluding.

    Args:
      num_clients: N.
      alpha: the protocol's parameter, in (0, 1].
      dropout: theta, in [0, 1).
      adversarial: share gamma of the users that collude with the server, in [0, 1/2); 0 is the server on its own.

    Raises:
      ValueError: an argument outside its range.
    """
    a, survival, honest = _graph(num_clients, alpha, dropout, adversarial)
    hidden = -np.expm1(xlog1py(honest - 1, -a * survival))
    return 1 - hidden / selection_probability(num_clients, alpha)


def component_fraction(
    size: Numbers, num_clients: Numbers, alpha: Numbers, dropout: Numbers, adversarial: Numbers
) -> Result:
    """Share of the values honest survivors send that the server reads as a sum of exactly `size` of them.

    A given survivor is in a component of s with probability
    C(H-1, s-1) (1-theta)^(s-1) P[G(s, a) connected] (theta + (1-theta) (1-a)^s)^(H-s): the others of the component
    survive, everybody else is lost or selects with none of them. Divided by p; for s = 1, `isolated_fraction`.

    Args:
      size: s, of the component.
      num_clients: N.
      alpha: the protocol's parameter, in (0, 1].
      dropout: theta, in [0, 1).
      adversarial: share gamma of the users that collude with the server, in [0, 1/2).

    Raises:
      ValueError: an argument outside its range.
    """
    s = _validate.integer(size=size)
    a, survival, honest = _graph(num_clients, alpha, dropout, adversarial)
    possible = s < honest + 1
    s = np.where(possible, s, 1)
    apart = xlog1py(np.maximum(honest - s, 0), survival * np.expm1(xlog1py(s, -a)))
    joined = log_choose(honest - 1, s - 1) + xlogy(s - 1, survival) + _log_connected(s, a)
    of_many = np.where(possible, np.exp(joined + apart), 0) / selection_probability(num_clients, alpha)
    return np.where(np.asarray(size) == 1, isolated_fraction(num_clients, alpha, dropout, adversarial), of_many)[()]


def connected_probability(size: Numbers, edge_probability: Numbers) -> Result:
    """P[G(s, a) connected], of a graph of s vertices whose edges exist with probability a, independently.

    Raises:
      ValueError: `size` is no integer >= 1, or `edge_probability` outside (0, 1].
    """
    edge = _validate.real("(0, 1]", edge_probability=edge_probability)
    return np.exp(_log_connected(_validate.integer(size=size), edge))


def _graph(num_clients: Numbers, alpha: Numbers, dropout: Numbers, adversarial: Numbers) -> tuple[Result, ...]:
    """a, 1 - theta and H."""
    a = pair_probability(num_clients, alpha)
    honest = (1 - _validate.adversarial(adversarial)) * np.asarray(num_clients)
    return a, 1 - _validate.dropout(dropout), honest


def _log_connected(size: Result, edge: Result) -> Result:
    """Elementwise, from one table for all sizes of an edge probability."""
    row, edge = np.broadcast_arrays(np.asarray(size - 1, np.int64), np.asarray(edge))
    distinct, column = np.unique(edge, return_inverse=True)
    return _log_connected_table(int(row.max()) + 1, distinct)[row, column.reshape(row.shape)]


def _log_connected_table(most: int, edge: np.ndarray) -> np.ndarray:
    """`[most, len(edge)]`, sizes from 1.

    Gilbert's recursion (1959) subtracts: of P ~ a^(s-1) at a = 1e-4, s = 6 nothing is left. Here a vertex reaches all
    others in generations, and all terms add: `reach[u, k]`, that k vertices, the last reached, lead to all of u others.
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
