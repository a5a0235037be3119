"""Runs of the atlas: one compiled program for each transport, noise and compression, over all else that may vary."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from experiments.atlas.stacks import (
    BYZANTINE,
    CLIENTS,
    COMPRESSIONS,
    NOISES,
    TRANSPORTS,
    Cell,
    compress_of,
    rules,
    stack_of,
)
from experiments.problem import Task, load, model_of
from experiments.resuming import next_run
from fedjax_priv import aggregators, attacks, data, losses, metrics, systems
from fedjax_priv.base import Algorithm, ClientData, Local, Model
from fedjax_priv.clients import local_sgd
from fedjax_priv.models import num_params
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems.composition import why_not

HONEST, FLIPPED, SEARCHED = "none", "label flip", "searched"
ATTACKS: Mapping[str, attacks.Attack] = MappingProxyType({
    HONEST: lambda key, updates, honest, byzantine: updates,
    "ALIE": attacks.alie(1.5, ddof=1, sign=1),
    "IPM": attacks.foe(12.0),  # above (n - f) / f = 9.7, so that it turns the mean of all round
    "Min-Max": attacks.min_max(),
    FLIPPED: lambda key, updates, honest, byzantine: updates,  # trained on flipped labels
})  # fmt: skip
ROWS = "group_attack"
"""The argument of `systems.compose` by which attackers choose the rows that a rule compares."""


class Config(NamedTuple):
    """What is run of the grid; 32 clients of which 3 are Byzantine."""

    task: Task = Task("digits")
    transports: tuple[str, ...] = tuple(TRANSPORTS)
    noises: tuple[str, ...] = tuple(NOISES)
    compressions: tuple[str, ...] = tuple(COMPRESSIONS)
    rules: tuple[str, ...] = tuple(rules())
    attacks: tuple[str, ...] = (*ATTACKS, SEARCHED)
    dropouts: tuple[float, ...] = (0.0, 0.1, 0.3)
    rounds: int = 40
    local_steps: int = 2
    batch_size: int = 20
    learning_rate: float = 0.5
    ratio: float = 0.2  # of the coordinates that are sent
    clip: float = 1.0
    deviation: float = 0.5  # of each client's noise, over `clip`
    levels: float = 2.0**12
    delta: float = 1e-5
    repeats: int = 3
    trials: int = 2000  # of an audit, on each of two inputs
    elide: bool = True  # masks are not expanded: the same sums, thresholds and bytes, at less cost
    seed: int = 0


class Program(NamedTuple):
    """Cells that share a compiled program."""

    transport: str
    noise: str
    compression: str
    rules: tuple[str, ...]

    def cell(self, rule: str, dropout: float) -> Cell:
        """One of them."""
        return Cell(self.transport, rule, self.noise, self.compression, dropout)


class Problem(NamedTuple):
    """What all programs share."""

    model: Model
    clients: ClientData  # examples are (x, label, label of an attacker)
    evaluate: Any
    size: int


def programs(config: Config) -> Iterator[Program]:
    """Those with a possible cell."""
    for transport in config.transports:
        for noise in config.noises:
            for compression in config.compressions:
                one = Program(transport, noise, compression, config.rules)
                left = tuple(rule for rule in config.rules if why_not(stack_of(one.cell(rule, 0.0))) is None)
                if left:
                    yield one._replace(rules=left)


def problem(config: Config) -> Problem:
    """Samples dealt evenly; a Byzantine client's other labels are flipped."""
    whole, model = load(config.task), model_of(config.task)
    clients = data.federate(whole, CLIENTS, "iid", seed=config.seed)
    x, y = clients.examples
    _, flipped = attacks.flip_labels(clients, BYZANTINE, whole.num_classes).examples
    size = num_params(jax.eval_shape(model.init, jax.random.key(0)))
    evaluate = metrics.accuracy(model, whole.x_test, whole.y_test)
    return Problem(model, clients._replace(examples=(x, y, flipped)), evaluate, size)


def train(config: Config, shared: Problem, program: Program) -> xr.Dataset:
    """Runs of a program by rule, attack, dropout and seed; resumable, as `experiments.resuming` says."""
    number = lambda names: {name: float(i) for i, name in enumerate(names)}
    axes = {
        "rule": number(program.rules), "attack": number(config.attacks), "dropout": list(config.dropouts),
        "seed": list(range(config.repeats)),
    }  # fmt: skip
    return sweep(
        functools.partial(system, config, shared, program), axes, jax.random.key(config.seed), shared.model.init,
        shared.clients, rounds=config.rounds, every=config.rounds, evaluate=shared.evaluate, keep=next_run(),
        progress=False,
    )  # fmt: skip


def system(config: Config, shared: Problem, program: Program, *, rule: Any, attack: Any, dropout: Any) -> Algorithm:
    """The composed system; rule and attack by number in the program and in `config.attacks`."""
    chosen = [rules()[name] for name in program.rules]
    aggregate = aggregators.one_of(rule, chosen) if len(chosen) > 1 else chosen[0]
    known = {**ATTACKS, SEARCHED: attacks.optimal_alie(aggregate)}
    return systems.compose(
        _local(config, shared, config.attacks, attack),
        num_clients=CLIENTS,
        num_params=shared.size,
        aggregate=aggregate,
        num_byzantine=BYZANTINE,
        dropout=dropout,
        **{acts_on(program.transport): attacks.one_of(attack, [known[name] for name in config.attacks])},
        exact=False,
        mesh=None,
        **options(config, program),
    )


def acts_on(transport: str) -> str:
    """The argument for an attack: on rows where each is a sum of several clients, else on updates."""
    return ROWS if TRANSPORTS[transport].get("buffer_size", 1) > 1 else "attack"


def options(config: Config, program: Program) -> dict[str, Any]:
    """What `systems.compose` is given for the transport, the noise and the compression of a program."""
    noise = {"clip": config.clip, "noise_variance": (config.deviation * config.clip) ** 2}
    return {
        **TRANSPORTS[program.transport],
        **({} if program.noise == "none" else noise),
        **({} if program.transport == "plain" else {"elide": config.elide, "levels": config.levels}),
        **({} if program.compression == "dense" else {"ratio": config.ratio}),
        "compress": compress_of(program.transport, program.compression),
        "error_feedback": program.compression == "top-K", "private": NOISES[program.noise],
    }  # fmt: skip


def _local(config: Config, shared: Problem, names: Sequence[str], attack: Any) -> Local:
    """Training on the labels that the attack leaves."""
    plain = losses.softmax_cross_entropy(shared.model)
    flips = jnp.asarray(attack, jnp.float32) == float(names.index(FLIPPED) if FLIPPED in names else -1)

    def loss(params: Any, examples: tuple) -> Array:
        x, y, flipped = examples
        return plain(params, (x, jnp.where(flips, flipped, y)))

    return local_sgd(
        loss, learning_rate=config.learning_rate, batch_size=config.batch_size, num_steps=config.local_steps
    )


def kilobytes(runs: xr.Dataset, way: str) -> np.ndarray:
    """Of a client a round, mean over rounds, clients, attacks, seeds and rules: by dropout."""
    return runs[way].sum("phase").mean(["rule", "attack", "seed", "round", "client"]).values / 1e3
