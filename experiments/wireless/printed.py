"""Tables II and III as the paper prints them, and what gives each leakage in them.

One rule gives all sixteen leakages of the uniform columns: eps_l is Lemma 2's with the receiver's noise counted; eps_c
is eq. 13's where its log has an argument of at most 2, and log(2A) + x elsewhere (A is max p/(1-delta'), x the
exponent). The rule is inferred from the numbers. Channel-aware columns depend on the channel's draws: a pair of printed
numbers determines the largest p_k and the mean number m of participants of a round.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, stats

from experiments.wireless.leakage import DELTA_LOCAL, of_round
from experiments.wireless.training import RECEIVER_NOISE, THRESHOLD
from fedjax_priv.theory import gaussian
from fedjax_priv.theory.wireless.participation import deviation

USERS = 200
"""K of the tables."""
UNIFORM = (0.3, 0.9)
PARTICIPANTS = ("96", "60", "180")
"""Mean participants, the same in every panel: channel-aware, and the two uniform columns."""
CENTRAL = 0.99
"""A printed number is one of a round's law if it lies within this part in the middle of it."""
GAIN: Any = stats.rice(b=np.sqrt(10), scale=np.sqrt(1 / 12))
"""The law of a gain at any time: Rician fading with G = 5 and a mean square of 1, as `channels.rician` draws it."""


class Printed(NamedTuple):
    """A panel as it is printed: channel-aware, p = 0.3, p = 0.9."""

    local: tuple[str, str, str]  # eps_l
    central: tuple[str, str, str]  # eps_c
    accuracy: tuple[str, str, str]  # in per cent


class Law(NamedTuple):
    """Rounds of channel-aware sampling, each with fresh gains; `[round]`."""

    most: np.ndarray  # max p_k
    mean: np.ndarray  # m
    local: np.ndarray  # eps_l, with N0
    central: np.ndarray  # eps_c by the rule


def uniform(p: float, clip: float, noise_variance: float) -> dict[str, float]:
    """`leakage.of_round` of a uniform column, and `rule`, eps_c by the rule above."""
    found = of_round(np.full(USERS, p), clip, noise_variance)
    return found | {"rule": float(_rule(p, USERS * p, clip, noise_variance))}


@functools.cache
def law(clip: float, noise_variance: float, rounds: int = 10_000, seed: int = 0) -> Law:
    """Leakages of one round over the draws of the channel, Rician with G = 5."""
    gain = GAIN.rvs((rounds, USERS), random_state=seed)
    p = np.minimum(1, gain / THRESHOLD)
    most, mean = p.max(1), p.sum(1)
    return Law(most, mean, _local(most, mean, clip, noise_variance), _rule(most, mean, clip, noise_variance))


def participants() -> tuple[float, ...]:
    """K E min(1, h/h_th), and K p."""
    return (USERS * GAIN.expect(lambda h: np.minimum(1, h / THRESHOLD)), *(USERS * p for p in UNIFORM))


def of_a_round(local: str, central: str, clip: float, noise_variance: float) -> tuple[float, float]:
    """The largest p_k and the m of the round that leaks what is printed."""
    senders = ((2 * clip * _root() / float(local)) ** 2 - RECEIVER_NOISE) / noise_variance - 1 + _width()
    apart: Any = lambda q: float(_rule(q, q + senders, clip, noise_variance)) - float(central)
    most: Any = optimize.brentq(apart, 0.3, 1.5)
    return most, most + senders


def place(value: float, values: np.ndarray) -> float:
    """Fraction of the values below one."""
    return float((values < value).mean())


def _root() -> float:
    return float(gaussian.classical_epsilon(DELTA_LOCAL, 1.0))


def _width() -> float:
    """beta K; delta' of 20 and more participants is 1e-5."""
    return float(deviation(USERS, 1e-5))


def _local(most: Any, mean: Any, clip: float, noise_variance: float) -> Any:
    return 2 * clip * _root() / np.sqrt((1 + mean - most - _width()) * noise_variance + RECEIVER_NOISE)


def _rule(most: Any, mean: Any, clip: float, noise_variance: float) -> Any:
    x, factor = 2 * clip * _root() / np.sqrt(noise_variance * (mean - _width())), most / (1 - 1e-5)
    argument = factor * np.expm1(x)
    return np.where(argument > 1, np.log(2 * factor) + x, np.log1p(argument))
