"""Milliseconds of rounds whose memory is in large pages, and of the same rounds without them; batches are of 20.

python -m experiments.benchmarks.large_pages --out results/large_pages.json [--processes 3] [--rounds 9]

On Linux, memory that a program has just got is zeroed page by page, when it is first written to. XLA gets the memory of
large arrays anew in each round. glibc asks for pages of 2 MB instead of 4 kB if `GLIBC_TUNABLES` says so before Python
starts; it matters where the system gives them to those who ask (`madvise`). Processes with and without take turns.
"""

import json
import pathlib
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks import script
from experiments.benchmarks.processes import run_json
from fedjax_priv import ClientData, aggregators, clients, losses, models, systems
from fedjax_priv.base import Algorithm, Model
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.engine.state_placement import rows_over

SETTING = "glibc.malloc.hugetlb"
MODE = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
IMAGE, CLASSES, BATCH = (28, 28, 1), 10, 20
TIMEOUT = 600.0


def of_system(
    make: Callable[..., Algorithm], model: Model, n: int, steps: int, *, placed: bool = True, **options: Any
) -> Callable:
    """A call of a compiled round; each client has as many images of noise as its steps of 20 use.

    Args:
      make: the system.
      model: what clients train.
      n: clients.
      steps: of training.
      placed: samples are on the devices that train on them; if not, each call copies them there.
      **options: of the system.
    """
    shape = n, steps * BATCH
    images = jax.random.normal(jax.random.key(1), (*shape, *IMAGE))
    data = ClientData((images, jax.random.randint(jax.random.key(2), shape, 0, CLASSES)), jnp.full(n, shape[1]))
    if placed:
        data = jax.device_put(data, rows_over(clients_mesh(), n))
    loss, key = losses.softmax_cross_entropy(model), jax.random.key(0)
    system = make(clients.local_sgd(loss, learning_rate=0.1, batch_size=BATCH, num_epochs=1), **options)
    state = system.init(key, model.init(key), data)
    step = jax.jit(system.step).lower(key, state, data).compile()
    return lambda: step(key, state, data)


def of_rule(rows: int, d: int) -> Callable:
    """A call of MoNNA on rows of noise."""
    x, rule = jax.random.normal(jax.random.key(0), (rows, d)), aggregators.monna(7)
    return lambda: rule(x)


LINEAR, MLP, CNN = models.softmax_regression(IMAGE, CLASSES), models.mlp(IMAGE, CLASSES), models.mcmahan_cnn()
MIXED = aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(4), aggregators.trimmed_mean(4))
CASES: dict[str, Callable[[], Callable]] = {
    "FedAvg, softmax regression, 1,000 clients, 3 steps": lambda: of_system(systems.fedavg, LINEAR, 1_000, 3),
    "the same, samples on one of two devices": lambda: of_system(systems.fedavg, LINEAR, 1_000, 3, placed=False),
    "FedAvg, MLP 784-200-10, 1,000 clients, 3 steps": lambda: of_system(systems.fedavg, MLP, 1_000, 3),
    "mixing and trimmed mean, CNN of McMahan et al., 24 clients, a step": lambda: of_system(
        systems.robust_fedavg, CNN, 24, 1, num_clients=24, aggregate=MIXED
    ),
    "MoNNA, 32 rows of 272,474": lambda: of_rule(32, 272_474),
}


def once(case: str, rounds: int) -> None:
    """Print the median milliseconds of a case in this process, and the most memory it had."""
    call = CASES[case]()
    jax.block_until_ready(call())
    times = [1e3 * script.seconds(call) for _ in range(rounds)]
    begun = time.process_time()
    jax.block_until_ready(call())
    of_cores = 1e3 * (time.process_time() - begun)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"milliseconds": statistics.median(times), "of all cores": of_cores, "GB": most}))


def table(processes: int, rounds: int) -> dict[str, object]:
    """Medians over processes, by case and pages."""
    found: dict[str, object] = {"mode": MODE.read_text().strip() if MODE.exists() else "none"}
    for case in CASES:
        code = f"from experiments.benchmarks.large_pages import once; once({case!r}, {rounds})"
        command, here = [sys.executable, "-c", code], pathlib.Path(__file__).parents[2]
        took: dict[str, list[dict]] = {"usual": [], "large": []}
        for _ in range(processes):
            for pages, value in (("usual", 0), ("large", 1)):
                took[pages].append(run_json(command, here, {"GLIBC_TUNABLES": f"{SETTING}={value}"}, TIMEOUT))
        found[case] = {
            pages: {name: statistics.median(one[name] for one in each) for name in each[0]}
            for pages, each in took.items()
        }
        print(case, json.dumps(found[case]), flush=True)
    return found


if __name__ == "__main__":
    script.main(__doc__, table, processes=3, rounds=9)
