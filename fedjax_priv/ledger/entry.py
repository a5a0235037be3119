"""What a privacy ledger says of one adversary."""

from typing import NamedTuple

import numpy as np


class Figure(NamedTuple):
    """A guarantee (eps, delta) for all rounds together, of proposals for one round.

    `epsilon` is None where there is none, and `why` says why.
    """

    epsilon: np.ndarray | float | None  # a number for everybody, or [n], one of each client
    delta: float | None
    why: str  # the theorem and its assumptions, or the reason


class Entry(NamedTuple):
    """What one adversary learns, by the paper and as far as it can be proved."""

    adversary: str  # who looks, and what it sees
    neighbours: str  # what two inputs differ in that it should not tell apart
    claimed: Figure  # the paper's
    proved: Figure
    note: str = ""
    view: str = "server"  # or "proposal", "device", "coalition", "everybody": who looks, in one word


def none(why: str) -> Figure:
    """No guarantee."""
    return Figure(None, None, why)


def worst(figure: Figure) -> float | None:
    """The largest eps of any client."""
    return None if figure.epsilon is None else float(np.max(figure.epsilon))
