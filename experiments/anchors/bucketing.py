"""Bucketing against the mimic attack on non-IID workers (Karimireddy, He, Jaggi 2022, arXiv 2006.09365, n = 25, f = 5).

One gradient of a batch per worker and step, without momentum; the setting is that of the authors' code, experiment 2.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

from experiments.anchors import networks
from experiments.anchors.bucketing_claims import Config, caveats, claims, draw, last_of
from experiments.anchors.bucketing_printed import BUCKETS, MEAN
from experiments.harness import Outcome
from experiments.problem import Task, load
from experiments.resuming import next_run
from fedjax_priv import aggregators, data, metrics
from fedjax_priv.aggregators.numerics.row_distances import distances
from fedjax_priv.aggregators.rule_parts import minority, rule
from fedjax_priv.base import Aggregator, Algorithm, ClientData, Cohort, Key, Layer, Sent
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone, local_sgd
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, stack, stateless
from fedjax_priv.runs.sweep import sweep

Rules = dict[tuple[str, int], Aggregator]
"""By name and size of a bucket."""


def run(config: Config) -> Outcome:
    """The rules under the attack first, for all seeds; then the controls."""
    whole = load(Task(config.dataset))  # pyright: ignore[reportArgumentType]
    train, test, chosen = federated(config, whole.x_train, whole.y_train), counted(whole), parts(rules(config))
    of = lambda what, seeds: xr.concat(
        [accuracies(config, train, test, chosen[what], what, seed) for seed in range(seeds)], "seed"
    )
    accuracy = [of("attacked", config.repeats), of("mean", config.controls)]
    alone = of("alone", config.controls).sel(size=1, drop=True)
    return judge(config, xr.Dataset({"accuracy": xr.concat(accuracy, "name", join="outer"), "alone": alone}))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    last = last_of(config, result)
    return Outcome(draw(last), result, claims(last, config.dataset != "mnist"), caveats(config, last))


def rules(config: Config) -> Rules:
    """As in the authors' code; none is refused, since the mean is the control."""
    f = config.num_byzantine
    alone = {
        MEAN: aggregators.mean(), "Krum": krum_of_fourth_powers(f), "CM": aggregators.coordinate_median(),
        "RFA": aggregators.weiszfeld(steps=8, nu=0.1, start="zero"),
        "CClip": aggregators.centered_clipping(radius=10.0, steps=3),
    }  # fmt: skip
    buckets = aggregators.bucketing(BUCKETS)
    return {
        (name, size): each if size == 1 else aggregators.pre_aggregated(buckets, each)
        for name, each in alone.items() for size in (1, BUCKETS) if name in config.rules
    }  # fmt: skip


def krum_of_fourth_powers(num_byzantine: int) -> Aggregator:
    """Krum, but scores add fourth powers of distances: the authors' code squares them twice."""

    def direct(rows: jax.Array, ok: jax.Array) -> jax.Array:
        squared = distances(rows, ok)
        largest = jnp.where(jnp.isfinite(squared), squared, 0.0).max()
        fourth = jnp.square(squared / jnp.maximum(largest, jnp.finfo(jnp.float32).tiny))
        others = jnp.sort(jnp.where(jnp.eye(len(rows), dtype=bool), jnp.inf, fourth), 1)
        counted = jnp.arange(len(rows)) < ok.sum() - num_byzantine - 2
        return rows[jnp.argmin(jnp.where(counted, others, 0.0).sum(1))]

    return rule(direct, minority(num_byzantine))


def mimic_after_a_step() -> Layer:
    """Byzantine workers copy one honest worker, chosen in the first round for its part in the main direction.

    `z = sum_i <g_i - mean, z_0> (g_i - mean)` for a random z_0; the target is argmax_i <g_i, z>. State: its number.
    """

    def encode(key: Key, target: jax.Array, public: tuple, x: jax.Array, cohort: Cohort) -> tuple:
        byzantine = cohort.selected & cohort.byzantine
        honest = cohort.selected & ~byzantine
        worker = jax.lax.cond(target[0] < 0, lambda: main_worker(x, honest), lambda: target[0])
        return jnp.where(byzantine[:, None], x[worker], x), jnp.full_like(target, worker), Sent()

    return stateless(whole=True)._replace(
        init=lambda key, n: jnp.full(n, -1), advertise=lambda key, state, cohort: (state, (), {}), encode=encode
    )


