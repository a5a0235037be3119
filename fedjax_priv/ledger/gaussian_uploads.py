"""Figures of clients each of whose uploads is one Gaussian mechanism, however many rounds they take part in."""

import numpy as np

from fedjax_priv.ledger.by_client import spent_by_client
from fedjax_priv.ledger.entry import Figure, Question
from fedjax_priv.theory import gaussian


def gaussian_uploads(question: Question, moved: np.ndarray | float, why: str) -> Figure:
    """Of every client, from its rounds together: one Gaussian mechanism, whose squared sensitivities add up.

    Eps is exact (Balle and Wang 2018, Theorem 8) at the sensitivity `sqrt(sum_t moved_t**2)` over the noise.

    Args:
      question: the run, whose `client_id` `[T, K]` says whose upload is where.
      moved: `[T, K]` or a number: how far an upload moves what is seen, over the standard deviation of its noise.
      why: theorem and assumptions.
    """
    return of_clients(question, moved, question.run.client_id.values, question.count.size, why)


def of_clients(question: Question, moved: np.ndarray | float, client: np.ndarray, number: int, why: str) -> Figure:
    """`gaussian_uploads` of the places `client` `[T, K]` alone, each of clients 0 to `number` - 1."""
    squares = np.broadcast_to(np.square(moved), client.shape)
    spent, most = spent_by_client(squares, client, number)
    return Figure(_epsilon(question.delta, spent), question.delta, why, lambda: _epsilon(question.delta, most))


def _epsilon(delta: float, squares: np.ndarray) -> np.ndarray:
    """Of sums of squares, each value once."""
    kinds, which = np.unique(squares, return_inverse=True)
    return np.asarray(gaussian.epsilon(delta, np.sqrt(kinds)))[which]
