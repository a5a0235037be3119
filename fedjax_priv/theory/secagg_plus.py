"""SecAgg+ (Bell et al., CCS 2020): the probability that a random graph of k neighbours fails.

N users stand on a circle in random order. Each masks with the k/2 nearest users on either side (a Harary graph), shares
its secrets among them and keeps a share: of k + 1 shares, t reconstruct. A round fails if a user's secret cannot be
reconstructed (correctness). It also fails if the colluding holders can open a user's secrets by themselves, or if the
graph of the honest survivors falls apart, so that more than their total can be read (secrecy).

The server is honest but curious, and pools its view with round(gamma N) users. Every user is lost with probability
theta, independently.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import xlog1py, xlogy

from fedjax_priv.theory import _binomial, _validate
from fedjax_priv.theory._binomial import log_choose

MOST_BREAKS = 10
"""Up to so many expected breaks of the circle, the alternating sum of `disconnected_probability` keeps its digits."""


class Graph(NamedTuple):
    """A round's graph; a function that takes one raises ValueError for a field outside its range."""

    num_clients: int  # N >= 3
    neighbours: int  # k, even and below N
    threshold: int  # t in [1, k + 1]: shares that reconstruct a secret
    dropout: float  # theta in [0, 1): probability that a user is lost
    adversarial: float  # gamma in [0, 1/2): fraction of the users that collude with the server


def graph_failure_probability(graph: Graph) -> float:
    """How probable is it that a round's graph fails? At most the sum of the three probabilities below.

    Examples:
      >>> graph = Graph(num_clients=1000, neighbours=60, threshold=31, dropout=0.1, adversarial=0.1)
      >>> print(f"{graph_failure_probability(graph):.1e}")
      1.1e-12
    """
    return min(1.0, unrecoverable_probability(graph) + exposed_probability(graph) + disconnected_probability(graph))


def unrecoverable_probability(graph: Graph) -> float:
    """Union bound, over all users, on the probability that some secret cannot be reconstructed.

    Examples:
      >>> graph = Graph(num_clients=1000, neighbours=60, threshold=31, dropout=0.1, adversarial=0.1)
      >>> print(f"{unrecoverable_probability(graph):.1e}")
      1.1e-12
    """
    of_one = user_unrecoverable_probability(graph)
    return min(1.0, graph.num_clients * of_one)


def user_unrecoverable_probability(graph: Graph) -> float:
    """P[Bin(k + 1, 1 - theta) < t], exact: fewer than t of a user's holders are there to open its shares.

    A holder that leaves after its upload counts as lost too.

    Examples:
      >>> graph = Graph(num_clients=1000, neighbours=60, threshold=31, dropout=0.1, adversarial=0.1)
      >>> print(f"{user_unrecoverable_probability(graph):.1e}")
      1.1e-15
    """
    _check(graph)
    return float(_binomial.below(graph.threshold, graph.neighbours + 1, _validate.dropout(graph.dropout)))


def exposed_probability(graph: Graph) -> float:
    """Union bound, over the honest users, on the probability that colluders can open some user's secrets.

    Examples:
      >>> graph = Graph(num_clients=1000, neighbours=60, threshold=31, dropout=0.1, adversarial=0.1)
      >>> print(f"{exposed_probability(graph):.1e}")
      1.1e-14
    """
    colluders = _check(graph)
    return min(1.0, (graph.num_clients - colluders) * user_exposed_probability(graph))


def user_exposed_probability(graph: Graph) -> float:
    """P[Hypergeometric >= t], exact: t or more of an honest user's k neighbours collude.

    Examples:
      >>> graph = Graph(num_clients=1000, neighbours=60, threshold=31, dropout=0.1, adversarial=0.1)
      >>> print(f"{user_exposed_probability(graph):.1e}")
      1.3e-17
    """
    colluders = _check(graph)
    n, k = graph.num_clients, graph.neighbours
    among = np.arange(graph.threshold, min(k, colluders) + 1)
    others = n - 1 - colluders
    among = among[k - among <= others]
    ways = log_choose(colluders, among) + log_choose(others, k - among)
    return float(np.exp(ways - log_choose(n - 1, k)).sum())


