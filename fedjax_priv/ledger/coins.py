"""Who tosses the coins of a round over the air, and how often the same client does.

Where the cohort is all clients, each has its own coin, and the probabilities of every round are public: they follow
from gains and settings, not from data. Else the cohort is filled by the coins of all clients (`clients.poisson`), or of
a public group whose turn it is (`clients.cyclic_poisson`). Then who is in the cohort is secret, and clients are alike.
"""

from collections.abc import Callable

import numpy as np

from fedjax_priv.ledger.entry import Figure, Question, worst


def population(question: Question) -> tuple[int, int]:
    """How many clients toss a coin in a round, and how many groups take turns."""
    places, number = question.run.sizes["client"], question.count.size
    if places == number:
        return number, 1
    return max(number // question.period, places), question.period


def is_filled(question: Question) -> bool:
    """Whether coins fill the cohort: if p is between 0 and 1, other clients toss them than those of the run."""
    return question.run.sizes["client"] < question.count.size


def own_chances(question: Question, p: np.ndarray) -> np.ndarray:
    """`[T, K]`, the probabilities of clients, of those of places; `[T, 1]` where all clients are alike."""
    return p[:, :1] * question.run.sizes["client"] / population(question)[0] if is_filled(question) else p


def in_turns(question: Question, figure: Callable[[Question, np.ndarray], Figure]) -> Figure:
    """The largest figure of a group, which is about its own rounds: `figure(question, rounds)`, `rounds` bool `[T]`.

    A client has no part in rounds of other groups, and its group is public.
    """
    turn = question.run.client_id.values[:, 0] % population(question)[1] if is_filled(question) else np.zeros(1, int)
    if (turn == turn[0]).all():
        return figure(question, np.ones(question.run.sizes["round"], bool))
    found = []
    for group in np.unique(turn):
        rounds = turn == group
        found.append((rounds, figure(question._replace(run=question.run.isel(round=rounds)), rounds)))
    refused = [one for _, one in found if one.epsilon is None]
    if refused:
        return refused[0]
    largest = max((one for _, one in found), key=lambda one: worst(one) or 0.0)
    return largest._replace(by_round=None if largest.by_round is None else lambda: _by_round(found))


def _by_round(found: list[tuple[np.ndarray, Figure]]) -> np.ndarray:
    after = np.zeros(len(found[0][0]))
    for rounds, one in found:
        assert one.by_round is not None  # as of the largest
        after[rounds] = one.by_round()
    return np.maximum.accumulate(after)
