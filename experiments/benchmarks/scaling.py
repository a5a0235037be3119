"""What a sweep saves over separate runs, and what a round over a large population costs.

python -m experiments.benchmarks.scaling --out scaling.json
"""

import resource
import statistics

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks.script import main, seconds, timed
from fedjax_priv import clients, data, losses, models, simulate, sweep, systems
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.keys import named

ROUNDS = 50
RATES, SEEDS = (0.05, 0.1, 0.15, 0.2), range(16)
POPULATIONS, COHORT = (10_000, 1_000_000), 1_000


def sweep_of_64_runs(repeats: int) -> dict[str, float]:
    """4 learning rates x 16 seeds of softmax regression on digits: 10 clients, 50 rounds of one step of batch 10.

    Separate runs are 64 jitted functions, as a loop over factories makes them (4 are timed); warm runs are one jitted
    function of rate and key, compiled in advance.
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

    keys, warm = [jax.random.fold_in(key, seed) for seed in SEEDS], jax.jit(run)
    # each rate compiles once for every key: 4 of the 64 are timed, and multiplied
    cold = [seconds(lambda rate=rate: jax.jit(lambda key: run(rate, key))(keys[0])) for rate in RATES]
    separate = len(keys) * sum(cold)
    axes = {"learning_rate": list(RATES), "seed": [*SEEDS]}
    whole = lambda: sweep(make, axes, key, model.init, train, rounds=ROUNDS, every=ROUNDS, progress=False)
    one_by_one = lambda: [jax.block_until_ready(warm(jnp.float32(rate), key)) for rate in RATES for key in keys]
    jax.block_until_ready(warm(jnp.float32(0.1), keys[0]))
    took: dict[str, list[float]] = {"warm": [], "sweep": [], "sweep_compiled": []}
    for _ in range(repeats):
        took["warm"].append(seconds(one_by_one))
        result, swept = timed(whole)
        took["sweep"].append(swept)
        took["sweep_compiled"].append(float(result.seconds.isel(evaluation=-1).sum()))
    median = {name: statistics.median(values) for name, values in took.items()}
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


def table(repeats: int) -> dict[str, object]:
    """All of them."""
    return {
        "sweep_of_64_runs": sweep_of_64_runs(repeats),
        "population": population(repeats),
        "ten_thousand_clients": ten_thousand_clients(),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    main(__doc__, table, repeats=3)
