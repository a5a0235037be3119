"""How close client training comes to the matrix multiplication rate of the same machine, measured in the same run."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from rich.console import Console
from rich.table import Table

from fedjax_priv import losses, models
from fedjax_priv.base import CLIENTS, ClientData, Model
from fedjax_priv.blocks import clients_mesh, fastest_block
from fedjax_priv.clients.local import local_sgd
from fedjax_priv.systems.fedavg import fedavg

MATMUL_SIZE = 2048


class Work(NamedTuple):
    """Local training of one round, of which the whole FedAvg round is timed."""

    name: str
    model: Model
    input_shape: tuple[int, ...]
    macs: int  # multiply-accumulates of a forward pass of one sample
    clients: int
    steps: int
    batch: int

    @property
    def flops(self) -> float:
        """Of a round: 3 forward passes' worth for each sample, the usual convention for training."""
        return 6.0 * self.macs * self.clients * self.steps * self.batch


class Rate(NamedTuple):
    """One line of the benchmark."""

    name: str
    block: int
    seconds: float  # a round, median
    gflops: float
    share: float  # of the matmul rate of the same run


def bench(repeats: int = 7) -> list[Rate]:
    """FedAvg rounds of an MLP and of the McMahan CNN against the matmul rate, all cores at work.

    Args:
      repeats: rounds timed; each is followed by a timed matmul, and medians are reported.
    """
    mesh = clients_mesh()
    work = (
        Work("MLP 784-200-10", models.mlp((28, 28, 1), 10, hidden=(200,)), (28, 28, 1), 784 * 200 + 2000, 100, 15, 20),
        Work("McMahan CNN", models.mcmahan_cnn((28, 28, 1), 10), (28, 28, 1), _cnn_macs(), 20, 3, 20),
    )
    rates = [_rate(one, mesh, repeats) for one in work]
    table = Table(title=f"client training against matmul, {mesh.size} x {jax.devices()[0].device_kind}")
    for heading in ("work", "clients x steps x batch", "block", "s/round", "GFLOP/s", "of matmul"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    for one, rate in zip(work, rates, strict=True):
        size = f"{one.clients} x {one.steps} x {one.batch}"
        table.add_row(
            rate.name, size, str(rate.block), f"{rate.seconds:.3f}", f"{rate.gflops:.0f}", f"{rate.share:.0%}"
        )
    Console().print(table)
    return rates


def _cnn_macs() -> int:
    """Two 5x5 convolutions of 32 and 64 channels on 28x28 and 14x14, then 3136-512-10."""
    return 28 * 28 * 25 * 32 + 14 * 14 * 25 * 32 * 64 + 3136 * 512 + 512 * 10


def _rate(work: Work, mesh: Mesh, repeats: int) -> Rate:
    rng = np.random.default_rng(0)
    per_client = work.steps * work.batch
    x = rng.random((work.clients, per_client, *work.input_shape), np.float32)
    y = rng.integers(0, 10, (work.clients, per_client), np.int32)
    rows = NamedSharding(mesh, PartitionSpec(CLIENTS))
    data = ClientData((jnp.asarray(x), jnp.asarray(y)), jnp.full(work.clients, per_client, jnp.int32))
    data = jax.device_put(data, rows if work.clients % mesh.size == 0 else NamedSharding(mesh, PartitionSpec()))
    loss = losses.softmax_cross_entropy(work.model)
    key, local = jax.random.key(0), local_sgd(loss, learning_rate=0.05, batch_size=work.batch, num_steps=work.steps)
    params = work.model.init(key)
    system = fastest_block(fedavg(local, block="auto", mesh=mesh), key, params, data)
    step, state, multiply = jax.jit(system.step), system.init(key, params, data), _matmul(mesh)
    step(key, state, data)
    seconds, matmul = [], []
    for _ in range(repeats):
        seconds.append(_seconds(lambda: step(key, state, data)))
        matmul.append(2.0 * MATMUL_SIZE**3 * mesh.size / _seconds(multiply))
    rate = work.flops / statistics.median(seconds)
    return Rate(work.name, system.block or 0, statistics.median(seconds), rate / 1e9, rate / statistics.median(matmul))


def _matmul(mesh: Mesh) -> Callable[[], jax.Array]:
    """One square float32 product on each device at the same time."""
    split = PartitionSpec(CLIENTS)
    a = jnp.ones((mesh.size, MATMUL_SIZE, MATMUL_SIZE))
    a = jax.device_put(a, NamedSharding(mesh, split))
    multiply = jax.jit(jax.shard_map(lambda a: a @ a, mesh=mesh, in_specs=split, out_specs=split))
    jax.block_until_ready(multiply(a))
    return lambda: multiply(a)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start
