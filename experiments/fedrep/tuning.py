"""The learning rate of a curve: the best of a grid, which is widened until the best is inside."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr


def tuned(run: Callable[[Sequence[float]], xr.Dataset], rates: Sequence[float], widenings: int) -> xr.Dataset:
    """Runs at the best rate, over as wide a grid as that needs; a single rate is not tuned.

    Args:
      run: runs at some rates: `accuracy` with the dimensions `rate`, `attack`, `seed` and `epoch`, among others.
      rates: where to begin.
      widenings: at most so many; a best rate that is at the edge even then leaves a claim without a verdict.

    Returns:
      What `best` returns.
    """
    runs = run(rates)
    for _ in range(widenings):
        more = beyond(best(runs).rate.values, runs.rate.values)
        if not more:
            break
        runs = xr.concat([runs, run(more)], "rate").sortby("rate")
    return best(runs)


def beyond(chosen: np.ndarray, tried: np.ndarray) -> list[float]:
    """Rates to try next: past each edge of those tried that one of the chosen is at."""
    if len(tried) < 2:
        return []
    lower = [neighbour(tried.min(), -1)] if np.isclose(chosen, tried.min()).any() else []
    return lower + ([neighbour(tried.max(), 1)] if np.isclose(chosen, tried.max()).any() else [])


def neighbour(rate: float, steps: int) -> float:
    """The next one of 1, 2, 5, 10, ..., whose steps are 10^(1/3), as the paper's; from a rate of that series."""
    tens, place = divmod(round(3 * math.log10(rate)) + steps, 3)
    return float(f"{(1, 2, 5)[place]}e{tens}")


def best(runs: xr.Dataset) -> xr.Dataset:
    """Runs at the rate with the best accuracy at the end, a mean over attacks and seeds; `end` has that of all."""
    end = runs.accuracy.isel(epoch=-1, drop=True).mean(("attack", "seed"))
    return runs.isel(rate=end.argmax("rate")).reset_coords("rate").assign(end=end.rename(rate="tried"))


def at_edge(result: xr.Dataset) -> list[str]:
    """Curves of which a best rate is the least or the largest of several that were tried."""
    found = []
    for name in map(str, result.curve.values):
        tried = result.end.sel(curve=name).dropna("tried", how="all").tried.values
        if beyond(result.rate.sel(curve=name).values, tried):
            found.append(name)
    return found
