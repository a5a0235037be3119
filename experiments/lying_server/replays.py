"""A round that the server repeats without one client; and what it costs that clients train no model twice."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from experiments.lying_server.lists import Secure, left_together, read, same_list
from experiments.lying_server.setting import (
    COHORT,
    ENOUGH,
    HONEST,
    LEAVE,
    LEVELS,
    LIED,
    SHOWN,
    Config,
    federated,
    network,
)
from experiments.problem import Task, model_of
from fedjax_priv import clients, losses
from fedjax_priv.attacks import replay
from fedjax_priv.base import Cohort, Key, LyingServer, Models, RoundState
from fedjax_priv.leakage import secagg_protocol
from fedjax_priv.systems import secagg
from fedjax_priv.testing import cohort_of
from fedjax_priv.theory.lying_server import expected_successes

EXACT, NUDGED = 1, 2
"""Rounds in which the server repeats round 0: with its model, or with one number changed by the least step."""


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


def refused(config: Config) -> xr.Dataset:
    """The same of clients that train no model twice: whom the server reads, and the distance from the target's update.

    Training is deterministic, one step on all samples. Distances are Euclidean, relative to the update.
    """
    model, loss = network(config)
    params, local = model.init(jax.random.key(config.seed)), clients.fedsgd(loss)
    n, key, train = (
        config.num_clients,
        jax.random.key(config.seed),
        federated(config.task, config.num_clients, config.seed),
    )
    system = secagg(
        clients.once_per_model(local), num_clients=n, threshold=config.threshold, levels=LEVELS, consistency=True,
        mesh=None, lying_server=_repeats(config, params), observe=lambda view: view,
    )  # fmt: skip
    step, state = jax.jit(system.step), system.init(key, params, train)
    after, first = step(key, state, train)
    protocol, d = secagg_protocol(group_size=n, threshold=config.threshold), ravel_pytree(params)[0].size
    count = np.asarray(train.count, float)
    rows = jax.jit(local.apply)(key, local.init(n, params), params, train, cohort_of(n))[0]
    alone = np.asarray(rows, float)[config.target] * count[config.target] / count.sum()
    _, whole = left_together(first.observed, protocol, d)
    found: dict[str, float] = {}
    for name, round in (("refused", EXACT), ("nudged", NUDGED)):
        info = step(key, after._replace(round=jnp.int32(round)), train)[1]
        who, total = left_together(info.observed, protocol, d)
        found[f"{name}_size"] = len(who)
        found[f"{name}_error"] = float(np.linalg.norm((whole - total) / LEVELS - alone) / np.linalg.norm(alone))
    return xr.Dataset(found)


def _repeats(config: Config, params: dict) -> LyingServer:
    """As `attacks.replay`, with a nudge or exactly, by the round."""
    lies = replay(params, config.target, config.num_clients, nudge=True)
    hand_out, tell = lies.models, lies.lists
    assert hand_out is not None
    assert tell is not None

    def models(key: Key, state: RoundState) -> Models:
        row = jnp.full(config.num_clients, (state.round == NUDGED).astype(jnp.int32))
        return hand_out(key, state)._replace(row=row)

    def lists(alive: Array, cohort: Cohort) -> Array:
        return tell(alive, cohort._replace(round=jnp.minimum(cohort.round, 1)))

    return LyingServer(models=models, lists=lists)


def price(config: Config) -> xr.Dataset:
    """Rounds that succeed, by size of the population; of clients that train no model twice, and of others.

    Each run draws cohorts and losses of its own. What is trained does not matter: softmax regression, one step.
    """
    sizes, both = [*config.populations], [False, True]
    measured = [[_successes(config, size, refuse) for refuse in both] for size in sizes]
    expected = [
        [
            expected_successes(size, COHORT, ENOUGH, config.attempts, loss=LEAVE, refuse=refuse)
            for refuse in both
        ]
        for size in sizes
    ]  # fmt: skip
    return xr.Dataset(
        {
            "successes": (("population", "refuse", "run"), np.array(measured)),
            "expected_successes": (("population", "refuse"), np.array(expected)),
        },
        {"population": sizes, "refuse": both},
    )


def _successes(config: Config, population: int, refuse: bool) -> np.ndarray:
    task = Task(config.task.dataset, "softmax")
    model, train = model_of(task), federated(task, population, config.seed)
    local = clients.fedsgd(losses.softmax_cross_entropy(model))
    system = secagg(
        clients.once_per_model(local) if refuse else local, num_clients=population, cohort_size=COHORT,
        threshold=ENOUGH, leave=LEAVE, elide=True, mesh=None,
    )  # fmt: skip

    def one(key: Key) -> Array:
        state = system.init(key, model.init(key), train)
        rounds = jax.lax.scan(lambda state, _: system.step(key, state, train), state, length=config.attempts)[1]
        return (rounds.status == 0).sum()

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(config.seed), config.runs)))
