"""A point of a sweep, as the run alone would be."""

import xarray as xr

from fedjax_priv.runs.records.measured_names import without_axes

_EACH = ("round", "client")
_KINDS = {"client_id": int, "counted": bool, "trains": bool}
"""Numbers of a sweep are floats where a point lacks them."""
_OPTIONAL = ("sat_out", "rejected")
"""What an accountant asks about if it was measured. NaN in other numbers is for it to judge."""


def run_alone(run: xr.Dataset) -> xr.Dataset:
    """A run as `simulate` returns it, without rounds, clients and numbers that only others of its sweep have.

    Raises:
      ValueError: it is a sweep, not a point of one, or a point that was not run.
    """
    if (dims := run.client_id.dims) != _EACH:
        raise ValueError(f"run must be one run, such as result.sel(seed=0) of a sweep, got client_id by {dims}")
    run = without_axes(run)
    here = run.client_id.notnull()
    if not here.size:
        return run
    if not here.any():
        raise ValueError("run must be one that was run, got a point of a sweep that was not")
    if not here.all():
        run = run.isel({dim: here.any(other).values for dim, other in zip(_EACH, _EACH[::-1], strict=True)})
    run = run.drop_vars([name for name in _OPTIONAL if name in run and run[name].isnull().all()])
    return run.assign({name: run[name].astype(kind) for name, kind in _KINDS.items() if name in run})
