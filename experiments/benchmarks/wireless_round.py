"""What the noise of users costs in a wireless round over many of them.

python -m experiments.benchmarks.wireless_round --out wireless_round.json

10,000 users, softmax regression of 28 x 28 images (d = 7,850), one mini-batch each. All are timed in turns. Seconds of
the processor count what this process used, so that other work on the machine changes them less.
"""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from experiments.benchmarks.script import main
from fedjax_priv import losses, models, systems
from fedjax_priv.base import ClientData, Key, Local
from fedjax_priv.clients import local_sgd
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.keys import per_client

NUM_PARAMS = 7850
BASE = "without_own_noise"


def table(users: int, batch: int, repeats: int) -> dict[str, Any]:
    """Medians by what is run, and ratios to a round without noise of users, of turns."""
    model, key = models.mlp((28, 28, 1), 10, hidden=()), jax.random.key(0)
    local = local_sgd(losses.softmax_cross_entropy(model), learning_rate=1.0, batch_size=batch, num_steps=1)
    data, params = _images(users, batch), model.init(key)
    run = functools.partial(_round, local, key, params, data)
    runs = {
        BASE: run(noise_variance=0.0),
        "own_noise": run(noise_variance=0.1),
        "own_noise_drawn_as_one": run(noise_variance=0.1, noise_drawn="as one"),
        "normals_alone": functools.partial(jax.jit(_normals), key, data),
    }
    wall, processor = _in_turns(runs, repeats)
    return {
        "users": users, "batch": batch, "num_params": NUM_PARAMS, "turns": repeats,
        "seconds": {name: statistics.median(times) for name, times in wall.items()},
        "processor_seconds": {name: statistics.median(times) for name, times in processor.items()},
        "ratios": _ratios(wall), "processor_ratios": _ratios(processor),
    }  # fmt: skip


def _images(users: int, batch: int) -> ClientData:
    """Random ones, a batch for each user."""
    rng = np.random.default_rng(0)
    x, y = rng.random((users, batch, 28, 28, 1), np.float32), rng.integers(0, 10, (users, batch), np.int32)
    return jax.device_put(ClientData((x, y), jnp.full(users, batch, jnp.int32)))


def _round(local: Local, key: Key, params: PyTree, data: ClientData, **how: Any) -> Callable[[], Any]:
    """Channel-aware sampling at 10 dB, unknown R, as in Table II."""
    system = systems.wireless(local, threshold=2.0, snr_db=10.0, known_count=False, mesh=None, **how)
    return functools.partial(jax.jit(system.step), key, system.init(key, params, data), data)


def _normals(key: Key, data: ClientData) -> PyTree:
    """One for each user and parameter."""

    def add(shared: tuple, valid: Array, client: Array) -> tuple[Array, Array]:
        del shared, valid
        return per_client(lambda key: jax.random.normal(key, (NUM_PARAMS,)), key, client).sum(0), client

    return over_clients(add, (), (jnp.arange(data.count.size),), row_bytes=8 * NUM_PARAMS)


def _in_turns(
    runs: dict[str, Callable[[], Any]], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of the clock and of the processor; the first turn, which compiles, does not count."""
    wall, processor = ({name: list[float]() for name in runs} for _ in range(2))
    for turn in range(repeats + 1):
        for name, run in runs.items():
            clock, used = time.perf_counter(), time.process_time()
            jax.block_until_ready(run())
            if turn:
                wall[name].append(time.perf_counter() - clock)
                processor[name].append(time.process_time() - used)
    return wall, processor


def _ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Medians of the ratios within a turn."""
    return {
        name: statistics.median(one / base for one, base in zip(each, times[BASE], strict=True))
        for name, each in times.items()
    }


if __name__ == "__main__":
    main(__doc__, table, users=10_000, batch=32, repeats=5)
