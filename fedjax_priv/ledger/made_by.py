"""Whether a run was made by a system, with data, as far as its result says it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from fedjax_priv.base import Algorithm
from fedjax_priv.ledger.entry import Entry
from fedjax_priv.runs.records import mechanism

UNKNOWN = "not known whether algorithm and data are those of this run: its result does not say"
_MANIFEST = "fedjax_priv_version"  # an entry of it


def check_made_by(algorithm: Algorithm, count: np.ndarray, run: xr.Dataset) -> None:
    """Raises ValueError if the run says that it was made otherwise."""
    if mechanism.NAME not in run:
        return
    if run[mechanism.NAME].ndim:
        raise ValueError("run must be one run, got several in a row: of one key they have the same noise")
    if "round" not in run.coords:
        raise ValueError("run must have the coordinate round, by which it is whole, got none")
    here = mechanism.text(mechanism.of(algorithm, count), run.sizes["client"])
    for name, now, before in mechanism.differences(here, run[mechanism.NAME].item()):
        raise ValueError(_refused(name, now, before))


def _refused(name: str, now: Any, before: Any) -> str:
    if name == "places":
        return f"run must have all places of its cohorts, {before}, got {now}"
    if name == "data.clients":
        return f"data must be that of run, of {before} clients, got {now} clients"
    if name == "data.count":
        return "data must be that of run, got clients with other numbers of samples"
    return f"algorithm must be that of run, whose {name} is {_short(before)}, got {_short(now)}"


def _short(value: Any) -> Any:
    """A part by its type."""
    return value.get("type", "many numbers") if isinstance(value, dict) else value


def with_what_is_unknown(entries: Sequence[Entry], run: xr.Dataset) -> list[Entry]:
    """The entries; where a run does not say how it was made, they say so. A plan or a table of yours is no run."""
    if mechanism.NAME in run or _MANIFEST not in run.attrs:
        return [*entries]
    return [one._replace(note="; ".join(filter(None, (one.note, UNKNOWN)))) for one in entries]
