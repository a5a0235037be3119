"""FedBuff and FedAvg in virtual time, by how many clients train at once and by how far their speeds spread.

Clients, jobs and speeds are those of `virtual_time`. FedBuff makes a model of every 10 arrivals, however many train; a
round of FedAvg has as many clients as train at once, and waits for the slowest.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.asynchronous import virtual_time
from experiments.asynchronous.virtual_time import INTERVALS, Within, draw_curves, log_ratio, missed, steps, within
from experiments.claims import Claim, Open, Source, joined, told_apart
from experiments.comparison import IN_LAW, answer, decided, from_law, over_seeds
from experiments.drawing import BANDS, finish
from experiments.harness import Outcome, span

CLEARLY = 1.5
"""Times as fast: what more clients must gain FedBuff, and not FedAvg."""


class Config(NamedTuple):
    """How many train, of the clients of `virtual_time`."""

    concurrencies: tuple[int, ...] = (10, 20, 40, 70)
    spreads: tuple[float, ...] = (0.0, 0.5, 1.0)
    flushes: int = 240  # of FedBuff
    rounds: int = 60  # of FedAvg
    repeats: int = 10
    seed: int = 0

    def at(self, concurrency: int) -> virtual_time.Config:
        """The setting of one number of clients."""
        return virtual_time.Config(
            concurrency=concurrency, spreads=self.spreads, rounds=self.rounds, repeats=self.repeats, seed=self.seed
        )

    @property
    def about(self) -> virtual_time.Config:
        """What all have in common."""
        return self.at(self.concurrencies[0])


def run(config: Config) -> Outcome:
    """All runs, and what came of them."""
    found = [virtual_time.runs(config.at(m), config.flushes) for m in config.concurrencies]
    return judge(config, xr.concat(found, xr.IndexVariable("concurrency", list(config.concurrencies))))


def judge(config: Config, result: xr.Dataset) -> Outcome:
    """The outcome from the data of the runs."""
    about, ours, theirs = config.about, *times(config, result)
    ends = result.buffered_time.isel(flush=-1), result.time.isel(round=-1)
    lead = within(theirs, ours, ends[::-1])
    claims = [
        staleness(config, result), earlier(config, ours, theirs, lead), wider(ours, theirs, lead),
        more(config, ours, theirs, ends), cost(config, result),
    ]  # fmt: skip
    said = (
        f"digits, softmax regression, {about.num_clients} clients with equal laws of data, buffers of "
        f"{about.buffer_size}, over {config.repeats} seeds; virtual time in mean jobs; {BANDS}"
    )
    return Outcome(draw(config, result), result, claims, [said])


def times(config: Config, result: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Virtual time at which FedBuff and FedAvg first reach the target, by concurrency, spread and seed."""
    ours = virtual_time.time_to(config.about, result.buffered_accuracy, result.buffered_time, "flush")
    return ours, virtual_time.time_to(config.about, result.accuracy, result.time, "round")


