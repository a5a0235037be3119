"""One variable of runs against another, as means over seeds with Student's interval."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.analysis.intervals import half_width

_EACH_ROUND = "joules"


class Band(NamedTuple):
    """A curve: means over the runs that differ only in the seed.

    `x`, `y` and `half_width` are `[evaluations]`, or `[values]` of an axis, float64. `y +- half_width` is a confidence
    interval for the mean of y; `half_width` is NaN for a single run, which says nothing about noise. `runs` counts runs
    that diverged too: where y of one run is NaN, the mean is NaN.
    """

    x: np.ndarray
    y: np.ndarray
    half_width: np.ndarray
    runs: int


def bands(
    result: xr.Dataset, x: str = "round", y: str = "accuracy", *, adversary: str | None = None, confidence: float = 0.95
) -> dict[str, Band]:
    """Curves of a result, one per point of a sweep without its axis "seed".

    Args:
      result: of `simulate` or `sweep`, or several of these joined along a dimension "seed".
      x: "round"; "bytes" that a client has sent so far, the mean over all places of the cohort, empty ones included
        as 0; "joules" so far, likewise, if the result has them, NaN if they are not known; "epsilon" proved for the
        rounds so far, if the result has it; a variable of the evaluations, such as "seconds"; or a numeric axis of a
        sweep, such as "learning_rate", in ascending order: y is then the value of the last evaluation.
      y: a variable of the evaluations, such as a metric; or "loss", the training loss of the last round before an
        evaluation, the mean over clients that take part and have samples (`result.trains`), NaN if there are none.
      adversary: whose "epsilon"; by default the adversary with the largest figure. If several have the same largest
        figure, the one whose figures add up to most.
      confidence: of the interval, in (0, 1).

    Returns:
      A dict with a key per point of the other axes, such as "learning_rate=0.1"; "" if there are no other axes. Points
      of a sweep that were not run are left out; if x is an axis, y is NaN at these points.

    Raises:
      ValueError: the result has no such variable (the error lists those it has) or no such adversary.

    Examples:
      >>> import xarray as xr
      >>> accuracy = np.array([[0.1, 0.8], [0.1, 0.9], [0.1, 0.7]])
      >>> sweep = xr.Dataset({"accuracy": (("seed", "evaluation"), accuracy)}, {"evaluation": [0, 5]})
      >>> band = bands(sweep)[""]
      >>> print(band.x, band.y, band.half_width.round(3), band.runs)
      [0. 5.] [0.1 0.8] [0.    0.248] 3
    """
    _validate.part(xr.Dataset, "simulate(...)", result=result)
    _validate.one_of(known_x(result), x=x)
    _validate.one_of(known_y(result), y=y)
    both = _at_the_end(result, x, y) if x in numeric_axes(result) else _by_evaluation(result, x, y, adversary)
    axes = [name for name in both.y.dims if name not in ("seed", "evaluation")]
    both = both.expand_dims([name for name in ("seed",) if name not in both.dims]).broadcast_like(both.y)
    points = both.stack(point=axes) if axes else both.expand_dims("point")
    found = {}
    for place in range(points.sizes["point"]):
        point = points.isel(point=place)
        point = point.isel(seed=point.ran.any("evaluation").values)
        label = ", ".join(f"{name}={point[name].item()}" for name in axes)
        if point.sizes["seed"]:
            found[label] = _band(point[["x", "y"]].transpose("seed", "evaluation"), confidence)
    return found


def last_means(result: xr.Dataset, y: str) -> xr.Dataset:
    """Along all axes except "seed": mean `y` of the last evaluation over the seeds that were run; `runs`, how many.

    The mean is NaN if one of the runs diverged, or if none was run.
    """
    last = _vertical(result, y).isel(evaluation=-1).astype(float)
    last = last if "seed" in last.dims else last.expand_dims("seed")
    ran = _ran(result).broadcast_like(last)
    runs = ran.sum("seed")
    return xr.Dataset({"y": last.where(ran, 0.0).sum("seed", skipna=False) / runs.where(runs > 0), "runs": runs})


def known_x(result: xr.Dataset) -> list[str]:
    """The names that `bands` takes as x."""
    there = {"bytes": "up_bytes" in result, _EACH_ROUND: _EACH_ROUND in result, "epsilon": bool(adversaries(result))}
    measured = [name for name, is_there in there.items() if is_there]
    return list(dict.fromkeys(["round", *measured, *_of_evaluations(result), *numeric_axes(result)]))


def known_y(result: xr.Dataset) -> list[str]:
    """The names that `bands` takes as y."""
    return [*_of_evaluations(result), *(["loss"] if {"loss", "trains"} <= {*result} else [])]


def adversaries(*results: xr.Dataset) -> list[str]:
    """Adversaries with a proved figure in all results, the one with the largest figure first.

    If everybody takes part, several adversaries have the same largest figure; then the sum over all points decides.
    """
    figures = [_figures(result) for result in results]
    common = [name for name in figures[0] if all(name in each for each in figures)]
    return sorted(common, key=lambda name: _size(np.concatenate([each[name] for each in figures])), reverse=True)


def common_adversary(results: Sequence[xr.Dataset], adversary: str | None) -> str:
    """The adversary whose eps is compared: `adversary` if given, else the first of `adversaries`.

    Raises:
      ValueError: no adversary has a figure in all results, or `adversary` has none.
    """
    known = adversaries(*results)
    if not known or adversary not in (None, *known):
        raise ValueError(f"adversary must have a figure in all results, as one of {known}, got {adversary!r}")
    return adversary or known[0]


def _figures(result: xr.Dataset) -> dict[str, np.ndarray]:
    """By adversary, the proved figures of all rounds and points; adversaries without a figure are left out."""
    if "epsilon" not in result:
        return {}
    by_name = {str(name): result.epsilon.sel(adversary=name).values.ravel() for name in result.adversary.values}
    return {name: eps[~np.isnan(eps)] for name, eps in by_name.items() if not np.isnan(eps).all()}


def _size(eps: np.ndarray) -> tuple[float, int, float]:
    """A sort key that is larger for larger figures; figures may be infinite."""
    return float(eps.max()), int(np.isinf(eps).sum()), float(eps[np.isfinite(eps)].sum())


def _of_evaluations(result: xr.Dataset) -> list[str]:
    """Metrics and seconds: variables with one number per evaluation and point."""
    others = {"round", "client", "group", "phase", "parameter", "adversary"}
    return [str(name) for name, values in result.data_vars.items()
            if "evaluation" in values.dims and not others & {*values.dims} and values.dtype.kind in "biuf"]  # fmt: skip


def numeric_axes(result: xr.Dataset) -> list[str]:
    """The axes of a sweep whose values are numbers, without "seed"."""
    swept = {name for variable in _of_evaluations(result) for name in result[variable].dims} - {"seed", "evaluation"}
    return [str(name) for name in result.dims if name in swept and result[name].dtype.kind in "iuf"]


def _by_evaluation(result: xr.Dataset, x: str, y: str, adversary: str | None) -> xr.Dataset:
    """Both variables by evaluation, and which runs there are."""
    both = xr.Dataset({"x": _horizontal(result, x, adversary), "y": _vertical(result, y)}).astype(float)
    both = both.isel(evaluation=result.evaluation.values > 0) if y == "loss" or x == "epsilon" else both
    return both.assign(ran=_ran(result))


def _at_the_end(result: xr.Dataset, axis: str, y: str) -> xr.Dataset:
    """An axis and y of the last evaluation, as if the values of the axis were evaluations of one run."""
    last = xr.Dataset({"y": _vertical(result, y).isel(evaluation=-1), "ran": _ran(result)}).sortby(axis)
    return last.assign(x=last[axis].astype(float)).rename({axis: "evaluation"}).drop_vars("evaluation")


def _horizontal(result: xr.Dataset, x: str, adversary: str | None) -> xr.DataArray:
    """x by evaluation, and by the axes on which it depends."""
    if x == "round":
        return result.evaluation.drop_vars("evaluation")
    if x == "epsilon":
        who = adversaries(result)
        _validate.one_of(who, adversary=adversary or who[0])
        return _before_evaluations(result, result.epsilon.sel(adversary=adversary or who[0], drop=True))
    if x in ("bytes", _EACH_ROUND):
        each = result.up_bytes.sum("phase", min_count=1) if x == "bytes" else result[x]
        each = each.mean("client") if "client" in each.dims else each
        return _before_evaluations(result, each.cumsum("round", skipna=False).assign_coords(round=result["round"]))
    return result[x].drop_vars("evaluation")


def _vertical(result: xr.Dataset, y: str) -> xr.DataArray:
    if y == "loss":
        there = result.trains == 1  # False where only other points have a client
        total = result.loss.astype(float).where(there, 0.0).sum("client", skipna=False)
        return _before_evaluations(result, total / there.sum("client").where(there.any("client")))
    return result[y].drop_vars("evaluation")


def _ran(result: xr.Dataset) -> xr.DataArray:
    """Which runs there are: only a run that was not run has no `seconds`, whereas metrics are NaN if a run diverges."""
    return result.seconds.notnull().any("evaluation") if "seconds" in result else xr.DataArray(True)


def _before_evaluations(result: xr.Dataset, by_round: xr.DataArray) -> xr.DataArray:
    """Values of the rounds that end before an evaluation; 0 before the first round."""
    chosen = by_round.reindex(round=result.evaluation.values)
    return chosen.where(chosen["round"] > 0, 0.0).rename(round="evaluation").drop_vars("evaluation")


def _band(point: xr.Dataset, confidence: float) -> Band:
    width = half_width(point.y.values, confidence=confidence)
    mean = point.mean("seed", skipna=False)
    return Band(mean.x.values, mean.y.values, np.where(np.isfinite(width), width, np.nan), point.sizes["seed"])
