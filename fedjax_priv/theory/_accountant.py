"""Composition over rounds of mechanisms that are given by privacy profiles (delta as a function of any real eps).

A mechanism has one profile for each order of its two adjacent inputs; if both profiles are the same, it needs one. Each
order is composed separately, by privacy loss distributions, and the larger figure is valid.
"""

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fedjax_priv.theory import _roots, _validate, gaussian
from fedjax_priv.theory._validate import Numbers, Result

Profile = Callable[[Numbers], Result]
Mechanism = tuple[Profile, ...]

_STEPS = 1000  # of the discrete privacy loss, on each side of 0, at least
FINE, _COARSE = 2.5e-5, 1e-3  # rounds times the squared step; eps is too large by about as much
_MOST_STEPS = 2**16
MOST_ROUNDS = 2**24
"""The loss of a run is an array of about so many numbers, or a few times as many."""
_WIDEST = 700.0  # float64 holds the exponential of such a step; loss beyond a grid of them counts as infinite
_TAIL = 1e-15  # mass that may count as infinite loss when two losses are composed
_POINTS = 128  # eps is computed after at most about so many rounds of a run
_CUT = 1e-17  # mass of a round's loss that may lie beyond the grid; it counts as infinite loss
_BLOCK = 2**17


def symmetric(profile: Profile) -> Mechanism:
    """The mechanism whose two orders have the same profile, which is given at eps >= 0."""
    return (lambda epsilon: gaussian.at_any(epsilon, profile(np.abs(epsilon))),)


