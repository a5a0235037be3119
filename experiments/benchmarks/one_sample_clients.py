"""Milliseconds of a round of DP-FedAvg with 60,000 clients of one sample, against DP-SGD written as one batch.

python -m experiments.benchmarks.one_sample_clients --out results/one_sample_clients.json [--rounds-each 30]

About 256 clients come to a round, each by its own coin. The network is the one that Opacus trains on MNIST. A round is
that of `simulate` over a pool: draws, fetched samples, noise and bookkeeping included. The batch is a single jitted
function: a clipped gradient of 256 samples, noise, and a step. Ways take turns, since other work comes and goes.
"""

import statistics
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.benchmarks import script
from experiments.private_training.problem import Setting, model_of
from fedjax_priv import clients, data, losses
from fedjax_priv.base import ClientData, Local
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import dp_fedavg

POPULATION, BATCH, CLIP, NOISE, RATE, TURNS = 60_000, 256, 1.0, 1.1, 0.15, 5
MODEL = model_of(Setting())
LOSS = losses.softmax_cross_entropy(MODEL)


def one_batch(x: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    gradient, batch = clients.clipped_gradient(LOSS, CLIP), (jnp.asarray(x[:BATCH]), jnp.asarray(y[:BATCH]))

    @jax.jit
    def step(params: dict, key: jax.Array) -> dict:
        keys = jax.tree.unflatten(jax.tree.structure(params), jax.random.split(key, len(jax.tree.leaves(params))))
        _, total = gradient(params, batch, jnp.ones(BATCH, bool))
        noisy = jax.tree.map(lambda g, k: g + NOISE * CLIP * jax.random.normal(k, g.shape), total, keys)
        return jax.tree.map(lambda w, g: w - RATE * g / BATCH, params, noisy)

    params, key = MODEL.init(jax.random.key(0)), jax.random.key(1)
    return lambda: step(params, key)


def rounds(local: Local, pool: data.Pool, number: int) -> float:
    """Seconds of a round, the first third left out: samples are fetched ahead of it."""
    algorithm = dp_fedavg(
        local, num_clients=POPULATION, clip=CLIP, noise_multiplier=NOISE, sampling_rate=BATCH / POPULATION,
        server=optax.sgd(RATE), mesh=None,
    )  # fmt: skip
    third = max(1, number // 3)
    run = simulate(
        algorithm, jax.random.key(0), MODEL.init(jax.random.key(0)), pool, rounds=3 * third, every=third,
        progress=False,
    )  # fmt: skip
    seconds = run.seconds.values
    return float(seconds[-1] - seconds[1]) / (2 * third)


def table(rounds_each: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(POPULATION, 28, 28, 1)).astype(np.float32), rng.integers(0, 10, POPULATION)
    pool = data.pool_of(ClientData((x[:, None], y[:, None]), jnp.ones(POPULATION, jnp.int32)))
    local = clients.local_sgd(LOSS, learning_rate=1.0, batch_size=1, num_steps=1)
    with_rows = local._replace(apply=lambda *args: local.apply(*args))
    batch = one_batch(x, y)
    script.seconds(batch)
    found: dict[str, list[float]] = {"one batch": [], "clients of one sample": [], "the same, a row each": []}
    for _ in range(TURNS):
        found["one batch"].append(statistics.median(script.seconds(batch) for _ in range(rounds_each)))
        found["clients of one sample"].append(rounds(local, pool, rounds_each))
        found["the same, a row each"].append(rounds(with_rows, pool, rounds_each))
    ratio = [one / other for one, other in zip(found["clients of one sample"], found["one batch"], strict=True)]
    milliseconds = {name: 1e3 * statistics.median(seconds) for name, seconds in found.items()}
    return {"milliseconds": milliseconds, "ratio to one batch": statistics.median(ratio), "ratios": ratio}


if __name__ == "__main__":
    script.main(__doc__, table, rounds_each=30)
