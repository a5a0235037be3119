"""A printed row of private training: its eps by three accountants, and accuracy over seeds against the printed one.

Runs are DP-FedAvg over a pool of clients with one sample each.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
import xarray as xr
from jaxtyping import Array, PyTree
from matplotlib.figure import Figure

from experiments import published
from experiments.claims import Claim, Source
from experiments.comparison import as_printed, over_seeds, plus_minus
from experiments.drawing import BANDS, band, finish
from experiments.harness import Outcome
from experiments.private_training.printed import DELTA, Row
from experiments.private_training.privacy import CLASSIC, OURS, TIGHT, epsilons, ours
from experiments.private_training.problem import Problem, Setting, model_of, problem
from experiments.resuming import next_run
from experiments.setting import differences
from fedjax_priv import losses
from fedjax_priv.analysis.line_styles import COLOURS
from fedjax_priv.base import Algorithm
from fedjax_priv.clients import local_sgd
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import dp_fedavg

MARGIN = 0.5
"""What a reader would call the same accuracy, in points."""
BATCHES = "batches drawn by coins (theirs are cut from shuffles)"
GROUPS = "features normalised sample by sample in 27 groups (theirs: over all samples, by two noisy releases)"


class Config(NamedTuple):
    """A row at one scale."""

    printed: Row
    row: Row  # what is run
    setting: Setting
    repeats: int
    evaluations: int = 12
    seed: int = 0


def run(config: Config) -> Outcome:
    return judge(config, runs(config))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    return Outcome(draw(config, result), result, claims(config, result), caveats(config, result))


def differs(config: Config, papers: Config) -> str:
    """How batches are drawn and features normalised is another setting, too."""
    found = differences(config, papers)
    batches, groups = papers.printed.shuffled, papers.printed.statistics is not None
    return ", ".join(filter(None, [found, BATCHES if batches else "", GROUPS if groups else ""]))


def algorithm(row: Row, setting: Setting, population: int) -> Algorithm:
    """One gradient step of each client that comes, and the server's optimizer at the row's rate."""
    local = local_sgd(
        losses.softmax_cross_entropy(model_of(setting)), learning_rate=1.0, batch_size=1, num_steps=1
    )  # fmt: skip
    return dp_fedavg(
        local, num_clients=population, clip=row.clip, noise_multiplier=row.noise_multiplier,
        sampling_rate=row.batch / population, server=optax.sgd(row.rate, momentum=row.momentum or None), mesh=None,
    )  # fmt: skip


def runs(config: Config) -> xr.Dataset:
    """`accuracy` in percent by `seed` and `step`, and `failed` rounds by `seed`."""
    of = problem(config.setting)
    return xr.concat([one_run(config, of, seed) for seed in range(config.repeats)], "seed")


def one_run(config: Config, of: Problem, seed: int) -> xr.Dataset:
    """Of one seed: initial parameters, batches and noise."""
    start, key = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), seed))
    whole = simulate(
        algorithm(config.row, config.setting, of.pool.count.size), key, model_of(config.setting).init(start), of.pool,
        rounds=config.row.steps, every=-(-config.row.steps // config.evaluations),
        evaluate=accuracy(config.setting, of), keep=next_run(), progress=False,
    )  # fmt: skip
    kept = whole[["accuracy"]].assign(failed=(whole.status != 0).sum("round"))
    return kept.rename(evaluation="step").reset_coords(drop=True).assign_coords(step=whole.evaluation.values)


def accuracy(setting: Setting, of: Problem) -> Callable[[PyTree], dict[str, Array]]:
    """On the test set, in percent."""
    apply, x, y = model_of(setting).apply, jnp.asarray(of.x_test), jnp.asarray(of.y_test)
    return lambda params: {"accuracy": 100 * (apply(params, x).argmax(1) == y).mean()}


def claims(config: Config, result: xr.Dataset) -> list[Claim]:
    row, at = config.printed, epsilons(config.printed)
    return [
        Claim(
            "printed-epsilon", "the printed eps is that of RDP with the classic conversion, and coins", row.epsilon,
            f"{at[CLASSIC]:.4g}", as_printed(at[CLASSIC], row.epsilon), "the same to the printed digits", differs="",
            note="0.02 above what is printed" if row.epsilon == "9.74" else "",
        ),
        Claim(
            "our-epsilon", "eps by this package, of a sample that is in the data or not, is at most the printed one",
            f"at most {row.epsilon}", f"{at[OURS]:.4g}", at[OURS] <= float(row.epsilon),
            f"privacy-loss distributions; RDP with the tight conversion: {at[TIGHT]:.4g}", source=Source.OURS,
        ),
        same_accuracy(config, result),
        learns(result),
    ]  # fmt: skip


def same_accuracy(config: Config, result: xr.Dataset) -> Claim:
    """By the rule in `published`; another data set says nothing of the printed value."""
    row, last = config.printed, result.accuracy.isel(step=-1)
    found = published.claim(
        "accuracy", "the printed test accuracy, in %", last.values.tolist(),
        published.Printed(row.accuracy, row.deviation, row.runs), MARGIN, unit=" points", better=1,
    )  # fmt: skip
    return found if config.setting.dataset == "mnist" else published.of_other_data(found)


def learns(result: xr.Dataset) -> Claim:
    """The control of the others."""
    first, last = result.accuracy.isel(step=0), over_seeds(result.accuracy.isel(step=-1))
    return Claim(
        "learns", "training under this noise learns", "above 30%, three tenths of the classes",
        f"{float(last.mean):.2f}{plus_minus(float(last.noise))}, from {float(first.mean()):.2f}",
        bool(last.low > 30), "lower end of Student's 95% interval", source=Source.OURS,
    )  # fmt: skip


def caveats(config: Config, result: xr.Dataset) -> list[str]:
    row, population = config.row, config.setting.population
    ran = ours(row, population)
    return [
        f"{population:,} clients of one sample; each comes by its own coin, q = {row.batch:g}/{population}; z = "
        f"{row.noise_multiplier:g}, C = {row.clip:g}, rate {row.rate:g}, {row.steps:,} steps: eps = {ran:.4g} at delta "
        f"= {DELTA:g}, add/remove of a sample, against an outsider who does not see who comes",
        "accuracy at the last step; nothing was tuned or stopped by the test set",
        BANDS,
        f"{int(result.failed.sum())} rounds of all runs failed",
    ]  # fmt: skip


def draw(config: Config, result: xr.Dataset) -> Figure:
    """Accuracy by step beside the printed one, and eps of the row by accountant."""
    row = config.printed
    picture = Figure(figsize=(7.5, 3.2), layout="constrained")
    left, right = picture.subplots(1, 2, width_ratios=(2, 1))
    band(left, result.accuracy, "step", "ours", COLOURS[0], most=100)
    deviation = row.deviation or 0.0
    left.axhspan(row.accuracy - deviation, row.accuracy + deviation, color=COLOURS[1], alpha=0.3)
    left.axhline(row.accuracy, color=COLOURS[1], linestyle="--", label=f"printed, {row.accuracy:g}%, 60,000 samples")
    low = min(row.accuracy, float(result.accuracy.isel(step=slice(1, None)).min()))
    finish(left, config.setting.dataset, xlabel="step", ylabel="test accuracy, %", ylim=(max(0, low - 3), 100))
    at = epsilons(row)
    right.barh(list(at), list(at.values()), color=COLOURS[: len(at)])
    right.axvline(float(row.epsilon), color="black", linestyle="--")
    finish(right, "eps, printed: dashed", xlabel=f"eps at delta = {DELTA:g}")
    return picture
