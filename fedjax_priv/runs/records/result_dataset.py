"""The result of a run as labelled arrays, joined from its chunks."""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Bits, absent
from fedjax_priv.interchange.numpy_arrays import as_numpy_type
from fedjax_priv.runs.records import mechanism
from fedjax_priv.status import describe

VARIABLES = (
    "loss", "trains", "counted", "client_id", "status", "group_status", "up_bytes", "down_bytes", "seconds", "params",
    mechanism.NAME,
)  # fmt: skip
DIMENSIONS = ("round", "client", "group", "phase", "evaluation", "parameter")
RESERVED = {*VARIABLES, *DIMENSIONS, "run", "failed_rounds", "failed_because", "epsilon", "adversary"}
"""Names that results of runs and sweeps use; measured and observed variables must not have them."""
TAKEN = RESERVED | {"wave", "chunk", "megabytes", "failed", "metrics"}
"""These, and the names of a log's entries; metrics and axes must not have them."""


class Chunk(NamedTuple):
    """Results of a chunk of rounds, NumPy arrays; the first axis has the `p` runs of a wave, 1 for a single run."""

    rounds: int  # that the run has done after this chunk
    seconds: float  # that the rounds of this chunk took
    info: dict[str, Any]  # `RoundInfo` without its direction, [p, rounds of the chunk, ...]
    metrics: dict[str, Any]  # after its last round, [p]
    params: Any  # after its last round, [p, d]; () if a later chunk has parameters


def add(chunk: Chunk, finished: list[Chunk]) -> None:
    """Appends a chunk in one step, which no interrupt can split. Only the last chunk keeps its parameters."""
    finished.append(chunk)
    if len(finished) > 1:
        finished[-2] = finished[-2]._replace(params=())


MEASURED, OBSERVED = "measured/", "observed/"
"""Prefixes, among the fields of `RoundInfo`, of what layers measured and of what `observe` returned."""


def flat_measured(measured: PyTree) -> dict[str, Any]:
    """What layers measured, as fields with the prefix `MEASURED`.

    Raises:
      ValueError: the result uses a name.
    """
    if taken := sorted(RESERVED & {*dict(measured)}):
        raise ValueError(f"layers must measure under names that the result does not use, got {taken}")
    return {MEASURED + name: value for name, value in dict(measured).items()}


def flat_observed(observed: PyTree, measured: PyTree = ()) -> dict[str, Any]:
    """What `observe` returned, as fields with the prefix `OBSERVED`.

    Raises:
      ValueError: `observed` is not a dict of numbers or vectors by name, or the result or `measured` uses a name.
    """
    if absent(observed):
        return {}
    others = {} if not isinstance(observed, dict) else {n: a for n, a in observed.items() if not _is_recorded(a)}
    if not isinstance(observed, dict) or others:
        got = ", ".join(f"{name!r}: {_validate.made(value)}" for name, value in others.items())
        raise ValueError(
            "observe must return a dict of numbers or vectors by name in simulate and sweep, got "
            f"{got or _validate.made(observed)}; for whole views, call step"
        )
    free = lambda name: isinstance(name, str) and name and name not in RESERVED | {*dict(measured)} and "/" not in name
    if taken := [name for name in observed if not free(name)]:
        raise ValueError(f"observe must use names without '/' other than those of the result, got {taken}")
    return {OBSERVED + name: jnp.asarray(value) for name, value in observed.items()}


def _is_recorded(value: Any) -> bool:
    """Whether a value is a number or a vector of numbers; a JAX key is not a number."""
    if isinstance(value, bool | int | float):
        return True
    return getattr(value, "ndim", 2) <= 1 and not jnp.issubdtype(value.dtype, jax.dtypes.extended)


def names(info: Mapping[str, Any], *marks: str) -> list[str]:
    """The names of what was measured and observed; with `marks`, of one of these only."""
    return [name.partition("/")[2] for name in info if name.startswith(marks or (MEASURED, OBSERVED))]


