"""An adversary's best test of all rounds together: the best linear statistic of sums with correlated noise.

The noise of n rounds is `R z` with independent seeds z. D are the sums along the update of a client, which takes part
in the rounds p and moves D by p. With S = R R^T, the best test of D is `p^T S^-1 D / sqrt(p^T S^-1 p)`. If R is the
inverse of a square C, this is `<C p, C D> / ||C p||`. Its two means are `||C p||` standard deviations of a seed apart,
at most the sensitivity.
"""

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory.correlated_noise.sensitivity import padded
from fedjax_priv.theory.correlated_noise.workload import Column, divided, one


def toeplitz_rows(column: Column, num_rounds: int) -> np.ndarray:
    """R = C^-1, `[n, n]`: row t has the weights of the seeds in the noise of round t.

    Args:
      column: the first of C, `[bands]`; further coefficients are 0.
      num_rounds: n.

    Examples:
      >>> print(toeplitz_rows(square_root(3), 3))
      [[ 1.     0.     0.   ]
       [-0.5    1.     0.   ]
       [-0.125 -0.5    1.   ]]
    """
    n = _validate.length(num_rounds=num_rounds)
    inverse = divided(one(n), padded(column, n))
    lag = np.arange(n)[:, None] - np.arange(n)
    return np.where(lag >= 0, inverse[np.maximum(lag, 0)], 0.0)


def tree_rows(num_rounds: int, leaves: int | None = None, variance_reduced: bool = True) -> np.ndarray:
    """R of binary trees, `[n, nodes]`: row t has the weights of the nodes in the noise of round t.

    It is the noise of the prefix sum after round t minus the noise of the one before.

    Args:
      num_rounds: n.
      leaves: rounds of a tree, after which a new tree starts; None: one tree for all rounds.
      variance_reduced: as in `tree_error`.

    Examples:
      >>> print(tree_rows(2, variance_reduced=False))  # nodes: of each round, and of both
      [[ 1.  0.  0.]
       [-1.  0.  1.]]
    """
    n = _validate.length(num_rounds=num_rounds)
    size = n if leaves is None else _validate.whole(leaves=leaves)
    estimates = _estimates(size, _validate.flag(variance_reduced=variance_reduced))
    sums = [np.zeros(estimates[0].shape[1])]
    for done in range(1, size + 1):
        nodes = [of[(done >> j) - 1] for j, of in enumerate(estimates) if done >> j & 1]
        sums.append(np.sum(nodes, axis=0))
    return np.kron(np.eye(-(-n // size)), np.diff(sums, axis=0))[:n]


def matched_filter(rows: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Weights of the rounds in the best statistic, scaled so that its noise has the standard deviation of a seed.

    Args:
      rows: R, `[n, m]`, of rank n.
      taken: p, `[..., n]`: 1 in the rounds in which the client takes part, or how far it moves each sum.

    Returns:
      `[..., n]`; 0 if the client never takes part.

    Examples:
      >>> rows = toeplitz_rows(square_root(3), 3)
      >>> print(matched_filter(rows, np.array([1.0, 0.0, 0.0])).round(3))  # it comes in the first round
      [1.179 0.583 0.318]
    """
    best = np.linalg.solve(rows @ rows.T, taken[..., None])[..., 0]
    apart = np.sqrt((taken * best).sum(-1, keepdims=True))
    return best / np.where(apart > 0, apart, 1.0)


def _estimates(leaves: int, variance_reduced: bool) -> list[np.ndarray]:
    """For each height, estimates of the sums over complete intervals, `[number, nodes]`, as weights of nodes.

    With variance reduction, a sum combines its node with the nodes below (Honaker 2015).
    """
    numbers = [leaves >> j for j in range(leaves.bit_length())]
    nodes = np.split(np.eye(sum(numbers)), np.cumsum(numbers)[:-1])
    estimates = [nodes[0]]
    for j, node in enumerate(nodes[1:]):
        below, variance = estimates[-1][: 2 * len(node)], 2.0**j / (2.0 ** (j + 1) - 1)
        own = 2 * variance / (2 * variance + 1) if variance_reduced else 1.0
        estimates.append(own * node + (1 - own) * (below[0::2] + below[1::2]))
    return estimates
