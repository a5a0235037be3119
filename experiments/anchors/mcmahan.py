"""Rounds of FedAvg to a target accuracy, cell by cell of the tables of McMahan et al. 2017, each with its own rate."""

from collections.abc import Callable

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from experiments import published
from experiments.anchors.mcmahan_claims import (
    Best,
    Config,
    Tried,
    at_best,
    of_cell_printed,
    order,
    other_start,
    pairs,
    same_ratio,
)
from experiments.anchors.mcmahan_printed import TABLES, Cell
from experiments.anchors.starts import started
from experiments.drawing import finish
from experiments.harness import Outcome
from experiments.problem import Task, load
from experiments.resuming import next_run
from experiments.setting import differences
from fedjax_priv import data, losses, metrics, models
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm, ClientData, Local, Model
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.sweep import sweep
from fedjax_priv.systems import fedavg


def differs(config: Config, papers: Config) -> str:
    """Fewer cells, rates or rounds are no other setting."""
    return differences(config._replace(cells=()), papers._replace(cells=()))


def run(config: Config) -> Outcome:
    """Every cell with every start, rate and seed, and what came of it."""
    whole, model = load(Task(config.dataset)), model_of(config)  # pyright: ignore[reportArgumentType]
    evaluate = metrics.accuracy(model, whole.x_test, whole.y_test)
    rounds = xr.concat(
        [of_cell(config, tried, whole, model, evaluate) for tried in config.cells], "place", join="outer"
    )
    return judge(config, xr.Dataset({"rounds": rounds}))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    table = TABLES[config.printed]
    best = {tried.cell: at_best(tried, result.rounds.sel(place=tried.cell.name)) for tried in config.cells}
    alike = pairs(list(best))
    claims = [of_cell_printed(config, tried, best[tried.cell], table) for tried in config.cells]
    claims += [same_ratio(slow, quick, best, table) for slow, quick in alike]
    if config.dataset != "mnist":
        claims = [published.of_other_data(claim) for claim in claims]
    claims += [order(slow, quick, best, table) for slow, quick in alike]
    claims += [other_start(config, tried, result) for tried in config.cells if len(tried.starts) > 1]
    return Outcome(draw(config, best, table), result, claims, caveats(config))


def model_of(config: Config) -> Model:
    shape = {"mnist": (28, 28, 1), "digits": (8, 8, 1)}[config.dataset]
    return models.mlp(shape, 10, hidden=(200, 200)) if config.printed == "2NN" else models.mcmahan_cnn(shape)


def clients_of(config: Config, partition: str, whole: data.Dataset) -> ClientData:
    """Two shards each, or an even deal."""
    if partition == "iid":
        return data.federate(whole, config.num_clients, seed=config.seed)
    return data.federate(whole, config.num_clients, "shards", seed=config.seed, num_shards=2 * config.num_clients)


def system(
    config: Config, cell: Cell, model: Model, rate: float, samples: int,
    of_local: Callable[[Local], Local] = lambda local: local,
) -> Algorithm:  # fmt: skip
    """FedAvg; with B = infinity a local epoch is one step on all samples."""
    size, steps = (cell.batch, None) if cell.batch else (samples, config.epochs)
    local = local_sgd(
        losses.softmax_cross_entropy(model), learning_rate=rate, batch_size=size, num_steps=steps,
        num_epochs=None if steps else config.epochs,
    )  # fmt: skip
    return fedavg(of_local(local), cohort_size=max(round(cell.fraction * config.num_clients), 1), mesh=None)


def of_cell(config: Config, tried: Tried, whole: data.Dataset, model: Model, evaluate: Callable) -> xr.DataArray:
    """Rounds to the target by `start`, `rate` (its place in the grid) and `seed`; infinite if it is not reached."""
    clients = clients_of(config, tried.cell.partition, whole)
    samples = clients.examples[1].shape[1]

    def needed(start: str, rates: tuple[float, ...]) -> list[list[float]]:
        runs = sweep(
            lambda rate: system(config, tried.cell, model, rate, samples),
            {"rate": rates, "seed": range(config.repeats)}, jax.random.key(config.seed), started(model, start),
            clients, rounds=tried.rounds, every=tried.every, evaluate=evaluate, keep=next_run(), progress=False,
        )  # fmt: skip
        return [[published.rounds_to(config.target, runs.evaluation, runs.accuracy.sel(rate=rate, seed=seed))
                 for seed in runs.seed] for rate in runs.rate]  # fmt: skip

    found = []
    for start in tried.starts:
        to = needed(start, tried.rates) + (needed(start, tried.further) if tried.further else [])
        found.append(xr.DataArray(to, dims=("rate", "seed"), coords={"rate": range(len(to))}))
    return xr.concat(found, xr.Variable("start", list(tried.starts))).assign_coords(place=tried.cell.name)


def caveats(config: Config) -> list[str]:
    return [
        f"{config.num_clients} clients, E = {config.epochs}; pixels in [0, 1]; rates constant, in steps of 10^(1/3)",
        "the target is crossed by the best test accuracy so far, between evaluations by a straight line",
        "rates are chosen by rounds to the target on the test set, as the source does, not by validation data",
        "runs of a seed share initial parameters; the split is the same for all",
    ]  # fmt: skip


def draw(config: Config, best: dict[Cell, Best], table: dict[Cell, int]) -> Figure:
    """Rounds of each cell, ours by seed and the printed one."""
    picture = Figure(figsize=(6.5, 1.2 + 0.45 * len(best)), layout="constrained")
    axes = picture.subplots()
    most = {tried.cell: tried.rounds for tried in config.cells}
    for place, (cell, at) in enumerate(best.items()):
        dots(axes, place, at.rounds.values, most[cell], "ours, by seed")
        axes.plot([table[cell]], [place], "x", color=COLOURS[1], label="printed" if place == 0 else None)
    axes.set_yticks(range(len(best)), [cell.name for cell in best])
    axes.invert_yaxis()
    finish(axes, f"{config.printed}: rounds to {config.target:.0%}", xlabel="rounds", xscale="log")
    for set_formatter in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        set_formatter(LogFormatter())  # 20, not 2 x 10^1
    return picture


def dots(axes: Axes, place: int, rounds: np.ndarray, most: float, label: str) -> None:
    """A row with a dot for each seed, and an arrow at `most`, where runs end, for each that did not get there."""
    known = axes.get_legend_handles_labels()[1]
    for marker, at, name in (
        ("o", rounds[np.isfinite(rounds)], label),
        (">", np.full(np.isinf(rounds).sum(), most), f"{label}, more than that"),
    ):
        if len(at):
            axes.plot(at, [place] * len(at), marker, color=COLOURS[0], label=None if name in known else name)
