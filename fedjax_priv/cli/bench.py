"""How close client training comes to the matrix multiplication rate of the same machine, measured in the same run."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from fedjax_priv import _validate, losses, models
from fedjax_priv.base import CLIENTS, ClientData, Cohort, Key, Local, Model
from fedjax_priv.cli.result_tables import plain_table, show_table
from fedjax_priv.clients import everyone, local_sgd
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.upload import bytes_of_training
from fedjax_priv.systems import fedavg

MATMUL_SIZE = 2048
CNN_MACS = 28 * 28 * 25 * 32 + 14 * 14 * 25 * 32 * 64 + 3136 * 512 + 512 * 10
"""Two 5x5 convolutions of 32 and 64 channels on 28x28 and 14x14, then 3136-512-10."""


class Work(NamedTuple):
    """Local training of one round of FedAvg."""

    name: str
    model: Model
    macs: int  # multiply-accumulates of a forward pass of one 28x28 image
    clients: int
    steps: int
    batch: int

    @property
    def flops(self) -> float:
        """Of a round: 3 forward passes' worth for each sample, the usual convention for training."""
        return 6.0 * self.macs * self.clients * self.steps * self.batch


class Rate(NamedTuple):
    """One line of the benchmark; times are medians of rounds, rates are shares of the matmul rate."""

    name: str
    clients_steps_batch: tuple[int, int, int]
    training_seconds: float
    training_rate: float
    round_seconds: float  # of FedAvg, training included
    round_rate: float
    matmul_gflops: float


def bench(repeats: int = 7) -> list[Rate]:
    """FedAvg with an MLP and with the McMahan CNN against the matmul rate, all cores at work.

    Matmul, training and whole rounds take `repeats` >= 1 turns, and medians are reported.
    """
    _validate.integer(repeats=repeats)
    mesh = clients_mesh()
    work = (
        Work("MLP 784-200-10", models.mlp((28, 28, 1), 10, hidden=(200,)), 784 * 200 + 200 * 10, 100, 15, 20),
        Work("McMahan CNN", models.mcmahan_cnn((28, 28, 1), 10), CNN_MACS, 20, 3, 20),
    )
    rates = [_rate(one, mesh, repeats) for one in work]
    _show(
        rates,
        f"FedAvg against matmul ({rates[0].matmul_gflops:.0f} GFLOP/s), {mesh.size} x {jax.devices()[0].device_kind}",
    )
    return rates


def _show(rates: list[Rate], title: str) -> None:
    table = plain_table(title, "work", "size", "training", "of matmul", "round", "of matmul", left=("work",))
    for rate in rates:
        table.add_row(
            rate.name, " x ".join(map(str, rate.clients_steps_batch)),
            f"{rate.training_seconds:.3f} s", f"{rate.training_rate:.0%}",
            f"{rate.round_seconds:.3f} s", f"{rate.round_rate:.0%}",
        )  # fmt: skip
    show_table(table, "size: clients x steps x batch. Rates count three forward passes for each sample trained on.")


def _rate(work: Work, mesh: Mesh, repeats: int) -> Rate:
    key, data = jax.random.key(0), _images(work, mesh)
    params = work.model.init(key)
    loss = losses.softmax_cross_entropy(work.model)
    local = local_sgd(loss, learning_rate=0.05, batch_size=work.batch, num_steps=work.steps)
    system = fedavg(local, mesh=mesh)
    train, step, multiply = _training(local, key, mesh), jax.jit(system.step), _matmul(mesh)
    state = system.init(key, params, data)
    runs = multiply, lambda: train(params, data), lambda: step(key, state, data)
    seconds = _take_turns(runs, repeats)
    matmul = 2.0 * MATMUL_SIZE**3 * mesh.size / seconds[0]
    training_rate, round_rate = (work.flops / s / matmul for s in seconds[1:])
    size = (work.clients, work.steps, work.batch)
    return Rate(work.name, size, seconds[1], training_rate, seconds[2], round_rate, matmul / 1e9)


def _images(work: Work, mesh: Mesh) -> ClientData:
    """Random images and labels, as many as a round trains on."""
    rng, shape = np.random.default_rng(0), (work.clients, work.steps * work.batch)
    x, y = rng.random((*shape, 28, 28, 1), np.float32), rng.integers(0, 10, shape, np.int32)
    data = ClientData((jnp.asarray(x), jnp.asarray(y)), jnp.full(work.clients, shape[1], jnp.int32))
    even = work.clients % mesh.size == 0
    return jax.device_put(data, NamedSharding(mesh, PartitionSpec(CLIENTS) if even else PartitionSpec()))


def _training(local: Local, key: Key, mesh: Mesh) -> Callable[[PyTree, ClientData], PyTree]:
    """Local training alone; the updates are added up so that none is optimised away."""

    def train(params: PyTree, valid: Array, who: Cohort, data: ClientData) -> tuple[Array, Array]:
        del valid
        update, _, loss = local.apply(key, (), params, data, who)
        return update.sum(0), loss

    def run(params: PyTree, data: ClientData) -> PyTree:
        who, _ = everyone().apply(key, (), jnp.int32(0), data.count)
        held = bytes_of_training(local, key, (), params, data, who)
        return over_clients(train, params, (who, data), row_bytes=held, mesh=mesh)

    return jax.jit(run)


def _matmul(mesh: Mesh) -> Callable[[], Array]:
    """One square float32 product on each device at the same time."""
    split = PartitionSpec(CLIENTS)
    a = jax.device_put(jnp.ones((mesh.size, MATMUL_SIZE, MATMUL_SIZE)), NamedSharding(mesh, split))
    multiply = jax.jit(jax.shard_map(lambda a: a @ a, mesh=mesh, in_specs=split, out_specs=split))
    return lambda: multiply(a)


def _take_turns(runs: tuple[Callable[[], object], ...], repeats: int) -> list[float]:
    """Median seconds of each run; the first turn, which compiles, does not count."""
    seconds: list[list[float]] = [[] for _ in runs]
    for turn in range(repeats + 1):
        for run, times in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(run())
            if turn:
                times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in seconds]
