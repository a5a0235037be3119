"""The mechanism of a run: what its privacy rests on besides who came, as JSON in its result.

It lets a ledger refuse a run of another system. Functions are recorded as such, and arrays by a few means, since they
may be computed elsewhere, with other rounding. So two runs with the same mechanism may still differ in these.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from fedjax_priv.base import Algorithm
from fedjax_priv.engine import processes

NAME = "mechanism"
ABOUT = {"long_name": "what privacy rests on besides who came, as JSON"}
_OMITTED = {"condition", "elide", "expansion", "prg", "modulus", "agreement"}
"""Fields of a release on which no figure rests: its words, and how masks are made that cancel."""
_CLOSE = 1e-5  # relative: float32 against float64, one device against another


def of(algorithm: Algorithm, count: Any) -> dict[str, Any]:
    """The mechanism of an algorithm on clients with so many samples, in values that JSON can hold."""
    here = np.asarray(processes.on_host(count)).astype(np.int64)
    server = algorithm.lying_server
    return {
        "release": _plain(algorithm.release),
        "steps": _plain(algorithm.steps),
        "period": int(algorithm.period),
        "by_coins": bool(algorithm.by_coins),
        "lies": [] if server is None else [server.lists is not None, server.models is not None],
        "data": {"clients": here.size, "count": hashlib.sha256(here.tobytes()).hexdigest()[:16]},
    }


def text(mechanism: Mapping[str, Any], places: int) -> str:
    """The JSON of a mechanism, of a run with so many places in a cohort."""
    return json.dumps({**mechanism, "places": places})


def differences(here: str, there: str) -> Iterator[tuple[str, Any, Any]]:
    """Name and both values of what differs; what only one of them has, as of another version, does not count."""
    return _differences("", json.loads(here), json.loads(there))


def _differences(name: str, here: Any, there: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(here, dict) and isinstance(there, dict):
        for field in filter(there.__contains__, here):
            yield from _differences(f"{name}.{field}" if name else field, here[field], there[field])
    elif not _alike(here, there):
        yield name, here, there


def _alike(here: Any, there: Any) -> bool:
    if isinstance(here, list) and isinstance(there, list):
        return len(here) == len(there) and all(map(_alike, here, there))
    if isinstance(here, int | float) and isinstance(there, int | float):
        return math.isclose(here, there, rel_tol=_CLOSE) or (math.isnan(here) and math.isnan(there))
    return here == there


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return _of_array(np.asarray(processes.on_host(value)))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        fields = value._asdict().items()  # pyright: ignore[reportAttributeAccessIssue]
        kept = {name: _plain(field) for name, field in fields if name not in _OMITTED}
        return {"type": type(value).__name__} | kept
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return "a function" if callable(value) else type(value).__name__


def _of_array(array: np.ndarray) -> Any:
    """A number as it is; of more numbers what two arrays have in common that differ in their last bits only."""
    if not array.ndim:
        return array.item()
    values = array.astype(np.float64).ravel()
    if not values.size:
        return {"shape": list(array.shape)}
    by_place = float(np.mean(values * np.arange(1, values.size + 1)))
    return {
        "shape": list(array.shape), "least": float(values.min()), "most": float(values.max()),
        "mean": float(values.mean()), "by_place": by_place,
    }  # fmt: skip
