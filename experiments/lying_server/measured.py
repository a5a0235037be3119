"""What is read under each lie, with its defence and without."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from experiments.lying_server.lists import Secure, read, same_list
from experiments.problem import Task, load, model_of
from fedjax_priv import clients, data, losses
from fedjax_priv.attacks import gradient_suppression, split_lists
from fedjax_priv.base import Key, LyingServer, Models, RoundState
from fedjax_priv.keys import named
from fedjax_priv.systems import secagg
from fedjax_priv.testing import cohort_of

HIDDEN, LEVELS = "Dense_0", 2.0**20
SHOWN = 50
"""Coordinates that lists of survivors are tried on."""
LIED, HONEST = 0, 1
"""Rounds in which the server hands out dead models, or the model."""


class Config(NamedTuple):
    """The picture at one scale."""

    task: Task = Task("digits", "mlp64")
    num_clients: int = 30
    threshold: int = 21
    colluding: tuple[int, ...] = (0, 2, 4, 6, 8, 10)
    target: int = 1
    learning_rate: float = 0.1
    batch_size: int = 20
    num_steps: int = 3
    seed: int = 0


def _system(config: Config, bind: bool, lies: LyingServer) -> tuple:
    whole, model = load(config.task), model_of(config.task)
    loss = losses.softmax_cross_entropy(model)
    local = clients.local_sgd(
        loss, learning_rate=config.learning_rate, batch_size=config.batch_size, num_steps=config.num_steps
    )
    train = jax.tree.map(jnp.asarray, data.federate(whole, config.num_clients, "iid", seed=config.seed))
    system = secagg(
        local, num_clients=config.num_clients, threshold=config.threshold, levels=LEVELS, bind_model=bind, mesh=None,
        lying_server=lies,
    )  # fmt: skip
    return system, local, train, model.init(jax.random.key(config.seed))


def trained(config: Config) -> np.ndarray:
    """What each client adds to the sum if it is given the model, by round `[2, n, d]`, trained alone."""
    _, local, train, params = _system(config, False, LyingServer())
    memory, key = local.init(config.num_clients, params), jax.random.key(config.seed)

    def one(round: Array) -> Array:
        stage = named(jax.random.fold_in(key, round), "local")
        return local.apply(stage, memory, params, train, cohort_of(config.num_clients))[0]

    rows = np.stack([jax.jit(one)(jnp.int32(round)) for round in (LIED, HONEST)]).astype(float)
    count = np.asarray(train.count, float)
    return rows * (count / count.sum())[:, None]


def lists_read(config: Config, updates: np.ndarray) -> xr.Dataset:
    """By number of colluders: honest clients in the smallest sum that the server reads, 0 if none."""
    n, t, target = config.num_clients, config.threshold, config.target
    grid = np.round(updates[HONEST, :, :SHOWN] * LEVELS)
    rows: list[xr.Dataset] = []
    for number in config.colluding:
        colluding = range(n - number, n)
        lies = split_lists(n, t, target=target, colluding=colluding)
        members = np.isin(np.arange(n), [*range(t - number), *colluding])
        found = {
            "truth": read(Secure(n, t), grid, None, colluding),
            "unchecked": read(Secure(n, t), grid, lies, colluding),
            "checked": read(Secure(n, t, consistency=True), grid, lies, colluding),
            "one_list": read(Secure(n, t, consistency=True), grid, same_list(members), colluding),
        }
        rows.append(xr.Dataset({
            **{name: len(one.clients) for name, one in found.items()},
            "opened": found["checked"].opened,
            "wrong_sums": sum((one.total != grid[one.clients].sum(0)).sum() for one in found.values()),
        }))  # fmt: skip
    return xr.concat(rows, "colluding").assign_coords(colluding=[*config.colluding])


def models_read(config: Config, updates: np.ndarray) -> xr.Dataset:
    """Distance of the sum from the target's update, the output's bias left out, with the defence and without."""
    target, read_of, sums = config.target, [], []
    for bind in (False, True):
        system, _, train, params = _system(config, bind, LyingServer(models=functools.partial(_models, config)))
        step, state = jax.jit(system.step), system.init(jax.random.key(config.seed), params, train)
        is_last = lambda path, a: jnp.full_like(a, path[0].key != HIDDEN and a.ndim == 1)
        rest = np.asarray(ravel_pytree(jax.tree.map_with_path(is_last, params))[0]) == 0
        distance = []
        for round in (LIED, HONEST):
            info = step(jax.random.key(config.seed), state._replace(round=jnp.int32(round)), train)[1]
            alone = updates[round, target]
            error = (np.asarray(info.direction, float) - alone)[rest]
            distance.append(np.linalg.norm(error) / np.linalg.norm(alone[rest]))
        sums.append(np.asarray(info.direction))
        read_of.append(distance)
    lied, honest = np.array(read_of).T
    return xr.Dataset(
        {"lied": ("bound", lied), "honest": ("bound", honest), "same_honest_sum": bool((sums[0] == sums[1]).all())},
        {"bound": [False, True]},
    )


def _models(config: Config, key: Key, state: RoundState) -> Models:
    """Dead models for all but the target; the model for all in the round `HONEST`."""
    hand_out = gradient_suppression(config.target, config.num_clients, HIDDEN).models
    assert hand_out is not None
    lied = hand_out(key, state)
    return lied._replace(row=jnp.where(state.round == LIED, lied.row, 1))


def replays(config: Config, updates: np.ndarray) -> xr.Dataset:
    """How far the difference of two attempts of a round is from the update of the client left out, in grid points."""
    n, draws = config.num_clients, np.random.default_rng(config.seed)
    secure, lost = Secure(n, config.threshold, consistency=True), same_list(np.arange(n) != config.target)

    def attempt(round: int, number: int, lies: LyingServer | None) -> np.ndarray:
        scaled = LEVELS * updates[round, :, :SHOWN]
        grid = np.floor(scaled + draws.random(scaled.shape))
        return read(secure, grid, lies, range(0), number).total

    whole, alone = attempt(HONEST, 1, None), LEVELS * updates[HONEST, config.target, :SHOWN]
    again, moved = attempt(HONEST, 2, lost), attempt(LIED, 3, lost)
    return xr.Dataset({
        "replay_error": np.abs(whole - again - alone).max(), "replay_size": np.abs(alone).max(),
        "replay_moved": np.abs(whole - moved - alone).max(),
    })  # fmt: skip
