"""What a sweep saves over separate runs, and what a round over a large population costs.

python experiments/benchmarks/scaling.py --out scaling.json
"""

import argparse
import json
import pathlib
import resource
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv import clients, data, losses, models, simulate, sweep, systems
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.keys import named
from fedjax_priv.runs.records.manifest import manifest

ROUNDS = 50
RATES, SEEDS = (0.05, 0.1, 0.15, 0.2), range(16)
POPULATIONS, COHORT = (10_000, 1_000_000), 1_000


def sweep_of_64_runs(repeats: int) -> dict[str, float]:
    """4 learning rates x 16 seeds of softmax regression on digits, 10 clients, 50 rounds of one step of batch 10.

    The separate runs are 64 jitted functions, as a loop over factories makes them (4 are timed); the warm ones are one
    jitted function of rate and key that is compiled before.
    """
    digits = data.digits()
    model = models.softmax_regression(digits.x_train.shape[1:], digits.num_classes)
    train, loss = data.federate(digits, 10), losses.softmax_cross_entropy(model)
    key, on_device = jax.random.key(0), jax.tree.map(jnp.asarray, train)

    def make(learning_rate: float | jax.Array) -> Algorithm:
        return systems.fedavg(clients.local_sgd(loss, learning_rate=learning_rate, batch_size=10, num_steps=1))

    def run(rate: float | jax.Array, key: jax.Array) -> jax.Array:
        system = make(rate)
        start = system.init(key, model.init(named(key, "params")), on_device)
        body = lambda state, _: (system.step(key, state, on_device)[0], None)
        return jax.lax.scan(body, start, length=ROUNDS)[0].params

    keys = [jax.random.fold_in(key, seed) for seed in SEEDS]
    begun = time.perf_counter()
    for rate in RATES:
        for one in keys[:1]:  # the other 15 would compile the same again: 4 of 64 are timed, and multiplied
            jax.block_until_ready(jax.jit(lambda key, rate=rate: run(rate, key))(one))
    separate = len(keys) * (time.perf_counter() - begun)
    warm = jax.jit(run)
    axes = {"learning_rate": list(RATES), "seed": [*SEEDS]}
    whole = lambda: sweep(make, axes, key, model.init, train, rounds=ROUNDS, every=ROUNDS, progress=False)
    jax.block_until_ready(warm(jnp.float32(0.1), keys[0]))
    seconds: dict[str, list[float]] = {"warm": [], "sweep": [], "sweep_compiled": []}
    for _ in range(repeats):
        begun = time.perf_counter()
        for rate in RATES:
            for one in keys:
                jax.block_until_ready(warm(jnp.float32(rate), one))
        seconds["warm"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        result = whole()
        seconds["sweep"].append(time.perf_counter() - begun)
        seconds["sweep_compiled"].append(float(result.seconds.isel(evaluation=-1).sum()))
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "separate_seconds": separate,
        **{f"{name}_seconds": value for name, value in median.items()},
        "separate_over_sweep": separate / median["sweep"],
        "warm_over_sweep_compiled": median["warm"] / median["sweep_compiled"],
    }


def population(repeats: int) -> dict[str, float]:
    """Rounds of 1,000 clients with a momentum of 7,850 numbers each, out of populations of 10,000 and of 1,000,000."""
    rng = np.random.default_rng(0)
    x = rng.random((POPULATIONS[0], 20, 28, 28, 1), np.float32)
    y = rng.integers(0, 10, x.shape[:2], np.int32)
    model = models.softmax_regression((28, 28, 1), 10)
    local = clients.local_sgd(
        losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=10, num_epochs=1, momentum=0.9,
        carry_momentum=True,
    )  # fmt: skip
    key = jax.random.key(0)

    def seconds_of_a_round(size: int) -> float:
        pool = data.Pool(lambda ids: (x[ids % len(x)], y[ids % len(x)]), np.full(size, 20, np.int32))
        system = systems.fedavg(local, cohort_size=COHORT)
        result = simulate(system, key, model.init(key), pool, rounds=12, every=1, progress=False)
        return float(np.median(np.diff(result.seconds.values)[2:]))

    turns = [[seconds_of_a_round(size) for size in POPULATIONS] for _ in range(repeats)]
    return {
        "round_of_10000_seconds": statistics.median(turn[0] for turn in turns),
        "round_of_1000000_seconds": statistics.median(turn[1] for turn in turns),
        "ratio": statistics.median(large / small for small, large in turns),
    }


def ten_thousand_clients() -> dict[str, float]:
    """A round of FedAvg with 10,000 clients and 165,354 parameters: one step of batch 5 each, exact sum."""
    rng = np.random.default_rng(0)
    model = models.cifar_cnn()
    x = rng.random((10_000, 5, 32, 32, 3), np.float32)
    train = ClientData((x, rng.integers(0, 10, x.shape[:2], np.int32)), jnp.full(10_000, 5, jnp.int32))
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.1, batch_size=5, num_steps=1)
    system, key = systems.fedavg(local, dropout=0.3), jax.random.key(0)
    result = simulate(system, key, model.init(key), train, rounds=2, every=1, progress=False)
    return {"seconds": float(np.diff(result.seconds.values).min())}


def main() -> None:
    """Run all and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    table = {
        "sweep_of_64_runs": sweep_of_64_runs(arguments.repeats),
        "population": population(arguments.repeats),
        "ten_thousand_clients": ten_thousand_clients(),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "manifest": manifest(key=jax.random.key(0), repeats=arguments.repeats),
    }
    arguments.out.write_text(json.dumps(table, indent=2) + "\n")
    print(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