def main_worker(x: jax.Array, honest: jax.Array) -> jax.Array:
    """The number of the honest row that is copied."""
    weights = honest.astype(x.dtype) / honest.sum().astype(x.dtype)
    apart = jnp.where(honest[:, None], x - (weights @ x)[None, :], 0.0)
    z = (apart @ jax.random.normal(jax.random.key(0), x.shape[1:])) @ apart
    return jnp.argmax(jnp.where(honest, x @ z, -jnp.inf))


def federated(config: Config, x: np.ndarray, y: np.ndarray) -> ClientData:
    """Byzantine workers first, with random samples; honest ones have runs of the samples in label order."""
    rng, order, h = np.random.default_rng(config.seed), np.argsort(y, kind="stable"), config.num_honest
    size = -(-len(y) // h)
    parts = [rng.choice(len(y), size, replace=False) for _ in range(config.num_byzantine)]
    return data.stack_clients((x, y.astype(np.int32)), parts + [order[i * size : (i + 1) * size] for i in range(h)])


def counted(whole: data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Test samples in label order, in whole batches of 128: the authors' loader drops the last."""
    order = np.argsort(whole.y_test, kind="stable")[: len(whole.y_test) // 128 * 128]
    return whole.x_test[order], whole.y_test[order]


def parts(chosen: Rules) -> dict[str, Rules]:
    """What runs together, by name: the rules and the mean under the attack, and all without buckets nor attack."""
    return {
        "attacked": {at: each for at, each in chosen.items() if at[0] != MEAN},
        "mean": {at: each for at, each in chosen.items() if at[0] == MEAN},
        "alone": {at: each for at, each in chosen.items() if at[1] == 1},
    }


def accuracies(config: Config, train: ClientData, test: tuple, chosen: Rules, what: str, seed: int) -> xr.DataArray:
    """Percent by `name`, `size`, `seed` and `evaluation`, the one before training left out; one program."""
    model, several = networks.bucketing(config.dataset), list(chosen.values())
    local = local_sgd(networks.bucketing_loss(), learning_rate=1.0, batch_size=config.batch_size, num_steps=1)
    n = config.num_honest + config.num_byzantine
    layers = {} if what == "alone" else {"attack": mimic_after_a_step()}

    def system(rule: float) -> Algorithm:
        return federated_round(
            cohort=everyone(n, num_byzantine=config.num_byzantine), local=local,
            layers=stack(**layers, send=plain(n, exact=False)), channel=erasure(0.0),
            aggregate=aggregators.one_of(rule, several), server=optax.sgd(config.learning_rate), num_clients=n,
            block=1,  # one worker fills a core's cache: with two at a time a step takes a quarter longer
        )  # fmt: skip

    places = {f"{name} {size}": float(i) for i, (name, size) in enumerate(chosen)}
    runs = sweep(
        system, {"rule": places, "seed": [seed]}, jax.random.key(config.seed), model.init, train,
        rounds=config.rounds, every=config.every, evaluate=metrics.accuracy(model, *test),
        at_once=jax.device_count(),  # one on each: side by side on a device, all rules would be computed for each run
        keep=next_run(f"{what}-{seed}"), progress=False,
    )  # fmt: skip
    index = {"name": ("rule", [name for name, _ in chosen]), "size": ("rule", [size for _, size in chosen])}
    found = 100 * runs.accuracy.isel(evaluation=slice(1, None)).reset_coords(drop=True)
    return found.drop_vars("rule").assign_coords(index).set_index(rule=["name", "size"]).unstack("rule")