def averaged(term: Callable[[np.ndarray], np.ndarray], size: int, lost: float) -> Profile:
    """The profile `lost` plus the sum of `term(epsilon[:, None])`, `[:, size]`, over the last axis, in small blocks."""

    def profile(epsilon: Numbers) -> Result:
        flat = np.ravel(epsilon)
        blocks = np.array_split(flat, max(1, flat.size * size // _BLOCK))
        total = np.concatenate([term(block[:, None]).sum(1) for block in blocks])
        return np.minimum(total + lost, 1).reshape(np.shape(epsilon))

    return profile


def worst(mechanisms: Sequence[Mechanism]) -> Mechanism:
    """In each order, the largest delta at each eps: a profile that dominates all mechanisms, also when composed."""
    return tuple(_largest(profiles) for profiles in zip(*mechanisms, strict=True))


def delta_after(epsilon: Numbers, rounds: Sequence[tuple[Mechanism, int]], widening: float = np.inf) -> Result:
    """What is delta at eps >= 0 after all rounds? `rounds` has pairs of a mechanism and how often it is used.

    Exact for one round. Otherwise an upper bound, tight to a few digits; deltas below about 1e-11 are not resolved. Eps
    is too large by about `widening`; a small one costs time, and the loss has at least 1,000 steps anyway.
    """
    return np.max([curve(epsilon) for curve, _ in composed(rounds, widening)], axis=0)[()]


def epsilon_after(delta: Numbers, rounds: Sequence[tuple[Mechanism, int]], widening: float = np.inf) -> Result:
    """The inverse of `delta_after`; infinite if delta is below the mass of infinite loss."""
    return np.max([curve(delta) for _, curve in composed(rounds, widening)], axis=0)[()]


def composed(rounds: Sequence[tuple[Mechanism, int]], widening: float = np.inf) -> list[tuple[Callable, Callable]]:
    """For each order, delta as a function of eps and eps as a function of delta."""
    orders = range(len(rounds[0][0]))
    if sum(count for _, count in rounds) == 1:
        profiles = [rounds[0][0][order] for order in orders]
        return [(profile, lambda delta, p=profile: _roots.unbounded_least(p, delta)) for profile in profiles]
    step, size = _grid(rounds, widening)
    losses = [_loss([(mechanism[order], count) for mechanism, count in rounds], step, size) for order in orders]
    each = functools.partial(np.vectorize, otypes=[np.float64])
    return [(each(loss.get_delta_for_epsilon), each(loss.get_epsilon_for_delta)) for loss in losses]


def _reach(profile: Profile) -> float:
    """The eps beyond which nearly no finite loss lies."""
    return max(float(_roots.unbounded_least(profile, profile(_roots.FAR) + _CUT)), 1e-6)


def epsilon_by_round(delta: float, rounds: Sequence[tuple[Mechanism, int]], widening: float = np.inf) -> np.ndarray:
    """Upper bounds on eps after each round, `[T]`, of mechanisms in the order in which they are used.

    With more than 128 rounds, eps is computed after some of them; the others have the eps of the next computed one.
    """
    kinds = _together(rounds)
    last = float(epsilon_after(delta, kinds, widening))
    step, size = _grid(kinds, _COARSE)
    stride = -(-sum(count for _, count in rounds) // _POINTS)
    of_orders = [_running(order, delta, rounds, step, size, stride) for order in range(len(rounds[0][0]))]
    found = np.append(np.max(of_orders, axis=0)[:-1], last)
    return np.minimum.accumulate(found[::-1])[::-1]  # eps of more rounds holds for fewer


def _together(rounds: Sequence[tuple[Mechanism, int]]) -> list[tuple[Mechanism, int]]:
    """Each mechanism once, with its total count."""
    kinds = {id(mechanism): mechanism for mechanism, _ in rounds}
    often = dict.fromkeys(kinds, 0)
    for mechanism, count in rounds:
        often[id(mechanism)] += count
    return [(kinds[name], count) for name, count in often.items()]


def _running(
    order: int, delta: float, rounds: Sequence[tuple[Mechanism, int]], step: float, size: int, stride: int
) -> np.ndarray:
    """Eps after each round in one order, computed once in `stride` rounds."""
    found, so_far, losses, parts = [], None, {}, {}
    for mechanisms in _in_strides(rounds, stride):
        for mechanism, _ in mechanisms:
            if id(mechanism) not in losses:
                losses[id(mechanism)] = _one_loss(mechanism[order], step, size)
        often = tuple((id(mechanism), count) for mechanism, count in mechanisms)
        if often not in parts:
            powers = [_power(losses[name], count) for name, count in often]
            parts = {often: functools.reduce(lambda first, second: first.compose(second, _TAIL), powers)}
        so_far = parts[often] if so_far is None else so_far.compose(parts[often], _TAIL)
        found.append(np.full(sum(count for _, count in often), so_far.get_epsilon_for_delta(delta)))
    return np.concatenate(found)


def _in_strides(rounds: Sequence[tuple[Mechanism, int]], stride: int) -> Iterator[list[tuple[Mechanism, int]]]:
    """The mechanisms of every `stride` rounds, each once with its count; the last stride may be shorter."""
    part, room = [], stride
    for mechanism, count in rounds:
        while count:
            taken = min(count, room)
            part.append((mechanism, taken))
            count, room = count - taken, room - taken
            if not room:
                yield _together(part)
                part, room = [], stride
    if part:
        yield _together(part)


def _power(loss, count: int):
    with np.errstate(over="ignore"):  # a tail bound that overflows, where a mass is below 1e-308, is left out there
        return loss.self_compose(count) if count > 1 else loss


def _grid(rounds: Sequence[tuple[Mechanism, int]], widening: float) -> tuple[float, int]:
    """The step of the discrete loss, and the number of steps on each side of 0."""
    if (total := sum(count for _, count in rounds)) > MOST_ROUNDS:
        _validate.fail("rounds", total, f"at most {MOST_ROUNDS} in all")
    reach = max(_reach(profile) for mechanism, _ in rounds for profile in mechanism)
    fine = np.sqrt(widening / total)
    size = int(np.clip(np.ceil(reach / fine), _STEPS, _MOST_STEPS))
    return min(reach / size, _WIDEST), size


def _loss(rounds: list[tuple[Profile, int]], step: float, size: int):
    losses = [_power(_one_loss(profile, step, size), count) for profile, count in rounds]
    return functools.reduce(lambda first, second: first.compose(second), losses)


def _one_loss(profile: Profile, step: float, size: int):
    from dp_accounting.pld import pld_pmf  # takes a second

    delta = np.clip(profile(step * np.arange(-size, size + 1)), 0, 1 - 2**-53)  # 1 fails in self_compose
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -size, size, delta)


def _largest(profiles: Sequence[Profile]) -> Profile:
    return lambda epsilon: np.max([profile(epsilon) for profile in profiles], axis=0)
