"""Attacks that search, in each round, for the factor that hurts the defence most.

A defence that turns with its rows (`Aggregator.equivariant`) depends on their inner products alone, so it is tried on
`n + 2` coordinates instead of d: evaluations then cost next to nothing, whatever the size of the model. If only the
steps before a rule turn, such as nearest-neighbour mixing before a trimmed mean, these are tried there (`InTwo`).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv import _validate
from fedjax_priv._devices import finite_rows
from fedjax_priv.attacks.attack_layers import Attack
from fedjax_priv.attacks.honest_statistics import honest_mean, honest_std
from fedjax_priv.attacks.on_values.alie import check_line
from fedjax_priv.base import Aggregator, Key
from fedjax_priv.base.aggregator import InTwo
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.row_coordinates import coordinates, in_basis
from fedjax_priv.engine.row_norms import norms
from fedjax_priv.keys import named

Respond = Callable[[Float[Array, "n d"]], Float[Array, "*k d"]]
"""The server's defence, a rule or a function: from all updates to the direction, or to those of `k` draws, whose mean
distance counts.
"""

NO_HARM = -1.0
"""Replaces the distance of a direction that is NaN, with which the round fails and nothing moves."""

Line = Callable[[Float[Array, "n d"], Bool[Array, " n"]], tuple[Float[Array, "1 d"], Float[Array, "1 d"]]]
"""`(updates, honest) -> (base, slope)`: the attack sends `base + factor * slope`."""


def optimal_foe(respond: Respond, **search: Any) -> Attack:
    """`foe` at the scale that moves the defence furthest from the honest mean, of those that it tries.

    Source: Allouah et al. 2023.

    Args:
      respond: the server's defence, a rule or a function `[n, d] -> [d]`; Byzantine rows hold the attack, and rows of
        clients that take no part in the round are NaN, which a rule leaves out.
      **search: `evals`, `start`, `step`, `ratio`, `down` and `draws` of `furthest`; the defaults are ByzFL's.

    Raises:
      ValueError: an argument is out of range.

    Examples:
      >>> updates = jnp.array([[1.0], [3.0], [5.0], [0.0]])
      >>> honest = jnp.array([True, True, True, False])
      >>> attack = optimal_foe(lambda rows: rows.mean(0), evals=3)  # the mean of all: the larger the scale the better
      >>> print(jax.jit(attack)(jax.random.key(0), updates, honest, ~honest))
      [[-90.]]
    """
    return furthest(
        respond, lambda updates, honest: (jnp.zeros_like(mean := honest_mean(updates, honest)), -mean), **search
    )


def optimal_alie(respond: Respond, *, ddof: int = 0, sign: int = -1, **search: Any) -> Attack:
    """`alie` at the z that moves the defence furthest from the honest mean, of those that it tries.

    Source: Allouah et al. 2023.

    ByzFL's `Optimal_ALittleIsEnough` has `ddof=1, sign=1`. Other arguments, and errors, are those of `optimal_foe`.

    Args:
      ddof: as in `alie`.
      sign: as in `alie`.

    Examples:
      >>> updates = jnp.array([[1.0], [3.0], [5.0], [0.0]])
      >>> honest = jnp.array([True, True, True, False])
      >>> attack = optimal_alie(lambda rows: rows.mean(0), evals=3)  # the mean of all: the larger z the better
      >>> print(jax.jit(attack)(jax.random.key(0), updates, honest, ~honest) < -10)
      [[ True]]
    """
    check_line(ddof, sign)
    return furthest(
        respond,
        lambda updates, honest: (honest_mean(updates, honest), sign * honest_std(updates, honest, ddof)),
        **search,
    )


def furthest(
    respond: Respond,
    line: Line,
    *,
    evals: int = 20,
    start: float = 0.0,
    step: float = 10.0,
    ratio: float = 0.8,
    down: int = 0,
    draws: int = 1,
) -> Attack:
    """Of the factors that ByzFL's line search tries, the one for which ||respond - honest mean|| is largest.

    A factor for which the direction is NaN is no better than any other: the round fails, and the model stays.

    From `start`, the step doubles as long as the distance grows. After the first step that does not increase it, each
    step, taken or not, is `ratio` times the one before. ByzFL's search only goes up and may step over the worst factor:
    against Krum with 4 of 15 rows, `optimal_alie` then did about half of the harm of the worst z, and a sixth at
    worst. Other rules that choose rows, such as `caf`, and mixing before a rule hide the worst factor as well. With
    `down`, factors below the best one are tried afterwards. The harm found is a lower bound all the same; a smaller
    `step` and a `ratio` nearer to 1 look closer.

    The attackers don't know what a rule will draw, such as the buckets of `bucketing`: they try it on their own
    draws, the same for all factors. Nor do they know what it remembers: `centered_clipping` is tried from its start.

    Args:
      respond: the server's defence, as in `optimal_foe`.
      line: the line to search on.
      evals: how many times the defence is evaluated on the way up.
      start: first factor, >= 0.
      step: first step, > 0.
      ratio: in (0, 1).
      down: how many factors between the start and the best one are tried afterwards, each `ratio` times as far from the
        start as the one before; 20 reach 1% of the way. 0: none, as in ByzFL.
      draws: draws of a rule on which each factor is tried; their mean distance counts.

    Raises:
      ValueError: an argument is out of range, or `draws` is above 1 where `respond` is no rule.

    Examples:
      >>> updates = jnp.array([[1.0], [3.0], [5.0], [0.0]])
      >>> honest = jnp.array([True, True, True, False])
      >>> line = lambda updates, honest: (jnp.zeros((1, 1)), jnp.ones((1, 1)))
      >>> attack = furthest(lambda rows: rows.mean(0), line, evals=3)
      >>> print(jax.jit(attack)(jax.random.key(0), updates, honest, ~honest))
      [[30.]]
    """
    _validate.function(1, "aggregators.coordinate_median()", respond=respond)
    _validate.function(2, "updates and honest to (base, slope)", line=line)
    _validate.integer(evals=evals)
    _validate.non_negative(start=start)
    _validate.positive(step=step)
    _validate.fraction(below_one=True, above_zero=True, ratio=ratio)
    _validate.integer(at_least=0, down=down)
    _validate.integer(draws=draws)
    if draws > 1 and not isinstance(respond, Aggregator):
        raise ValueError(f"draws must be 1 where respond is a function, which may return those of k draws, got {draws}")

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "1 d"]:
        base, slope = line(updates, honest)
        rows, ends, tried = _tried(respond, updates, honest, base, slope)
        present = rows_where(honest | byzantine, rows, jnp.full((), jnp.nan, rows.dtype))
        own = named(key, "respond")

        def distance(factor: Array) -> Array:
            attacked = rows_where(byzantine, ends[0] + factor * ends[1], present)
            if draws == 1:
                return tried(own, attacked)
            return jax.lax.map(lambda key: tried(key, attacked), jax.random.split(own, draws)).mean()

        def search(state: tuple, number: Int[Array, ""]) -> tuple[tuple, None]:
            """The start and the way down are tried here, too, so that the defence is compiled once."""
            best, largest, step, ahead, top = state
            first, top = number == 0, jnp.where(number <= evals, best, top)
            below = start + (top - start) * jnp.power(ratio, (number - evals + 1).astype(top.dtype))
            factor = jnp.where(first, best, jnp.where(number < evals, best + step, below))
            reached = distance(factor)
            reached = jnp.where(jnp.isnan(reached), NO_HARM, reached)
            better = first | (reached > largest)
            best, largest = jnp.where(better, factor, best), jnp.where(better, reached, largest)
            ahead = ahead & better
            return (best, largest, jnp.where(first, step, step * jnp.where(ahead, 2.0, ratio)), ahead, top), None

        state = *(jnp.asarray(number, updates.dtype) for number in (start, 0.0, step)), jnp.bool_(True)
        (best, *_), _ = jax.lax.scan(search, (*state, state[0]), jnp.arange(evals + down))
        return base + best * slope

    return attack


class _Tried(NamedTuple):
    """A defence as the search tries it, on rows that may be written in few coordinates."""

    rows: Float[Array, "n k"]
    ends: tuple[Float[Array, "1 k"], Float[Array, "1 k"]]  # of the line: base and slope
    distance: Callable[[Key, Array], Array]  # (key, rows [n, k]) -> of the direction from the honest mean


def _tried(respond: Respond, updates: Array, honest: Array, base: Array, slope: Array) -> _Tried:
    answer = respond if isinstance(respond, Aggregator) else lambda rows, key: respond(rows)
    mean = honest_mean(updates, honest)
    if isinstance(respond, Aggregator) and updates.shape[1] > len(updates) + 2:
        spanning = jnp.concatenate([rows_where(honest, updates, jnp.zeros((), updates.dtype)), base, slope])
        if respond.equivariant:
            few = coordinates(spanning)
            updates, base, slope = few[:-2], few[-2:-1], few[-1:]
            mean = honest_mean(updates, honest)
        elif respond.in_two:
            few, basis = in_basis(spanning)
            updates, base, slope = few[:-2], few[-2:-1], few[-1:]
            answer = functools.partial(_in_two, respond, respond.in_two, basis)
    return _Tried(updates, (base, slope), lambda key, rows: norms(jnp.atleast_2d(answer(rows, key=key)) - mean).mean())


def _in_two(
    rule: Aggregator, parts: InTwo, basis: Float[Array, "k d"], rows: Float[Array, "n k"], key: Key
) -> Float[Array, " d"]:
    """The direction of a rule behind steps that are taken on coordinates in a basis."""
    there = finite_rows(rows)
    few, ok = parts.turning(key, rows, there)
    moved = jnp.matmul(few, basis, precision=jax.lax.Precision.HIGHEST)
    return parts.rest(key, rule.init(basis.shape[1]), moved, ok, there)[0]
