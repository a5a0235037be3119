"""The laws of a system, as a check: a plain loop over `jax.jit(algorithm.step)` from what `init` returns."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv.base import Algorithm, ClientData, Cohort, Key, RoundInfo, RoundState
from fedjax_priv.status import Status, describe
from fedjax_priv.testing.laws import law, require, traced_once

COMPARED = 3
"""Rounds that are looked at, and compared with those in other blocks and on other devices."""
_OF_UPLOADS = Status.NOT_RECOVERED | Status.CAP_OVERFLOW
"""Why a round of sound data may fail: by chance, too few uploads arrive, or more than there is room for."""


def check_system(
    algorithm: Algorithm,
    key: Key,
    params: PyTree,
    data: ClientData,
    *,
    rounds: int = 3,
    elsewhere: Sequence[Algorithm] = (),
    variant: Callable = jax.jit,
    bounded: bool = False,
) -> tuple[RoundState, list[RoundInfo]]:
    """Laws 3, 4, 6, 8, 11, 13, 15 and 16, in rounds from the state that `init` returns.

    Args:
      algorithm: of any origin, with client data whose floats, if NaN, fail the round, unless it is `bounded`.
      key: of the run.
      params: the first parameters.
      data: float samples of every client.
      rounds: how many are run before one is made to fail. They may fail for the uploads that arrived, too few or too
        many of them (`NOT_RECOVERED`, `CAP_OVERFLOW`), but of the first three one must succeed.
      elsewhere: the same system in other blocks or on other devices, which runs the first three rounds. Give them with
        local training whose bits do not depend on the block.
      variant: how a step is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.
      bounded: no data of clients may fail a round, as under differential privacy of clients.

    Returns:
      The state after these rounds, and what they tell.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
    """
    run, data = variant(traced_once(algorithm.step)), jax.tree.map(jnp.asarray, data)
    start = algorithm.init(key, params, data)
    draw = jax.jit(algorithm.draw) if algorithm.draw else None

    def look(before: RoundState, after: RoundState, info: RoundInfo) -> None:
        found = jax.device_get((after, info))
        _check_step(start, before, *found)
        if draw:
            cohort, then = jax.device_get(draw(key, before.draw, before.round, data.count))
            _check_drawn((cohort, then), *found)
            _check_unselected(run, key, before, data, cohort, found)

    loop = functools.partial(_loop, key=key, data=data, kept_anyway=("aggregate",) if bounded else ())
    first = loop(run, start, rounds=min(rounds, COMPARED), look=look)
    require(8, any(info.status == 0 for info in first[1]), f"of the first {COMPARED} rounds one must succeed")
    state, infos = loop(run, first[0], rounds=rounds - len(first[1]))
    (_check_bounded if bounded else _check_transaction)(run, key, state, data)
    _check_compiled_once(run)
    for other in elsewhere:
        step = jax.jit(other.step)
        same = loop(step, other.init(key, params, data), rounds=len(first[1]))
        with law(11, "blocks and devices must change no bit"):
            chex.assert_trees_all_equal(*jax.device_get((first, same)))
        _check_compiled_once(step)
    return state, [*first[1], *infos]


def _loop(
    run: Callable,
    state: RoundState,
    *,
    key: Key,
    data: ClientData,
    rounds: int,
    kept_anyway: tuple[str, ...],
    look: Callable | None = None,
) -> tuple[RoundState, list[RoundInfo]]:
    infos = []
    for _ in range(rounds):
        with law(4, "a step must be traced once for all rounds"):
            after, info = run(key, state, data)
        with law(3, "the state must keep its structure, shapes and dtypes"):
            chex.assert_trees_all_equal_shapes_and_dtypes(after, state)
        _check_info(after, info)
        require(8, after.round == state.round + 1, "`round` must count every round, failed ones included")
        if status := int(info.status):
            why = f"a round of sound data must not fail but for the uploads that arrive, got: {describe(status)}"
            require(8, not status & ~_OF_UPLOADS, why)
            _check_failed(state, after, info, kept_anyway)
        if look:
            look(state, after, info)
        state, infos = after, [*infos, info]
    return state, infos


def _check_info(state: RoundState, info: RoundInfo) -> None:
    size = sum(jnp.size(p) for p in jax.tree.leaves(state.params))
    numbers = not any(jnp.isnan(a).any() for a in _floats(state.draw))
    require(15, numbers, "the state of the draw must not be NaN; it may be infinite, as the hour of what never happens")
    with law(15, "the state must be finite, and `RoundInfo` as `base` says"):
        chex.assert_tree_all_finite(_floats(state._replace(draw=())))
        chex.assert_tree_all_finite(() if info.status else (info.direction, info.loss))
        chex.assert_shape(info.direction, (size,))
        chex.assert_equal_shape([info.client, info.loss, info.trains, info.counted])
        chex.assert_type(
            [info.trains, info.counted, info.status, info.group_status], [bool, bool, jnp.int32, jnp.int32]
        )
        chex.assert_rank([info.client, info.status, info.group_status], [1, 0, 1])
        for link in info.bits.values():
            chex.assert_equal_shape([info.client, *link])
            chex.assert_type([*link], jnp.uint32)


def _check_step(start: RoundState, before: RoundState, after: RoundState, info: RoundInfo) -> None:
    """A server's optimizer may go on without a direction, but not begin without one."""
    first, old, new = (
        np.concatenate([np.ravel(p) for p in jax.tree.leaves(state.params)]) for state in (start, before, after)
    )
    begins = np.array_equal(first, old) and not np.array_equal(old, new)
    require(15, not begins or info.direction.any(), "`direction` must be what moves the parameters, got 0")


