"""Linear classification of MNIST over 1,000 devices, whose accuracy and wall time FLUTE reports for three simulators.

Split of Li et al. 2020 (FedProx, `data/mnist/generate_niid.py`): two digits per device, sizes lognormal, each pixel
standardised over all 70,000 images, 90% of a device's samples train. The rest is as in `experiments/cv_lr_mnist` of
FLUTE (Garcia et al. 2022, arXiv 2203.13789): PyTorch's initial parameters, and a model, taken from FedML, that puts a
sigmoid between the linear layer and the cross-entropy, so logits are in (0, 1). Softmax regression has none.
"""

import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, PyTree
from matplotlib.figure import Figure

from experiments import published
from experiments.anchors.networks import dense
from experiments.claims import Claim, Open, Source
from experiments.comparison import decided, gap, over_seeds, plus_minus
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome
from experiments.problem import Task, load
from experiments.resuming import next_run
from fedjax_priv import data, losses, metrics, models
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Key, Model
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.chunk_loop import Log
from fedjax_priv.runs.records.run_writer import Keep
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import fedavg

PRINTED = published.Printed(80.25)
"""Percent after 100 rounds: 81, 81, 80, 80, 80, 80, 79 and 81, of FedML, Flower and FLUTE on CPUs and GPUs.

Whole percents of three simulators are no independent runs of one: their mean counts as a single value.
"""
MARGIN = 1.5
"""Points of accuracy."""
ELSEWHERE = {"Flower 1.0": "30:14", "FLUTE": "3:20"}
"""Minutes and seconds on CPUs of another machine, as FLUTE's table has them."""
SIGMOID, LINEAR = "sigmoid", "linear"


class Config(NamedTuple):
    """The run at one scale."""

    dataset: str = "mnist"
    devices: int = 1000
    cohort: int = 10
    rounds: int = 100
    every: int = 20
    batch_size: int = 10
    learning_rate: float = 0.03
    outputs: tuple[Literal["sigmoid", "linear"], ...] = (SIGMOID, LINEAR)  # what the cross-entropy gets
    repeats: int = 5
    seed: int = 0


class Devices(NamedTuple):
    """Training samples by device, on the host, and the test samples of all devices."""

    pool: data.Pool
    x_test: np.ndarray
    y_test: np.ndarray


class Network(nn.Module):
    """One linear layer, and FedML's sigmoid or nothing."""

    outputs: str

    @nn.compact
    def __call__(self, x: Float[Array, "b d"]) -> Float[Array, "b 10"]:
        """What the cross-entropy takes for logits."""
        y = dense(x, 10)
        return nn.sigmoid(y) if self.outputs == SIGMOID else y


def run(config: Config) -> Outcome:
    """Each kind of outputs with each seed, which draws the split, the initial parameters, the cohorts and batches."""
    whole = standardised(load(Task(config.dataset)))  # pyright: ignore[reportArgumentType]
    return judge(config, xr.concat([of_seed(config, *whole, seed) for seed in range(config.repeats)], "seed"))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    claims = [same_accuracy(config, result), without_sigmoid(result), cost(config, result)]
    return Outcome(draw(result), result, claims, caveats(config, result))


