"""What is read under each lie, with its defence and without."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from experiments.lying_server.lists import Secure, read, same_list
from experiments.lying_server.setting import HIDDEN, HONEST, LEVELS, LIED, SHOWN, Config, federated, network
from fedjax_priv import clients
from fedjax_priv.attacks import gradient_suppression, split_lists
from fedjax_priv.base import Key, LyingServer, Models, RoundState
from fedjax_priv.keys import named
from fedjax_priv.systems import secagg
from fedjax_priv.testing import cohort_of


def _system(config: Config, bind: bool, lies: LyingServer) -> tuple:
    model, loss = network(config)
    local = clients.local_sgd(
        loss, learning_rate=config.learning_rate, batch_size=config.batch_size, num_steps=config.num_steps
    )
    train = federated(config.task, config.num_clients, config.seed)
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