def disconnected_probability(graph: Graph) -> float:
    """Probability that the honest survivors' graph is not connected, exact.

    The graph falls apart if there are two or more breaks: survivors that are followed on the circle by k/2 or more
    users that are lost or collude. With S_j the expected number of sets of j breaks, P[two or more] =
    sum_{j >= 2} (-1)^j (j-1) S_j. If more than 10 breaks are expected, the terms cancel too much, and 1 is returned;
    the probability is then above 0.999.

    Examples:
      >>> graph = Graph(num_clients=1000, neighbours=60, threshold=31, dropout=0.1, adversarial=0.1)
      >>> print(f"{disconnected_probability(graph):.1e}")
      5.5e-40
    """
    colluders, run = _check(graph), graph.neighbours // 2
    expected = lambda j: math.exp(_log_breaks(j, graph.num_clients, run, float(graph.dropout), colluders))
    most = graph.num_clients // (run + 1)
    if most < 2:
        return 0.0
    if expected(1) > MOST_BREAKS:
        return 1.0
    terms = []
    for j in range(2, most + 1):
        terms.append((j - 1) * expected(j))
        if terms[-1] <= 1e-18 * max(terms):
            break
    return min(max(sum(terms[::2]) - sum(terms[1::2]), 0.0), 1.0)


def smallest_neighbours(num_clients: int, dropout: float, adversarial: float, failure: float = 2**-40) -> int:
    """How many neighbours are enough? The least even k with t = k/2 + 1 and a failure probability below `failure`.

    Args:
      num_clients: N.
      dropout: theta, in [0, 1).
      adversarial: gamma, in [0, 1/2).
      failure: probability allowed in a round, in (0, 1).

    Raises:
      ValueError: no k < N is enough.

    Examples:
      >>> print(smallest_neighbours(1000, dropout=0.1, adversarial=0.1))  # of 999 others
      62
    """
    num_clients, failure = _validate.whole(num_clients=num_clients), _validate.number("(0, 1)", failure=failure)
    least = 1.0
    for k in range(2, num_clients, 2):
        graph = Graph(num_clients, k, k // 2 + 1, dropout, adversarial)
        simple = unrecoverable_probability(graph) + exposed_probability(graph)
        if simple < failure:
            simple = graph_failure_probability(graph)
            if simple < failure:
                return k
        least = min(least, simple)
    _validate.fail("failure", failure, f"above {least:.3g}, the least of any even number of neighbours < {num_clients}")


def _log_breaks(j: int, n: int, run: int, theta: float, colluders: int) -> float:
    """log S_j: the ways to place j disjoint blocks, each a survivor and `run` removed users, times their probability.

    Of the j * run removed users, c collude and the others are lost.
    """
    removed, rest = j * run, n - j * (run + 1)
    places = math.log(n / j) + log_choose(n - removed - 1, j - 1)
    c = np.arange(max(0, colluders - rest), min(removed, colluders) + 1)
    ways = log_choose(removed, c) + log_choose(rest, colluders - c) + xlogy(removed - c, theta)
    ways = np.logaddexp.reduce(ways)  # of none: -inf
    return float(places + ways - log_choose(n, colluders) + xlog1py(j, -theta))


def _check(graph: Graph) -> int:
    """The number of colluders; ValueError names a field outside its range."""
    n, k, threshold, dropout, adversarial = _validate.setting(Graph, graph=graph)
    _validate.whole(at_least=3, num_clients=n)
    _validate.whole(at_least=2, neighbours=k)
    if k % 2 or k >= n:
        _validate.fail("neighbours", k, f"even and below num_clients = {n}")
    _validate.whole(threshold=threshold)
    if threshold > k + 1:
        _validate.fail("threshold", threshold, f"at most neighbours + 1 = {k + 1}")
    _validate.number("[0, 1)", dropout=dropout)
    _validate.adversarial(adversarial)
    return round(n * _validate.number("[0, 0.5)", adversarial=adversarial))
