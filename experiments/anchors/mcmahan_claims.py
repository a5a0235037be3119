"""What rounds to a target say of the tables of McMahan et al. 2017: by cell, by order, by initial parameters."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import xarray as xr

from experiments import published
from experiments.anchors.mcmahan_printed import FACTOR, TABLES, Cell
from experiments.anchors.starts import LECUN
from experiments.claims import Claim, Open, Source
from experiments.comparison import Gap, answer, decided, over_seeds


class Tried(NamedTuple):
    """A cell, and what is run of it."""

    cell: Cell
    rounds: int  # at most
    rates: tuple[float, ...]  # a multiplicative grid
    every: int = 1  # rounds between evaluations
    starts: tuple[str, ...] = (LECUN,)
    further: tuple[float, ...] = ()  # rates above the grid, tried since its last one was best; in separate runs

    @property
    def all_rates(self) -> tuple[float, ...]:
        """From the lowest."""
        return self.rates + self.further


class Config(NamedTuple):
    """A table at one scale."""

    cells: tuple[Tried, ...]
    printed: str = "2NN"  # or "CNN": which network, and whose table
    dataset: str = "mnist"
    num_clients: int = 100
    epochs: int = 1  # E
    target: float = 0.97
    repeats: int = 3
    seed: int = 0


class Best(NamedTuple):
    """A cell at the rate that needs the fewest rounds."""

    rate: float
    rounds: xr.DataArray  # by seed; infinite if the target is not reached
    edge: bool  # whether the rate is the first or the last of its grid
    most: int  # rounds of a run; where the target is not reached they are the least it takes

    @property
    def at_least(self) -> xr.DataArray:
        """Rounds by seed that are needed at the least."""
        return self.rounds.clip(max=self.most)

    @property
    def missed(self) -> str:
        """How many runs do not reach the target, if any."""
        never = int((~np.isfinite(self.rounds)).sum())
        return f"more than {self.most:,} rounds in {never} of {self.rounds.size} seeds" if never else ""


def grid(middle: float, below: int = 1, above: int = 1) -> tuple[float, ...]:
    """Powers of 10^(1/3) around one of them."""
    power = round(3 * math.log10(middle))
    return tuple(float(f"{10 ** ((power + k) / 3):.3g}") for k in range(-below, above + 1))


def at_best(tried: Tried, rounds: xr.DataArray, start: str | None = None) -> Best:
    """The rate with the fewest rounds (geometric mean over seeds), rounds by seed there, whether it is an edge.

    Where no rate reaches the target with every seed it is the one that does with most of them.
    """
    values = log(rounds.sel(start=start or tried.starts[0])).isel(rate=slice(len(tried.all_rates)))
    reached = xr.apply_ufunc(np.isfinite, values)
    mean = values.where(reached).mean("seed").fillna(np.inf).values
    place = int(np.lexsort((mean, -reached.sum("seed").values))[0])
    return Best(
        tried.all_rates[place],
        rounds.sel(start=start or tried.starts[0]).isel(rate=place),
        place in (0, len(tried.all_rates) - 1),
        tried.rounds,
    )


def log(rounds: xr.DataArray) -> xr.DataArray:
    return xr.apply_ufunc(np.log, rounds)


def of_cell_printed(config: Config, tried: Tried, best: Best, table: dict[Cell, int]) -> Claim:
    """Logarithms are compared, so the margin is a factor. A rate at the edge of its grid decides nothing good."""
    cell, rate, rounds, factor = tried.cell, best.rate, best.rounds, FACTOR[tried.cell.batch]
    text, printed = f"{config.printed}, {cell.name}: rounds to {config.target:.0%}", table[cell]
    rule = f"a factor of at most {factor:g}, and Welch's 95% interval of the logarithms as narrow"
    blank = Claim(
        f"rounds {cell.name}", text, f"{printed:,} (1 run)", "", None, rule, margin=f"factor {factor:g}",
        why=Open.UNDECIDED, note="their deviation is taken to be ours",
    )  # fmt: skip
    if best.missed:
        return blank._replace(found=best.missed, verdict=slower(best, printed, factor))
    apart = published.compare(np.log(rounds), published.Printed(math.log(printed)), math.log(factor), better=-1)
    found = f"{said(rounds)} at rate {rate:g}, {math.exp(apart.apart):.2f} times the printed"
    if math.isfinite(apart.half):
        found += f" ({math.exp(apart.apart - apart.half):.2f} to {math.exp(apart.apart + apart.half):.2f})"
    claim = blank._replace(found=found, verdict=apart.verdict, why=apart.why, note=f"{blank.note}; {apart.missing}")
    if best.edge and claim.why != Open.BETTER:  # a better rate could only widen a lead
        claim = claim._replace(verdict=None, note=f"the best rate is at the edge of its grid; {claim.note}")
    return claim


def slower(best: Best, printed: int, factor: float) -> bool | None:
    """False if more rounds than printed are needed, though some runs end before the target: they count as `most`.

    None if that is not decided, or if the rate is at the edge of its grid, as it is where no run of any gets there.
    """
    apart = published.compare(log(best.at_least), published.Printed(math.log(printed)), math.log(factor))
    return False if apart.verdict is False and apart.apart > 0 and not best.edge else None


def said(rounds: xr.DataArray) -> str:
    """Geometric mean and range; the target may not have been reached."""
    if not np.isfinite(rounds).all():
        return "not reached"
    low, high = float(rounds.min()), float(rounds.max())
    return f"{float(np.exp(np.log(rounds).mean())):.1f} rounds ({low:.1f} to {high:.1f}, {rounds.size} seeds)"


def pairs(cells: list[Cell]) -> list[tuple[Cell, Cell]]:
    """Cells that differ in one thing, the one that should need more rounds first."""
    alike = lambda one, other: sum(a != b for a, b in zip(one, other, strict=True)) == 1
    both = [(a, b) for a, b in itertools.permutations(cells, 2) if alike(a, b)]
    return [
        (a, b) for a, b in both
        if (a.batch is None and b.batch) or (a.fraction < b.fraction) or (a.partition, b.partition) == ("shards", "iid")
    ]  # fmt: skip


def never_there(best: dict[Cell, Best], *cells: Cell) -> str:
    """How many runs of which cells do not reach the target, if any."""
    return "; ".join(f"{cell.name}: {best[cell].missed}" for cell in cells if best[cell].missed)


def ratios(slow: Best, quick: Best) -> tuple[xr.DataArray, xr.DataArray]:
    """The least and the largest logarithm of their ratio, seed by seed; NaN where a run that ends leaves it open."""
    known = lambda rounds: log(rounds.where(np.isfinite(rounds)))
    return log(slow.at_least) - known(quick.rounds), known(slow.rounds) - log(quick.at_least)


def order(slow: Cell, quick: Cell, best: dict[Cell, Best], table: dict[Cell, int]) -> Claim:
    """That one cell needs more rounds than another, by runs that share their seeds."""
    ratio = table[slow] / table[quick]
    least, most = map(over_seeds, ratios(best[slow], best[quick]))
    missed = never_there(best, slow, quick)
    claim = Claim(
        f"order {slow.name}; {quick.name}", f"{slow.name} needs more rounds than {quick.name}", f"{ratio:.2f} times",
        missed or factors(least), None, "Student's 95% interval of the logarithms of paired ratios is above 0",
        why=Open.UNDECIDED,
    )  # fmt: skip
    above = [apart.above(margin=math.log(1.25)) for apart in (least, most)]
    verdict = decided(answer(above[0] > 0, above[1] < 0))
    if verdict is not None and best[slow if verdict else quick].edge:  # at a better rate it needs fewer
        return claim._replace(note="a best rate is at the edge of its grid")
    return claim._replace(verdict=verdict if ratio > 1 else None)


def same_ratio(slow: Cell, quick: Cell, best: dict[Cell, Best], table: dict[Cell, int]) -> Claim:
    """Whether the rounds of two cells have the printed ratio; what moves all rounds by one factor leaves it alone."""
    printed, factor = table[slow] / table[quick], max(FACTOR[slow.batch], FACTOR[quick.batch])
    claim = Claim(
        f"ratio {slow.name}; {quick.name}", f"rounds of {slow.name}, of those of {quick.name}", f"{printed:.2f} times",
        "", None, f"a factor of at most {factor:g}, and Welch's 95% interval of the logarithms as narrow",
        why=Open.UNDECIDED, margin=f"factor {factor:g}",
    )  # fmt: skip
    least, most = ratios(best[slow], best[quick])
    apart, other = (
        published.compare(each, published.Printed(math.log(printed)), math.log(factor)) for each in (least, most)
    )
    missed = never_there(best, slow, quick)
    found = missed or f"{factors(over_seeds(least))}, {math.exp(apart.apart):.2f} times the printed"
    if best[slow].edge or best[quick].edge:
        return claim._replace(found=found, note="a best rate is at the edge of its grid")
    if missed:
        apart_anyway = (apart.verdict is False and apart.apart > 0) or (other.verdict is False and other.apart < 0)
        return claim._replace(found=found, verdict=False if apart_anyway else None)
    return claim._replace(found=found, verdict=apart.verdict, note=apart.missing)


def factors(apart: Gap) -> str:
    """Of a difference of logarithms."""
    low, high = (math.exp(float(end)) for end in (apart.low, apart.high)) if np.isfinite(apart.noise) else (0, math.inf)
    return f"{math.exp(float(apart.mean)):.2f} times ({low:.2f} to {high:.2f})"


def other_start(config: Config, tried: Tried, result: xr.Dataset) -> Claim:
    """Whether initial parameters explain why the printed number of rounds is larger: each start at its best rate."""
    of = result.rounds.sel(place=tried.cell.name)
    needed = {start: at_best(tried, of, start) for start in tried.starts}
    printed = TABLES[config.printed][tried.cell] / FACTOR[tried.cell.batch]
    settled = [at for at in needed.values() if not at.edge and np.isfinite(at.rounds).all()]
    explained = any(float(np.log(at.rounds).mean()) >= math.log(printed) for at in settled)
    return Claim(
        f"starts {tried.cell.name}", f"initial parameters explain the printed rounds, {tried.cell.name}",
        f"one of {len(tried.starts)} starts needs {printed:.0f} or more",
        "; ".join(f"{start}: {said(at.rounds)} at {at.rate:g}{' (edge)' * at.edge}" for start, at in needed.items()),
        True if explained else False if len(settled) == len(needed) else None,
        "a start, at its best rate inside the grid, needs the printed rounds by the margin", source=Source.OURS,
        why=Open.UNDECIDED,
    )  # fmt: skip