def dataset(
    chunks: Sequence[Chunk], empty: Chunk, attrs: Mapping[str, Any], *, stated: Mapping[str, Any], run: int = 0
) -> xr.Dataset:
    """Joins the chunks of a run.

    Args:
      chunks: finished chunks in order; the first one has no round, but the evaluation before the run.
      empty: a chunk without a round, for shapes, names and the parameters when `chunks` has none.
      attrs: attributes of the result.
      stated: the run's `mechanism.of`.
      run: which run of the wave.

    Returns:
      The dataset that `simulate` describes.
    """
    join = lambda first, *parts: np.concatenate([first[0], *(part[run] for part in parts)])
    info = jax.tree.map(join, empty.info, *(chunk.info for chunk in chunks))
    metrics = {name: np.array([chunk.metrics[name][run] for chunk in chunks]) for name in empty.metrics}
    seconds = np.cumsum([chunk.seconds for chunk in chunks])
    done = np.array([chunk.rounds for chunk in chunks], dtype=np.int32)
    rounds, clients = info["loss"].shape
    return xr.Dataset(
        _of_rounds(info)
        | {name: (("evaluation",), values, {"long_name": name}) for name, values in metrics.items()}
        | {
            "seconds": (("evaluation",), seconds, {"long_name": "time the rounds so far took", "units": "s"}),
            "params": (("parameter",), (chunks or [empty])[-1].params[run], {"long_name": "final parameters"}),
            mechanism.NAME: ((), mechanism.text(stated, clients), mechanism.ABOUT),
        },
        coords={
            "round": ("round", np.arange(1, rounds + 1, dtype=np.int32), {"long_name": "round, the first is 1"}),
            "client": ("client", np.arange(clients, dtype=np.int32), {"long_name": "place in the cohort"}),
            "phase": ("phase", list(info["bits"]), {"long_name": "phase of a round"}),
            "evaluation": ("evaluation", done, {"long_name": "rounds done before the evaluation"}),
        },
        attrs=dict(attrs) | {"rounds_done": rounds} | _failures(info["status"]),
    )


def last_loss(info: Mapping[str, Any]) -> np.ndarray:
    """Training loss of the last round, `[p]`: the mean over the clients that train; NaN if none trains."""
    return np.array([
        loss[here].mean(dtype=np.float64) if here.any() else np.nan
        for loss, here in zip(info["loss"][:, -1], info["trains"][:, -1], strict=True)
    ])  # fmt: skip


def megabytes(bits: Bits) -> np.ndarray:
    """MB per client, up and down: `[p]`, means over clients of `bits`, `[p, rounds, n]`."""
    ways = [way for link in bits.values() for way in link]
    return np.sum([np.mean(way, axis=2, dtype=np.float64).sum(1) for way in ways], axis=0) / 8e6


def _of_rounds(info: Mapping[str, Any]) -> dict[str, tuple]:
    each = ("round", "client")
    fixed = {
        "loss": (each, info["loss"], {"long_name": "mean training loss, 0 of who does not train"}),
        "trains": (each, info["trains"], {"long_name": "the client takes part and has samples"}),
        "counted": (each, info["counted"], {"long_name": "the upload arrived and its group was recovered"}),
        "client_id": (each, info["client"], {"long_name": "number of the client in the population"}),
        "status": (("round",), info["status"], {"long_name": "status bits of the round, 0: it succeeded"}),
        "group_status": (("round", "group"), info["group_status"], {"long_name": "status bits of the group"}),
        "up_bytes": _bytes(info, "up", "sent by the client"),
        "down_bytes": _bytes(info, "down", "received by the client"),
    }
    measured = {name: _measured(name, info[MEASURED + name]) for name in names(info, MEASURED)}
    return fixed | measured | {name: _observed(name, info[OBSERVED + name]) for name in names(info, OBSERVED)}


def _measured(name: str, values: np.ndarray) -> tuple:
    along = (f"{name}_place",) * (values.ndim - 2)
    return ("round", "client", *along), as_numpy_type(values), {"long_name": name}


def _observed(name: str, values: np.ndarray) -> tuple:
    along = (f"{name}_place",) * (values.ndim - 1)
    return ("round", *along), as_numpy_type(values), {"long_name": f"{name}, from what the server sees"}


def _bytes(info: Mapping[str, Any], way: str, meaning: str) -> tuple:
    bits = np.array([getattr(link, way) for link in info["bits"].values()])
    values = bits.reshape(len(info["bits"]), *info["loss"].shape) / 8.0
    return ("phase", "round", "client"), values, {"long_name": f"bytes {meaning}", "units": "B"}


def _failures(status: np.ndarray) -> dict[str, str | int]:
    reasons = collections.Counter(describe(int(bits)) for bits in status[status != 0])
    words = " / ".join(f"{count} x {reason}" for reason, count in reasons.items())
    return {"failed_rounds": reasons.total(), "failed_because": words or "none failed"}
