"""Eps of many rounds, of one or several kinds, and the noise or the number of rounds for an eps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_priv.theory import _accountant, _roots, _validate
from fedjax_priv.theory import trade_off as trade_offs
from fedjax_priv.theory._accountant import FINE, Mechanism
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.sampled_gaussian.rounds import Neighbours, Round, mechanism

Rounds = Sequence[tuple[Round, int]]
"""Kinds of rounds, and how many of each kind follow one another."""

_MOST = 2**20  # a search considers at most so many rounds
_CLOSE = 1e-6  # relative precision of a noise multiplier
_SPLITS = 49  # how many ways to split delta between two orders are tried


def epsilon(delta: Numbers, rounds: Rounds, neighbours: Neighbours = "add/remove") -> Result:
    """For which eps are all rounds together (eps, delta)-private? Exact for one round, else an upper bound.

    The bound is right to 3 or 4 digits. An eps below about 0.01 has fewer: it may be 3e-5 too large.

    Args:
      delta: in (0, 1); for several rounds not below about 1e-11.
      rounds: such as `[(Round(1.0, 0.01), 500), (Round(2.0, 0.02), 500)]`, in any order.
      neighbours: "add/remove": a client is there or not; "zero-out": it sends its update or 0; "replacement": it sends
        another update. With a quorum, "add/remove" is not allowed.

    Examples:
      >>> print(epsilon(1e-5, [(Round(noise_multiplier=1.0, rate=0.01), 100)]).round(2))
      0.72
    """
    return _accountant.epsilon_after(_validate.real("(0, 1)", delta=delta), _mechanisms(rounds, neighbours), FINE)


def delta(epsilon: Numbers, rounds: Rounds, neighbours: Neighbours = "add/remove") -> Result:
    """The inverse of `epsilon`, at eps >= 0: the larger of the two orders of adjacent inputs.

    Examples:
      >>> print(f"{delta(1.0, [(Round(noise_multiplier=1.0, rate=0.01), 100)]):.1e}")
      6.7e-07
    """
    return _accountant.delta_after(_validate.real("[0, inf)", epsilon=epsilon), _mechanisms(rounds, neighbours), FINE)


def trade_off(alarms: Numbers, rounds: Rounds, neighbours: Neighbours = "add/remove") -> tuple[Result, Result]:
    """The least miss rates f(a) of tests of all rounds that look for the client's absence, and for its presence.

    Both are bounds on the same trade-off, with the roles of the two inputs exchanged; see `theory.trade_off`. In the
    input without the client it is removed, sends zeros, or sends another update, depending on `neighbours`.

    Args:
      alarms: a, in [0, 1].
      rounds: as in `epsilon`.
      neighbours: as in `epsilon`.

    Examples:
      >>> without, other = trade_off(0.05, [(Round(noise_multiplier=1.0, rate=0.1), 1)])
      >>> print(without.round(3), other.round(3))
      0.945 0.929
    """
    curves = [curve for curve, _ in _accountant.composed(_mechanisms(rounds, neighbours), FINE)]
    first, second = curves[0], curves[-1]
    return trade_offs.from_profiles(alarms, first, second), trade_offs.from_profiles(alarms, second, first)


def epsilon_by_round(delta: float, rounds: Rounds, neighbours: Neighbours = "add/remove") -> np.ndarray:
    """Eps after each of the rounds, in their order, `[T]`; arguments as in `epsilon`.

    With more than 128 rounds, eps is computed after some of them; the others have the eps of the next computed one.

    Examples:
      >>> print(epsilon_by_round(1e-5, [(Round(2.0, 0.1), 2), (Round(1.0, 0.1), 2)]).round(3))
      [0.369 0.449 1.702 1.934]
    """
    target = _validate.number("(0, 1)", delta=delta)
    return _accountant.epsilon_by_round(target, _mechanisms(rounds, neighbours), FINE)


def rounds_within(epsilon: float, delta: float, one: Round, neighbours: Neighbours = "add/remove") -> int:
    """The largest number of rounds, up to 2**20, that are (eps, delta)-private together; 0 if one is too many.

    Args:
      epsilon: >= 0.
      delta: in (0, 1).
      one: each of the rounds.
      neighbours: as in `epsilon`.

    Examples:
      >>> print(rounds_within(2.0, 1e-5, Round(noise_multiplier=1.0, rate=0.1)))
      2
    """
    budget, target = (_validate.real("[0, inf)", epsilon=epsilon), _validate.real("(0, 1)", delta=delta))
    kind = mechanism(one, neighbours)
    return _roots.most(
        lambda count: float(_accountant.epsilon_after(target, [(kind, count)], FINE)), float(budget), _MOST
    )


def noise_multiplier_for(
    epsilon: float, delta: float, one: Round, rounds: int, neighbours: Neighbours = "add/remove"
) -> float:
    """How much noise is enough? The z that makes `rounds` rounds (eps, delta)-private, to 6 digits, never too small.

    Args:
      epsilon: to be reached, in (0, 1e6].
      delta: in (0, 1).
      one: each of the rounds; its noise multiplier is not read.
      rounds: how many, at least 1.
      neighbours: as in `epsilon`.

    Examples:
      >>> print(round(noise_multiplier_for(1.0, 1e-5, Round(rate=0.01), rounds=1), 2))
      0.67
    """
    budget = _validate.number(f"(0, {_roots.LARGEST_BUDGET:g}]", epsilon=epsilon)
    target = _validate.number("(0, 1)", delta=delta)
    count, one = _validate.whole(rounds=rounds), _validate.setting(Round, one=one)

    def spent(z: float) -> float:
        kind = mechanism(one._replace(noise_multiplier=z), neighbours)
        return float(_accountant.epsilon_after(target, [(kind, count)], FINE))

    return _roots.least_scale(spent, budget, _CLOSE)


def _mechanisms(rounds: Any, neighbours: Neighbours) -> list[tuple[Mechanism, int]]:
    pairs = checked_kinds(rounds)
    made = {name: mechanism(one, neighbours) for name, one in {id(one): one for one, _ in pairs}.items()}
    return [(made[id(one)], _validate.whole(rounds=count)) for one, count in pairs]


def checked_kinds(rounds: Any) -> Rounds:
    """Pairs of a round and how many there are; the rounds and numbers themselves are not checked."""
    if isinstance(rounds, Round) or not isinstance(rounds, Sequence) or not all(map(_is_pair, rounds)):
        _validate.fail("rounds", rounds, "pairs (Round, number of rounds)")
    if not rounds:
        _validate.fail("rounds", rounds, "at least one kind of rounds")
    return rounds


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], Round)


def replacement_epsilon(delta: float, rounds: Rounds) -> float:
    """Eps of replacement from the two orders of add/remove (with a quorum: of zero-out), for any sampling.

    delta(e1 + e2) <= delta_remove(e1) + e^{e1} delta_add(e2) on the curves of all rounds together, at the best split of
    delta. It is never below `epsilon` for "replacement".

    Args:
      delta: in (0, 1).
      rounds: as in `epsilon`.

    Examples:
      >>> print(round(replacement_epsilon(1e-5, [(Round(1.0, 0.01), 1)]), 2))
      0.21
    """
    target = _validate.number("(0, 1)", delta=delta)
    kinds = checked_kinds(rounds)
    step: Neighbours = "add/remove" if all(one.quorum is None for one, _ in kinds) else "zero-out"
    (_, remove), (_, add) = _accountant.composed(_mechanisms(rounds, step), FINE)
    share = np.linspace(0.02, 0.98, _SPLITS)
    first = remove(share * target)
    return float((first + add((1 - share) * target * np.exp(-first))).min())