def staleness(config: Config, result: xr.Dataset) -> Claim:
    """(M - 1) / K for every M, in the second half, once slow clients have arrived; the control is M / K."""
    late = result.staleness.isel(flush=slice(config.flushes // 2, None)).mean("flush")
    train = xr.DataArray(list(config.concurrencies), {"concurrency": late.concurrency})
    expected, other = (train - 1) / config.about.buffer_size, train / config.about.buffer_size
    said = lambda values: ", ".join(f"{value:.2f} at {m}" for m, value in zip(train.values, values.values, strict=True))
    near = abs(late.mean(("seed", "spread")) / expected - 1) < 0.05
    claim = Claim(
        "staleness", "an arrival is (M - 1) / K rounds behind on average, however many train", said(expected),
        said(late.mean(("seed", "spread"))),
        decided(xr.concat([from_law(late, expected).vanishes(), answer(near, ~near)], "rule")),
        f"within 5% at every M, and at every spread {IN_LAW}", "", Source.OURS, Open.UNDECIDED,
    )  # fmt: skip
    rejected = (from_law(late, other).vanishes() < 0).any("spread")
    return told_apart(claim, bool(rejected.all()), f"M / K is rejected at {int(rejected.sum())} of {len(train)} M")


def earlier(config: Config, ours: xr.DataArray, theirs: xr.DataArray, lead: Within) -> Claim:
    """FedBuff is ahead at every concurrency and spread."""
    ahead = over_seeds(log_ratio(theirs, ours))
    return Claim(
        "earlier", f"FedBuff has {config.about.target:.0%} accuracy earlier than FedAvg, however many train and "
        "however speeds spread", "", f"{span(np.exp(ahead.mean.values))} times", decided(lead.above()),
        f"the ratio of times is above 1 at every M and spread; {INTERVALS}", missed(ours, theirs), Source.OURS,
        Open.UNDECIDED,
    )  # fmt: skip


def wider(ours: xr.DataArray, theirs: xr.DataArray, lead: Within) -> Claim:
    """More so the wider speeds spread."""
    ahead = log_ratio(theirs, ours)
    ratio = np.exp(ahead.mean("seed").transpose("concurrency", "spread").values)
    said = "; ".join(
        f"M = {m}: {', '.join(f'{a:.1f}' for a in row)}" for m, row in zip(ours.concurrency.values, ratio, strict=True)
    )
    return Claim(
        "wider", "the wider speeds spread, the more, however many train", "", said,
        decided(steps(lead).above()), f"the ratio grows from each spread to the next; {INTERVALS}",
        missed(ours, theirs), Source.OURS, Open.UNDECIDED,
    )  # fmt: skip


def more(config: Config, ours: xr.DataArray, theirs: xr.DataArray, ends: tuple[xr.DataArray, xr.DataArray]) -> Claim:
    """What more clients gain: models come M / K times as often, while a round of FedAvg only gets longer."""
    of = lambda time, place: time.isel(concurrency=place, drop=True)
    gain = lambda time: log_ratio(of(time, 0), of(time, -1))
    bounds = lambda time, end: within(of(time, 0), of(time, -1), (of(end, 0), of(end, -1)))
    clearly = Within(xr.DataArray(np.log(CLEARLY)), xr.DataArray(np.log(CLEARLY)))
    buffered, synchronous = (bounds(time, end) for time, end in zip((ours, theirs), ends, strict=True))
    few, many = config.concurrencies[0], config.concurrencies[-1]
    shown = lambda gains: span(np.exp(gains.mean("seed").values))
    clear = [buffered.minus(clearly), clearly.minus(synchronous)]
    return Claim(
        "more", f"more clients make FedBuff faster and FedAvg hardly: {many} against {few}", "",
        f"FedBuff {shown(gain(ours))} times as fast, FedAvg {shown(gain(theirs))} times",
        decided(xr.concat([one.above() for one in clear], "system")),
        f"at every spread FedBuff is over {CLEARLY:g} times as fast, FedAvg less; {INTERVALS}",
        joined(f"with {many / few:g} times the clients", missed(*(of(time, [0, -1]) for time in (ours, theirs)))),
        Source.OURS, Open.UNDECIDED,
    )  # fmt: skip


def cost(config: Config, result: xr.Dataset) -> Claim:
    """What they cost: stale updates help less."""
    about = config.about
    jobs = virtual_time.jobs_to(about, result.buffered_accuracy, "flush", about.buffer_size)
    most, few = result.sizes["flush"] * about.buffer_size, jobs.isel(concurrency=0, drop=True)
    dearer = within(jobs.isel(concurrency=-1, drop=True), few, (most, most))
    over_spreads = Within(*(bound.mean("spread", skipna=False) for bound in dearer))
    means = jobs.mean(("seed", "spread")).values
    said = ", ".join(f"{a:.0f} at {m}" for m, a in zip(config.concurrencies, means, strict=True))
    return Claim(
        "cost", "and cost jobs: the more train, the staler updates are, and the more of them the target takes", "",
        said, decided(over_spreads.above()),
        f"more jobs until the target with most clients than with fewest, on average over spreads; {INTERVALS}",
        missed(jobs.isel(concurrency=[0, -1])), Source.OURS, Open.UNDECIDED,
    )  # fmt: skip


def draw(config: Config, result: xr.Dataset) -> Figure:
    """A panel for each concurrency and spread: accuracy over virtual time."""
    rows, columns = len(config.spreads), len(config.concurrencies)
    figure = Figure(figsize=(3.0 * columns + 0.4, 2.5 * rows + 0.3), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True, sharex="row")
    for row, spread in zip(panels, config.spreads, strict=True):
        for axes, m in zip(row, config.concurrencies, strict=True):
            draw_curves(axes, result.sel(spread=spread, concurrency=m), config.about.target)
            finish(axes, f"{m} train, spread {spread:g}")
        row[0].set_ylabel("test accuracy")
    for axes in panels[-1]:
        axes.set_xlabel("virtual time, mean jobs")
    return figure
