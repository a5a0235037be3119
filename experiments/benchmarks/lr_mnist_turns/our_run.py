"""Our run of the card `lr_mnist` in a process, then what Flower needs to run the same: participants and batches.

python -m experiments.benchmarks.lr_mnist_turns.our_run FOLDER '{"outputs": "sigmoid", ...}' BEGUN
"""

import json
import pathlib
import sys
import time
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np

from experiments.anchors import lr_mnist
from experiments.benchmarks.lr_mnist_turns import numpy_training
from fedjax_priv import models
from fedjax_priv.clients.shuffles import shuffled
from fedjax_priv.keys import named, per_client


def run(folder: pathlib.Path, how: dict, begun: float) -> dict:
    """The run; it writes its parameters, participants and batches to the folder."""
    config = lr_mnist.Config(**{name: how[name] for name in lr_mnist.Config._fields})
    of, clock = devices(folder), list[float]()
    model = models.from_flax(lr_mnist.Network(how["outputs"]), of.x_test.shape[1:])
    result = lr_mnist.simulated(config, of, model, config.seed, log=lambda _: clock.append(time.time()))
    seconds, rounds = time.time() - begun, config.rounds
    if result.failed_rounds:
        raise RuntimeError(f"{result.failed_rounds} rounds failed: {result.failed_because}")
    np.save(folder / how["save"], result.params.values)
    chosen = result.client_id.values.astype(np.int32)
    numpy_training.write(folder, devices=chosen, orders=orders(config, of, chosen))
    warm = clock[-1] - clock[0]
    return {
        "seconds": seconds, "accuracy": (100 * result.accuracy).values.tolist(), "round_seconds": warm / rounds,
        "start_seconds": seconds - warm, "compile_seconds": result.compile_seconds,
    }  # fmt: skip


def devices(folder: pathlib.Path) -> lr_mnist.Devices:
    """The split that a folder holds."""
    x, y, start, x_test, y_test = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y", "start", "x_test", "y_test")
    )
    rows = np.split(np.arange(len(y)), start[1:-1])
    return lr_mnist.Devices(lr_mnist.pool(x, y, rows), np.asarray(x_test), np.asarray(y_test))


def orders(config: lr_mnist.Config, of: lr_mnist.Devices, chosen: np.ndarray) -> np.ndarray:
    """The order in which each participant of `chosen [rounds, cohort]` takes its samples, int32 `[rounds, cohort, m]`.

    Local training draws it from its key, that of the round's stage "local".
    """
    room, key = len(of.pool.fetch(np.array([0]))[1][0]), lr_mnist.key_of(config, config.seed)

    @jax.jit
    def of_round(round: jax.Array, who: jax.Array, count: jax.Array) -> jax.Array:
        keys = per_client(lambda own: own, named(jax.random.fold_in(key, round), "local"), who)
        return shuffled(keys, jnp.zeros_like(count), count, room, room)

    made = [of_round(jnp.int32(t), who, of.pool.count[who]) for t, who in enumerate(chosen)]
    return np.stack([np.asarray(order) for order in made])


if __name__ == "__main__":
    made = run(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3]))
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    print("\n" + json.dumps(made | {"versions": versions}), flush=True)
