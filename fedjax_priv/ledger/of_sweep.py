"""Eps of every run of a sweep, round by round."""

from collections.abc import Callable, Mapping

import jax
import numpy as np
import xarray as xr

from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.ledger.by_round import epsilon_by_round
from fedjax_priv.ledger.run_alone import run_alone
from fedjax_priv.runs.grid import Axis, Grid, Point, checked_grid
from fedjax_priv.runs.records import mechanism
from fedjax_priv.runs.shared_programs import axis_kinds

_READ = (
    "client_id", "trains", "counted", "status", "join_probability", "gain", "up_bytes", "staleness", "factor", "level",
    "sat_out", mechanism.NAME, "antenna_gains", "coefficient_real", "coefficient_imaginary",
)  # fmt: skip
"""Of a run, by accountants. They are given nothing else, so that runs which share an answer are alike in all of it."""


def epsilon_of_sweep(
    make: Callable[..., Algorithm],
    axes: Mapping[str, Axis],
    result: xr.Dataset,
    data: ClientData | Callable[..., ClientData],
    *,
    delta: float,
) -> xr.DataArray:
    """`epsilon_by_round` at every point of a sweep; it is computed once for points that give it the same input.

    Args:
      make: as of `sweep`.
      axes: as of `sweep`.
      result: what `sweep` returned.
      data: as of `sweep`.
      delta: as in `ledger`.

    Returns:
      `[*axes, adversary, round]`, float64, named "epsilon": NaN where nothing is proved, where a point's ledger knows
      no such adversary, and at points that were not run.

    Raises:
      ValueError: as `ledger`, or `axes` are not those of the sweep.

    Examples:
      >>> result = sweep(make, axes, key, params, data, rounds=50)  # doctest: +SKIP
      >>> result = result.assign(epsilon=epsilon_of_sweep(make, axes, result, data, delta=1e-5))  # doctest: +SKIP
    """
    grid = checked_grid(axes)
    if any(list(result[name].values) != list(labels) for name, labels in zip(grid.names, grid.labels, strict=True)):
        raise ValueError(f"axes must be those of the sweep, {dict(result.sizes)}, got {grid.labels}")
    answers: dict[tuple, xr.DataArray] = {}
    found = {}
    for point in grid.points:
        run = _run_at(result, grid, point)
        if run is not None:
            algorithm, samples = _made(make, data, grid, point)
            question = _question(algorithm, run, samples)
            if question not in answers:
                answers[question] = epsilon_by_round(algorithm, run, samples, delta=delta)
            found[point] = answers[question]
    return _joined(found, grid, result, delta)


def _run_at(result: xr.Dataset, grid: Grid, point: Point) -> xr.Dataset | None:
    """What accountants read of a run; None: it was not finished."""
    run = result.isel(dict(zip(grid.names, point, strict=True)))
    if np.isnan(run.failed_rounds):
        return None
    run = run_alone(run)
    return run[[name for name in _READ if name in run]]


def _made(
    make: Callable[..., Algorithm], data: ClientData | Callable[..., ClientData], grid: Grid, point: Point
) -> tuple[Algorithm, ClientData]:
    kinds, values = axis_kinds(grid, make, data, ()), grid.at(point)
    of = lambda names: {name: value for name, value in values.items() if name in names}
    samples = data if isinstance(data, ClientData) else data(**of(kinds.data))
    return make(**of(kinds.static | kinds.traced)), samples


def _question(algorithm: Algorithm, run: xr.Dataset, data: ClientData) -> tuple:
    """All that an accountant reads, as bytes."""
    leaves, structure = jax.tree.flatten((algorithm.release, algorithm.steps, data.count))
    read = [values for name in run.data_vars for values in (str(name), _plain(run[name].values))]
    bytes_of = lambda a: a if isinstance(a, str) or callable(a) else (np.asarray(a).tobytes(), np.shape(a))
    lies = () if algorithm.lying_server is None else algorithm.lying_server.lies
    said = run.attrs.get("num_params"), algorithm.period, algorithm.by_coins
    return (structure, lies, said, *map(bytes_of, leaves), *map(bytes_of, read))


def _plain(values: np.ndarray) -> np.ndarray | str:
    """Texts of a file are objects, whose bytes are addresses."""
    return values if values.dtype.kind in "biufc" else str(values.tolist())


def _joined(found: Mapping[Point, xr.DataArray], grid: Grid, result: xr.Dataset, delta: float) -> xr.DataArray:
    names = list(dict.fromkeys(str(name) for one in found.values() for name in one.adversary.values))
    shape = (*map(len, grid.labels), len(names), result.sizes["round"])
    values = np.full(shape, np.nan)
    for point, one in found.items():
        places = [names.index(str(name)) for name in one.adversary.values]
        values[(*point, places)] = one.reindex(round=result["round"]).values
    return xr.DataArray(
        values,
        {**{name: list(labels) for name, labels in zip(grid.names, grid.labels, strict=True)},
         "adversary": names, "round": result["round"]},
        (*grid.names, "adversary", "round"),
        "epsilon",
        {"long_name": "eps of the rounds so far, at most", "units": "1", "delta": delta},
    )  # fmt: skip
