"""What accuracies under the mimic attack say of the printed table, of its orders, and whether the attack bites."""

import itertools
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments import published
from experiments.anchors.bucketing_printed import BUCKETS, MEAN, ORDER, PRINTED, margin
from experiments.claims import Claim, Open, Source, controlled
from experiments.comparison import MARGIN, Gap, decided, gap, over_seeds
from experiments.drawing import finish
from experiments.harness import COLOURS

BITES = 10.0
"""Points that an attack must cost, or nothing is said of who withstands it."""
SAME = 100 * MARGIN
"""Points that a reader would call the same."""


class Config(NamedTuple):
    """The table at one scale."""

    dataset: str = "mnist"
    rules: tuple[str, ...] = tuple(PRINTED)
    num_honest: int = 20
    num_byzantine: int = 5
    rounds: int = 600
    every: int = 30
    batch_size: int = 32
    learning_rate: float = 0.01
    repeats: int = 3
    seed: int = 0


def claims(last: xr.Dataset, elsewhere: bool) -> list[Claim]:
    """The control, printed cells, and orders; on other data printed values are only something to look at."""
    names = list(last.name.values)
    cells = [cell(last.accuracy, name, size) for name in names for size in (1, BUCKETS)]
    if elsewhere:
        cells = [published.of_other_data(claim) for claim in cells]
    pairs = [pair for pair in itertools.pairwise(ORDER) if {*pair} <= {*names}]
    return [
        control(last), *cells, *(helps(last, name) for name in names if name != MEAN),
        *(above(last, *pair) for pair in pairs),
    ]  # fmt: skip


def lost(last: xr.Dataset, name: str) -> Gap:
    """Points that the attack costs a rule without buckets."""
    return gap(last.alone.sel(name=name), last.accuracy.sel(name=name, size=1))


def control(last: xr.Dataset) -> Claim:
    points = lost(last, MEAN)
    return Claim(
        "mean-loses", "the attack costs the undefended mean 10 points", "about 0 points: it is made against rules",
        f"{points.text(1)} points", decided(points.above(BITES)),
        "Student's 95% interval of paired differences is above 0, their mean above 10", source=Source.OURS,
        why=Open.UNDECIDED, note="if not, a rule that keeps its accuracy protects from nothing",
    )  # fmt: skip


def cell(accuracy: xr.DataArray, name: str, size: int) -> Claim:
    """A printed value; where theirs spread by more than 1.2 points, none of ours can be called the same."""
    printed, points = PRINTED[name][size], margin(PRINTED[name][size])
    found = published.claim(
        f"{name} s = {size}", f"mimic, non-IID, {name}, buckets of {size}: test accuracy, %",
        accuracy.sel(name=name, size=size).values.tolist(), printed, points or np.inf, unit=" points", better=1,
    )  # fmt: skip
    if points:
        return found
    note = f"their deviation is {printed.deviation:g}: orders are compared"
    rule = "none: their deviation is too large"
    return found._replace(verdict=None, why=Open.UNDECIDED, note=note, margin="none", rule=rule)


def helps(last: xr.Dataset, name: str) -> Claim:
    """Testable where the attack costs the rule itself 10 points: it is made against rules, not against the mean."""
    printed = PRINTED[name]
    gain = gap(last.accuracy.sel(name=name, size=BUCKETS), last.accuracy.sel(name=name, size=1))
    claim = Claim(
        f"buckets {name}", f"{name}: buckets of {BUCKETS} are better than none",
        f"{printed[BUCKETS].mean - printed[1].mean:+.1f} points", f"{gain.text(1)} points",
        decided(gain.above(margin=SAME)), "Student's 95% interval of paired differences is above 0", why=Open.UNDECIDED,
    )  # fmt: skip
    return tested(claim, lost(last, name), f"the attack costs {name} without buckets")


def above(last: xr.Dataset, better: str, worse: str) -> Claim:
    """That one rule stands the attack better than another, which it must cost 10 points."""
    apart = gap(last.accuracy.sel(name=better, size=1), last.accuracy.sel(name=worse, size=1))
    claim = Claim(
        f"order {better}, {worse}", f"without buckets, {better} is above {worse}",
        f"{PRINTED[better][1].mean - PRINTED[worse][1].mean:+.1f} points", f"{apart.text(1)} points",
        decided(apart.above(margin=SAME)), "Student's 95% interval of paired differences is above 0",
        why=Open.UNDECIDED,
    )  # fmt: skip
    return tested(claim, lost(last, worse), f"the attack costs {worse} without buckets")


def tested(claim: Claim, points: Gap, what: str) -> Claim:
    """As it is if the attack bites, as sure as that; not testable here if it does not."""
    return controlled(claim, decided(points.bites(BITES)), f"{what} {points.text(1)} points")


def caveats(config: Config, last: xr.Dataset) -> list[str]:
    mean = lost(last, MEAN)
    bites = "" if float(mean.mean) >= BITES else ": that rules protect from more than the mean is not testable here"
    return [
        f"{config.num_honest} honest workers with runs of the samples in label order and {config.num_byzantine} "
        f"Byzantine ones; batches of {config.batch_size}, rate {config.learning_rate:g}, no momentum; "
        f"{config.rounds} steps, the last five evaluations count",
        f"the attack costs the mean {mean.text(1)} points{bites}",
        "dropout masks are the same for all workers, steps and seeds, as theirs are on a GPU (there not for all seeds)",
        "a batch is drawn anew in each step; theirs are consecutive ones of a shuffle for 30 steps",
        "without an attack the Byzantine workers are honest, and hold random samples",
    ]


def draw(result: xr.Dataset, last: xr.Dataset) -> Figure:
    """Bars by rule: without attack, under it without and with buckets; printed values as crosses."""
    names = list(last.name.values)
    picture = Figure(figsize=(max(5.2, 1.6 + 1.1 * len(names)), 3.5), layout="constrained")
    axes = picture.subplots()
    shown = {"no attack": last.alone, "mimic": last.accuracy.sel(size=1), f"mimic, buckets of {BUCKETS}":
             last.accuracy.sel(size=BUCKETS)}  # fmt: skip
    for i, ((label, values), colour) in enumerate(zip(shown.items(), COLOURS, strict=False)):
        mean, noise = over_seeds(values.sel(name=names))
        at = np.arange(len(names)) + 0.27 * (i - 1)
        half = np.where(np.isfinite(noise), np.minimum(noise, mean), 0.0)
        axes.bar(at, mean, 0.25, color=colour, label=label, yerr=half, error_kw={"linewidth": 1})
        if i:
            printed = [PRINTED[name][(1, BUCKETS)[i - 1]].mean for name in names]
            axes.plot(at, printed, "kx", label="printed" if i == 1 else None)
    axes.set_xticks(range(len(names)), names)
    bites = float(lost(last, MEAN).mean) >= BITES
    title = "Mimic, non-IID" + ("" if bites else "\nthe mean keeps its accuracy: protection not testable here")
    finish(axes, title, size=8, ylabel="test accuracy, %", ylim=(0, 125), legend={"ncols": 2})
    return picture
