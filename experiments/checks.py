"""What every experiment must write, and the verdicts it must reach at scale `quick`."""

import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import xarray as xr

from experiments.cards import HERE, Result
from experiments.claims import Claim, Open
from experiments.expected import AT_QUICK

_DESCRIBED = {"commit", "device_kind", "date", "jax_version", "command", "seed", "scale", "seconds", "caveats"}
_PNG_BYTES = range(4_000, 220_000)


def problems(result: Result) -> list[str]:
    """What is wrong with results; empty if nothing is."""
    try:
        found = [*_of_files(result), *_of_claims(result)]
    except OSError as error:
        return [f"a file cannot be read: {error}"]
    if result.scale == "quick":
        found += _unexpected(result)
    return found


def _of_files(result: Result) -> Iterator[str]:
    name, described = result.card.name, result.manifest
    size = (result.folder / f"{name}.png").stat().st_size
    if size not in _PNG_BYTES:
        yield f"{name}.png has {size:,} bytes"
    if missing := _DESCRIBED - {key for key, value in described.items() if value != ""}:
        yield f"manifest.json lacks {', '.join(sorted(missing))}"
    if described.get("scale") != result.scale:
        yield f"manifest.json is of scale {described.get('scale')}"
    if places := [place for place in _places() if place in json.dumps(described)]:
        yield f"manifest.json names {', '.join(places)}"
    yield from _of_data(result.folder / f"{name}.nc", described.get("commit"))


def _of_data(file: pathlib.Path, commit: str | None) -> Iterable[str]:
    try:
        with xr.open_dataset(file, engine="h5netcdf") as data:
            return [*_of_values(file.name, data, commit)]
    except OSError:
        raise
    except Exception as error:  # what HDF5 raises depends on the byte that is wrong
        return [f"{file.name} is broken: {str(error).partition(chr(10))[0]}"]


def _of_values(file: str, data: xr.Dataset, commit: str | None) -> Iterator[str]:
    if not data.data_vars:
        yield f"{file} is empty"
    if data.attrs.get("commit") != commit:
        yield f"{file} is of another commit than manifest.json"
    for name, values in data.data_vars.items():
        number = np.issubdtype(values.dtype, np.number) or values.dtype == bool
        if not (np.isfinite(values) if number else values != "").any():
            yield f"{name} in {file} has no {'finite ' if number else ''}value"


def _of_claims(result: Result) -> Iterator[str]:
    if not result.claims:
        yield "no claims"
    for id, count in Counter(claim.id for claim in result.claims).items():
        if count > 1 or not id:
            yield f"{count} claims have the id '{id}'"
    for claim in result.claims:
        if claim.verdict not in (True, False, None) or not claim.found:
            yield f"claim without a verdict: {claim.id}"
        if claim.differs is None:
            yield f"claim that does not say how its setting differs from the paper's: {claim.id}"
        if claim.verdict is None and claim.why == Open.UNTESTABLE and not claim.control:
            yield f"claim that is not testable without a control that shows it: {claim.id}"


def _unexpected(result: Result) -> Iterator[str]:
    found = {claim.id: claim for claim in result.claims}
    for id, verdict in AT_QUICK.get(f"{result.card.paper}.{result.card.name}", {}).items():
        if id not in found:
            yield f"claim '{id}' is missing"
        elif found[id].said != (expected := _with(found[id], verdict).said):
            yield f"claim '{id}' came out as '{found[id].said}', expected '{expected}'"


def _with(claim: Claim, verdict: bool | Open) -> Claim:
    return claim._replace(verdict=verdict) if isinstance(verdict, bool) else claim._replace(verdict=None, why=verdict)


def _places() -> set[str]:
    """Folders of this machine, which results must not name."""
    return {str(place) for place in (pathlib.Path.cwd(), pathlib.Path.home(), HERE.parent)} - {"/"}