def standardised(whole: data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """All images, flat, each pixel with mean 0 and deviation 1 over all; the script adds 0.001 to the deviation."""
    x = np.concatenate([whole.x_train, whole.x_test]).reshape(-1, whole.x_test[0].size) * np.float32(255)
    return (x - x.mean(0)) / (x.std(0) + np.float32(0.001)), np.concatenate([whole.y_train, whole.y_test])


def devices_of(config: Config, x: np.ndarray, y: np.ndarray, seed: int) -> Devices:
    """The split of a seed."""
    train, test = split(config, y, seed)
    rest = np.concatenate(test)
    return Devices(pool(x, y, train), x[rest], y[rest])


def split(config: Config, y: np.ndarray, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Which samples each device trains on, and which of its own it is tested on."""
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(part) for part in data.lognormal(y, config.devices, seed)]
    cut = [int(0.9 * len(part)) for part in parts]
    return [part[:n] for part, n in zip(parts, cut, strict=True)], [
        part[n:] for part, n in zip(parts, cut, strict=True)
    ]


def pool(x: np.ndarray, y: np.ndarray, rows: Sequence[np.ndarray]) -> data.Pool:
    """Devices that hold these rows, all with room for as many as the largest has."""
    room = max(map(len, rows))

    def fetch(ids: np.ndarray) -> PyTree:
        images, labels = np.zeros((len(ids), room, x.shape[1]), np.float32), np.zeros((len(ids), room), np.int32)
        for place, device in enumerate(ids):
            mine = rows[device]
            images[place, : len(mine)], labels[place, : len(mine)] = x[mine], y[mine]
        return images, labels

    return data.Pool(fetch, np.array([len(mine) for mine in rows], np.int32))


def of_seed(config: Config, x: np.ndarray, y: np.ndarray, seed: int) -> xr.Dataset:
    """The runs of a seed, by `outputs`: same split, initial parameters, cohorts and batches."""
    start = time.process_time()
    of = devices_of(config, x, y, seed)
    split = time.process_time() - start
    runs = [one_run(config, of, models.from_flax(Network(kind), x.shape[1:]), seed) for kind in config.outputs]
    together = xr.concat(runs, xr.Variable("outputs", list(config.outputs)))
    return together.assign(cpu_seconds=together.cpu_seconds + split, devices_largest=int(of.pool.count.max()))


def one_run(config: Config, of: Devices, model: Model, seed: int) -> xr.Dataset:
    """`accuracy` in percent by `evaluation`, `cpu_seconds` with compiling, `failed` rounds."""
    start = time.process_time()
    whole = simulated(config, of, model, seed, keep=next_run())
    return xr.Dataset(
        {"accuracy": 100 * whole.accuracy, "failed": int((whole.status != 0).sum())}
        | {"cpu_seconds": time.process_time() - start}
    )


def simulated(
    config: Config, of: Devices, model: Model, seed: int, *, keep: Keep | None = None, log: Log | None = None
) -> xr.Dataset:
    """All rounds with a seed."""
    local = local_sgd(
        losses.softmax_cross_entropy(model), learning_rate=config.learning_rate, batch_size=config.batch_size,
        num_epochs=1,
    )  # fmt: skip
    key = key_of(config, seed)
    return simulate(
        fedavg(local, cohort_size=config.cohort, mesh=None), key, model.init(key), of.pool, rounds=config.rounds,
        every=config.every, evaluate=metrics.accuracy(model, of.x_test, of.y_test), keep=keep, log=log,
        progress=False,
    )  # fmt: skip


def key_of(config: Config, seed: int) -> Key:
    """Of the initial parameters, cohorts and batches of a seed."""
    return jax.random.fold_in(jax.random.key(config.seed), seed)


def same_accuracy(config: Config, result: xr.Dataset) -> Claim:
    """With the sigmoid of the source's model."""
    claim = published.claim(
        "accuracy", f"LR on MNIST, FedProx's split: test accuracy after {config.rounds} rounds, %",
        final(result, SIGMOID).values.tolist(), PRINTED, MARGIN, unit=" points", better=1,
    )  # fmt: skip
    claim = claim._replace(note="; ".join(filter(None, [claim.note, "theirs share one split, ours have one per seed"])))
    return claim if config.dataset == "mnist" else published.of_other_data(claim)


def without_sigmoid(result: xr.Dataset) -> Claim:
    """Whether the sigmoid is what keeps the printed accuracy below that of softmax regression."""
    alone = final(result, LINEAR)
    more, level = gap(alone, final(result, SIGMOID)), over_seeds(alone)
    return Claim(
        "without-sigmoid", "softmax regression, without the source's sigmoid, is better by more than the margin",
        f"more than {MARGIN:g} points",
        f"{float(level.mean):.2f}{plus_minus(float(level.noise))}, which is {more.text(1)} points more",
        decided(more.above(MARGIN)),
        f"Student's 95% interval of paired differences is above 0, their mean above {MARGIN:g}",
        source=Source.OURS, why=Open.UNDECIDED,
    )  # fmt: skip


def final(result: xr.Dataset, outputs: str) -> xr.DataArray:
    """Accuracy after the last round, by seed."""
    return result.accuracy.sel(outputs=outputs).isel(evaluation=-1).drop_vars("outputs")


def cost(config: Config, result: xr.Dataset) -> Claim:
    """CPU seconds of all threads: times of others are another machine's, so nothing is judged."""
    spent = over_seeds(result.cpu_seconds.sel(outputs=SIGMOID))
    others = ", ".join(f"{name} {minutes}" for name, minutes in ELSEWHERE.items())
    return Claim(
        "cpu-seconds", f"time of {config.rounds} rounds, with splitting and compiling",
        f"another machine's, wall clock: {others}", f"{float(spent.mean):.1f}{plus_minus(float(spent.noise))} CPU s",
        None, "times are reported, not judged", source=Source.OURS, why=Open.REPORTED,
    )  # fmt: skip


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    return [
        f"{config.devices:,} devices, {config.cohort} a round, batches of {config.batch_size}, rate "
        f"{config.learning_rate:g}, one epoch; the largest device has {int(result.devices_largest.max()):,} samples",
        "CPU seconds count splitting, compiling, training and evaluating, and not reading files; the machine may have "
        "been busy",
        BANDS,
        f"{int(result.failed.sum())} rounds of all runs failed",
    ]  # fmt: skip


def draw(result: xr.Dataset) -> Figure:
    """Accuracy by round, and the printed range."""
    picture = Figure(figsize=(5.5, 3.2), layout="constrained")
    axes = picture.subplots()
    names = {SIGMOID: "ours, with the source's sigmoid", LINEAR: "ours, softmax regression"}
    for kind, colour in zip(result.outputs.values, COLOURS, strict=False):
        band(axes, result.accuracy.sel(outputs=kind), "evaluation", names[str(kind)], colour, most=100)
    axes.axhspan(79, 81, color=COLOURS[2], alpha=0.4, label="printed, after 100 rounds")
    finish(axes, "LR on MNIST, FedProx's split", xlabel="round", ylabel="test accuracy, %", ylim=(0, 100))
    return picture
