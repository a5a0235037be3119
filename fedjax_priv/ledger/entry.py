"""What a privacy ledger is asked about a run, and its answer for one adversary."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr

from fedjax_priv.clients import LocalSteps

FORGETTING = {"plain", "momentum from zero", "forgetting"}
"""Forms of local training that keep nothing from round to round."""


class Question(NamedTuple):
    """A finished run, and the adversaries to protect it from; see `ledger`."""

    run: xr.Dataset
    count: np.ndarray  # [n], samples of each client
    delta: float
    colluding: int
    lipschitz: float | None
    steps: LocalSteps | None  # of local training; None: nothing is known
    period: int = 1  # of cyclic sampling, see `base.Draw`
    by_coins: bool = False  # who is in a cohort, see `base.Draw`


class Figure(NamedTuple):
    """A guarantee (eps, delta) for all rounds together; for proposals, for one round.

    `epsilon` is None where there is none, and `why` says why.
    """

    epsilon: np.ndarray | float | None  # a number for everybody, or [n], one of each client
    delta: float | None
    why: str  # the theorem and its assumptions, or the reason
    by_round: Callable[[], np.ndarray] | None = None  # largest eps of a client after each round, [rounds]


class Entry(NamedTuple):
    """What one adversary learns, by the paper and as far as it can be proved."""

    adversary: str  # who looks, and what it sees
    adjacent: str  # what two inputs that it should not tell apart differ in
    claimed: Figure  # the paper's about this view; none if it is about another one
    proved: Figure
    note: str = ""
    view: str = "server"  # or "outsider", "proposal", "device", "coalition", "everybody", "upload": who, or at what
    gaussian: bool = False  # of one Gaussian mechanism: nobody is sampled unseen, nothing else is random
    neighbours: str = "replacement"  # or "zero-out", "add/remove": what happens to a client, or to a sample


def none(why: str) -> Figure:
    """No guarantee."""
    return Figure(None, None, why)


def no_guarantee(adversary: str, adjacent: str, why: str, note: str = "") -> Entry:
    """An entry in which nothing is claimed and nothing proved."""
    return Entry(adversary, adjacent, none(why), none(why), note)


def worst(figure: Figure) -> float | None:
    """The largest eps of any client.

    Examples:
      >>> worst(Figure(epsilon=np.array([0.5, 2.0]), delta=1e-5, why="of each client"))
      2.0
    """
    return None if figure.epsilon is None else float(np.max(figure.epsilon))
