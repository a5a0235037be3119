"""The same round on two neighbouring inputs, many times, and what an adversary makes of its view."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData, Cohort, Key, Local, View


class Worlds(NamedTuple):
    """Scores of the two inputs, `[trials]` each."""

    first: np.ndarray
    second: np.ndarray


def sending(updates: Float[Array, "n d"]) -> Local:
    """Clients whose updates are given: canaries, and everybody else."""

    def apply(key: Key, memory: tuple, params: Array, data: ClientData, cohort: Cohort) -> tuple[Array, tuple, Array]:
        del key, params
        return updates[cohort.client], memory, jnp.zeros(data.count.size)

    return Local(lambda n, params: (), apply)


def direction_canary(key: Key, num_clients: int, num_params: int, norm: float) -> tuple[Array, Array]:
    """Updates `[n, d]` of two inputs that differ in client 0: plus or minus `norm` times a random direction.

    All others send minus it, the worst case under a sum (a random-direction canary as Andrew et al. 2023, placed
    against its neighbours).

    Raises:
      ValueError: a size below 1, or a norm that is not above 0.
    """
    _validate.integer(num_clients=num_clients, num_params=num_params)
    _validate.positive(norm=norm)
    u = jax.random.normal(key, (num_params,))
    others = jnp.broadcast_to(-norm * u / jnp.linalg.norm(u), (num_clients, num_params))
    return others.at[0].multiply(-1), others


def scores(
    make: Callable[..., Algorithm],
    updates: tuple[Array, Array],
    score: Callable[[View], Array],
    key: Key,
    *,
    trials: int,
    at_once: int = 100,
) -> Worlds:
    """Runs the first round `trials` times on each input.

    Args:
      make: `make(local, observe)` is the system; its draws are new in every trial.
      updates: of two neighbouring inputs, `[n, d]` each.
      score: from what the server sees to a number, higher for the first input.
      key: root key of all trials.
      trials: of each input, at least 4.
      at_once: rounds computed side by side.

    Raises:
      ValueError: an argument outside its range, or updates of two shapes.
    """
    _validate.integer(at_least=4, trials=trials)
    _validate.integer(at_once=at_once)
    if updates[0].shape != updates[1].shape or updates[0].ndim != 2:
        raise ValueError(f"updates must be two tables of one shape, got {updates[0].shape} and {updates[1].shape}")
    n, d = updates[0].shape
    data = ClientData((jnp.zeros((n, 1)),), jnp.ones(n, jnp.int32))

    def one(key: Key, updates: Array) -> Array:
        algorithm = make(sending(updates), score)
        _, info = algorithm.step(key, algorithm.init(key, jnp.zeros(d), data), data)
        return info.observed

    @jax.jit
    def world(key: Key, updates: Array) -> Array:
        return jax.lax.map(lambda key: one(key, updates), jax.random.split(key, trials), batch_size=at_once)

    keys = jax.random.split(key)
    return Worlds(*(np.asarray(world(key, own)) for key, own in zip(keys, updates, strict=True)))
