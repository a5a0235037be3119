"""Runs the same rounds on two adjacent inputs, many times, and scores what an adversary sees of each run."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.audit.bounds.guessing import check_trials
from fedjax_priv.base import Algorithm, ClientData, Cohort, Key, Local, RoundInfo, RoundState, View
from fedjax_priv.engine.batches import in_batches
from fedjax_priv.engine.client_rows import rows_of
from fedjax_priv.engine.versions import by_version, given, has_ring
from fedjax_priv.keys import named


class Seen(NamedTuple):
    """What a round shows: to everybody both models, to the server its view, to each client its own update."""

    before: PyTree  # parameters
    after: PyTree
    info: RoundInfo  # `observed` is the server's `View`
    updates: Float[Array, "k d"]  # of the cohort; a score may use those that its adversary knows
    who: Cohort
    variant: Int[Array, ""]  # of the canary; everybody knows it


Score = Callable[[Seen], PyTree]
"""Scores a round: a number, or `[s]` numbers of which an audit chooses one. Scores of a run's rounds are added up.

A tuple has the scores of several looks.
"""
Make = Callable[[Local, Callable[[View], PyTree] | None], Algorithm]
"""`make(local, observe)` makes the system; `observe` None: nothing is observed."""


class Canary(NamedTuple):
    """Two adjacent inputs of a system."""

    inputs: tuple[PyTree, PyTree]  # both of the same structure
    local: Callable[[PyTree], Local]  # input -> local training
    data: Callable[[PyTree], ClientData]  # input -> data of all clients
    toward: Callable[[PyTree], Array]  # parameters -> unit vector, [d] or [v, d]: where the first input pulls uploads
    variants: int | None = None  # v: inputs have a leading axis of variants; trials take them in turn. None: no axis
    silenced: Callable[[Local, ArrayLike], Local] | None = None  # (local, whether): client 0 is silent after round 0
    whole: "Canary | None" = None  # the canary of which this one acts in the first round only


class Look(NamedTuple):
    """One thing that an adversary may try: a canary, and a score of the runs with it."""

    name: str
    canary: Canary  # looks with the same canary share their runs
    score: Score
    finish: Callable[[np.ndarray], np.ndarray] = lambda found: found  # maps the scores [trials, s] of whole runs
    reads_updates: bool = True  # whether the score depends on updates, so that it can show missing noise
    one_direction: bool = False  # the canary is a pair of given updates along one direction
    first_round: bool = False  # the two inputs differ in the first round only


def marked(found: np.ndarray, finish: Callable[[np.ndarray], np.ndarray] = lambda found: found) -> np.ndarray:
    """The scores of the trials whose last score, the mark, is above 0, without the mark.

    The mark must depend on no data that the inputs differ in.
    """
    return finish(found[found[:, -1] > 0, :-1])


class Worlds(NamedTuple):
    """Scores of the runs on the two inputs, `[trials]` or `[trials, s]` each."""

    first: PyTree
    second: PyTree


def scores(
    make: Make,
    canary: Canary,
    score: Score,
    key: Key,
    *,
    params: PyTree,
    trials: int,
    rounds: int = 1,
    at_once: int = 100,
) -> Worlds:
    """Runs the first `rounds` rounds `trials` times on each input, and scores each trial.

    Args:
      make: makes the system from a local training. Every trial has fresh randomness.
      canary: the two inputs.
      score: scores what an adversary sees of a round.
      key: root key of all trials.
      params: of the first model, the same in every trial.
      trials: on each input, at least 4.
      rounds: of a trial.
      at_once: trials computed side by side.

    Raises:
      ValueError: an argument outside its range.
    """
    check_trials(trials)
    _validate.integer(at_once=at_once, rounds=rounds)
    (found,) = scores_of_family(
        make, [canary], score, [key], params=params, trials=trials, rounds=rounds, at_once=at_once
    )
    return found


def scores_of_family(
    make: Make,
    family: Sequence[Canary],
    score: Score,
    keys: Sequence[Key],
    *,
    params: PyTree,
    trials: int,
    rounds: int,
    at_once: int,
) -> Iterator[Worlds]:
    """As `scores`, for canaries that differ in their inputs only, each with its key: one program runs all of them.

    The trials of a canary are run when its scores are asked for.
    """
    one = watched(make, family[0].local, family[0].data, score, params, rounds)
    both = _in_both(one, family[0].variants, trials, at_once)
    for key, each in zip(keys, family, strict=True):
        yield both(key, each)


def scores_of_draws(
    make: Make,
    canary: Canary,
    score: Callable[[Cohort], Array],
    key: Key,
    *,
    params: PyTree,
    trials: int,
    rounds: int,
    at_once: int,
) -> Worlds:
    """Scores, summed over rounds, of the cohorts of the trials of `scores_of_family`: nobody trains.

    Raises:
      ValueError: the algorithm has no `draw`.
    """

    def one(key: Key, given: PyTree, variant: ArrayLike) -> Array:
        del variant
        samples = canary.data(given)
        system = make(canary.local(given), None)
        if (draw := system.draw) is None:
            raise ValueError("make must return an algorithm that has a draw, as those of systems do, got one without")

        def drawn(state: PyTree, round: Array) -> tuple[PyTree, Array]:
            who, state = draw(key, state, round, samples.count)
            return state, score(who)

        first = system.init(key, params, samples).draw
        return jax.lax.scan(drawn, first, jnp.arange(rounds))[1].sum(0)

    return _in_both(one, canary.variants, trials, at_once)(key, canary)


def _in_both(
    one: Callable[..., PyTree], variants: int | None, trials: int, at_once: int
) -> Callable[[Key, Canary], Worlds]:
    """`(key, canary) -> scores` of so many trials `one(key, input, variant)` on each input of a canary."""

    @jax.jit
    def world(key: Key, given: PyTree) -> PyTree:
        def trial(row: tuple[Key, Array]) -> PyTree:
            key, variant = row
            own = given if variants is None else jax.tree.map(lambda rows: rows[variant], given)
            return one(key, own, variant)

        variant = jnp.arange(trials) // 2 % (variants or 1)  # half of the trials choose a test: every other one
        return in_batches(trial, (jax.random.split(key, trials), variant), at_once)

    def both(key: Key, canary: Canary) -> Worlds:
        pairs = zip(jax.random.split(key), canary.inputs, strict=True)
        return Worlds(*(jax.tree.map(np.asarray, world(*pair)) for pair in pairs))

    return both


def watched(
    make: Make,
    local: Callable[[PyTree], Local],
    data: Callable[[PyTree], ClientData],
    score: Score,
    params: PyTree,
    rounds: int,
) -> Callable[..., PyTree]:
    """`(key, input, variant) -> score`, summed over `rounds` rounds."""

    def run(key: Key, given: PyTree, variant: ArrayLike = 0) -> PyTree:
        training, samples = local(given), data(given)
        system = make(training, lambda view: view)

        def step(state: RoundState, _: None) -> tuple[RoundState, PyTree]:
            after, info = system.step(key, state, samples)
            updates, who = _updates(system, training, key, state, samples)
            return after, score(Seen(state.params, after.params, info, updates, who, jnp.asarray(variant)))

        found = jax.lax.scan(step, system.init(key, params, samples), length=rounds)[1]
        return jax.tree.map(lambda scores: scores.sum(0), found)

    return run


def _updates(system: Algorithm, local: Local, key: Key, state: RoundState, data: ClientData) -> tuple[Array, Cohort]:
    """Computes the updates of a round's clients a second time, and says who takes part."""
    assert system.draw is not None
    who, _ = system.draw(key, state.draw, state.round, data.count)
    memory, mine = rows_of(who, (state.memory, data))
    key = named(jax.random.fold_in(key, state.round), "local")
    training = by_version(local) if has_ring(state) else local
    return training.apply(key, memory, given(state), mine, who)[0], who
