"""What accuracies under the mimic attack say of the printed table, of its orders, and whether the attack bites."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments import published
from experiments.anchors.bucketing_printed import BUCKETS, MEAN, ORDER, PRINTED, margin
from experiments.claims import Claim, Open, Source, controlled
from experiments.comparison import MARGIN, Gap, decided, gap, over_seeds
from experiments.drawing import finish
from fedjax_priv.analysis.line_styles import COLOURS

SHARE = 6 / 8
"""Of the accuracies of rules, how many the interval must hold at least."""
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
    controls: int = 3  # the first seeds, at most all: with them the mean is attacked, and rules run without attack
    seed: int = 0


class Last(NamedTuple):
    """Percent, the mean of the last five evaluations."""

    rules: xr.DataArray  # [name, size, seed]
    mean: xr.DataArray  # [size, seed], of the controls
    alone: xr.DataArray  # [name, seed], of the controls

    @property
    def names(self) -> list[str]:
        """Of rules and the mean, as in the data."""
        return list(self.alone["name"].values)

    def attacked(self, name: str, size: int) -> xr.DataArray:
        """By seed."""
        return self.mean.sel(size=size) if name == MEAN else self.rules.sel(name=name, size=size)


def last_of(config: Config, result: xr.Dataset) -> Last:
    """The end of all runs."""
    ends = result.isel(evaluation=slice(-5, None)).mean("evaluation", skipna=False)
    few = ends.isel(seed=slice(config.controls))
    protected = [name for name in ends["name"].values if name != MEAN]
    return Last(ends.accuracy.sel(name=protected), few.accuracy.sel(name=MEAN), few.alone)


def claims(last: Last, elsewhere: bool) -> list[Claim]:
    """The control, printed cells, and orders; on other data printed values are only something to look at."""
    rules = [name for name in last.names if name != MEAN]
    cells = [cell(last, name, size) for name in last.names for size in (1, BUCKETS)] + [joint(last, rules)]
    if elsewhere:
        cells = [published.of_other_data(claim) for claim in cells]
    pairs = [pair for pair in itertools.pairwise(ORDER) if {*pair} <= {*rules}]
    return [control(last), *cells, *(helps(last, name) for name in rules), *(above(last, *pair) for pair in pairs)]


def lost(last: Last, name: str) -> Gap:
    """Points that the attack costs a rule without buckets, by the seeds that both were run with."""
    return gap(last.alone.sel(name=name), last.attacked(name, 1))


def control(last: Last) -> Claim:
    points = lost(last, MEAN)
    return Claim(
        "mean-loses", "the attack costs the undefended mean 10 points", "about 0 points: it is made against rules",
        f"{points.text(1)} points", decided(points.above(BITES)),
        "Student's 95% interval of paired differences is above 0, their mean above 10", source=Source.OURS,
        why=Open.UNDECIDED, note="if not, a rule that keeps its accuracy protects from nothing",
    )  # fmt: skip


def cell(last: Last, name: str, size: int) -> Claim:
    """A printed value; where theirs spread by more than 1.2 points, none of ours can be called the same."""
    printed, points = PRINTED[name][size], margin(PRINTED[name][size])
    found = published.claim(
        f"{name} s = {size}", f"mimic, non-IID, {name}, buckets of {size}: test accuracy, %",
        last.attacked(name, size).values.tolist(), printed, points or np.inf, unit=" points", better=1,
    )  # fmt: skip
    if points:
        return found
    note = f"their deviation is {printed.deviation:g}: orders are compared"
    rule = "none: their deviation is too large"
    return found._replace(verdict=None, why=Open.UNDECIDED, note=note, margin="none", rule=rule)


def joint(last: Last, rules: list[str]) -> Claim:
    """How many accuracies of rules the printed ones do not exclude: weaker than "reproduced", which needs a margin."""
    found = [
        published.compare(last.attacked(name, size), PRINTED[name][size], np.inf)
        for name in rules for size in (1, BUCKETS)
    ]  # fmt: skip
    near, least = sum(each.inside for each in found), math.ceil(SHARE * len(found))
    known = all(math.isfinite(each.half) for each in found)
    return Claim(
        "joint", f"at least {least} of {len(found)} accuracies differ from printed ones by no more than seeds explain",
        "", f"{near} of {len(found)}" if known else "there is no interval",
        near >= least if known else None, "Welch's 95% interval of the difference holds 0", source=Source.OURS,
        why=Open.UNDECIDED, note="a wide interval holds much: theirs are of three runs, which spread up to 9 points",
    )  # fmt: skip


def helps(last: Last, name: str) -> Claim:
    """Testable where the attack costs the rule itself 10 points: it is made against rules, not against the mean."""
    printed = PRINTED[name]
    gain = gap(last.attacked(name, BUCKETS), last.attacked(name, 1))
    claim = Claim(
        f"buckets {name}", f"{name}: buckets of {BUCKETS} are better than none",
        f"{printed[BUCKETS].mean - printed[1].mean:+.1f} points", f"{gain.text(1)} points",
        decided(gain.above(margin=SAME)), "Student's 95% interval of paired differences is above 0", why=Open.UNDECIDED,
    )  # fmt: skip
    return tested(claim, lost(last, name), f"the attack costs {name} without buckets")


def above(last: Last, better: str, worse: str) -> Claim:
    """That one rule stands the attack better than another, which it must cost 10 points."""
    apart = gap(last.attacked(better, 1), last.attacked(worse, 1))
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


def caveats(config: Config, last: Last) -> list[str]:
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


def draw(last: Last) -> Figure:
    """Bars by rule: without attack, under it without and with buckets; printed values as crosses."""
    names = last.names
    picture = Figure(figsize=(max(5.2, 1.6 + 1.1 * len(names)), 3.5), layout="constrained")
    axes = picture.subplots()
    shown = {
        "no attack": [last.alone.sel(name=name) for name in names],
        "mimic": [last.attacked(name, 1) for name in names],
        f"mimic, buckets of {BUCKETS}": [last.attacked(name, BUCKETS) for name in names],
    }
    for i, ((label, values), colour) in enumerate(zip(shown.items(), COLOURS, strict=False)):
        mean, noise = np.array([over_seeds(each) for each in values], np.float64).T
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