def _check_drawn(drawn: tuple[Cohort, PyTree], after: RoundState, info: RoundInfo) -> None:
    """A round is of the clients that `draw` names, and the others send nothing and are sent nothing."""
    cohort, then = drawn
    with law(15, "`client`, and the next state of the draw, must be what `draw` says"):
        chex.assert_trees_all_equal((info.client, after.draw), (cohort.client, then))
    idle = ~cohort.selected
    once = np.unique(cohort.client[cohort.selected]).size == cohort.selected.sum()
    require(15, once, "a client must be selected once in a round: twice, it counts twice and adds one noise twice")
    require(15, not info.trains[idle].any(), "`trains` must be False of a client that is not selected")
    require(15, not info.loss[~info.trains].any(), "`loss` must be 0 of a client that does not train")
    require(16, not info.counted[idle].any(), "only uploads of selected clients may be accepted")
    left_out = info.group_status[cohort.group[info.counted]]
    require(8, not left_out.any(), "no upload of a group that is left out, as `group_status` says, may be accepted")
    nothing = np.zeros(idle.shape, np.uint64)
    up, down = (sum((np.asarray(link[way], np.uint64) for link in info.bits.values()), nothing) for way in (0, 1))
    require(16, not (up + down)[idle].any(), "a client that is not selected must send and be sent no bits")
    require(6, np.all(down[cohort.selected] > 0), "each selected client must be sent something: the model at least")
    arrived = info.bits["upload"].up > 0 if "upload" in info.bits else idle
    require(6, not arrived.any() or arrived[info.counted].all(), "an upload that is accepted must have bits")


def _check_unselected(
    run: Callable, key: Key, before: RoundState, data: ClientData, cohort: Cohort, found: tuple[RoundState, RoundInfo]
) -> None:
    """The samples of whoever is not selected are something else, and nothing changes."""
    idle = np.ones(np.size(data.count), bool)
    idle[cohort.client[cohort.selected]] = False
    for held in (np.nan, 1e30) if idle.any() else ():
        spoilt = jax.device_get(run(key, before, _ruined(data, held, idle)))
        with law(16, "what a client that is not selected holds must reach nobody"):
            chex.assert_trees_all_equal(spoilt, found)


def _check_failed(before: RoundState, after: RoundState, info: RoundInfo, kept_anyway: tuple[str, ...] = ()) -> None:
    """`kept_anyway` is what the server keeps of a round that fails, in addition to what any system keeps."""
    require(8, not np.asarray(info.counted).any(), "a round that failed must accept no upload")
    moved = {name: getattr(after, name) for name in ("draw", "versions", "trained", *kept_anyway)}
    kept = before._replace(round=before.round + 1, **moved)
    with law(8, "a round that failed must change nothing but `round` and `draw`"):
        chex.assert_trees_all_equal(*jax.device_get((after, kept)))


def _check_transaction(run: Callable, key: Key, before: RoundState, data: ClientData) -> None:
    """A NaN of every client fails the round."""
    after, info = run(key, before, _ruined(data, np.nan))
    require(8, int(info.status) & Status.NOT_FINITE, "a round of NaN must set the bit NOT_FINITE")
    _check_failed(before, after, info)


def _check_bounded(run: Callable, key: Key, before: RoundState, data: ClientData) -> None:
    """A NaN of every client counts as nothing."""
    after, info = run(key, before, _ruined(data, np.nan))
    require(8, int(info.status) == 0, "a round of NaN must not fail where updates are bounded")
    with law(15, "a round of NaN must leave a finite state where updates are bounded"):
        chex.assert_tree_all_finite((after.params, after.memory, info.direction))


def _check_compiled_once(run: Any) -> None:
    """Only a jitted function counts its programs."""
    if count := getattr(run, "_cache_size", None):
        require(13, count() == 1, f"`init` must return a state as rounds return it: {count()} programs were compiled")


def _floats(tree: PyTree) -> list[Any]:
    return [a for a in jax.tree.leaves(tree) if jnp.issubdtype(a.dtype, jnp.floating)]


def _ruined(data: ClientData, held: float, whose: np.ndarray | slice = slice(None)) -> ClientData:
    """Of these clients, every float is `held`."""
    ruin = lambda a: a.at[whose].set(held) if jnp.issubdtype(a.dtype, jnp.floating) else a
    return data._replace(examples=jax.tree.map(ruin, data.examples))
