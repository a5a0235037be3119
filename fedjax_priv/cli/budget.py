"""The privacy budget of `run`: noise for an eps, rounds within one, and what was spent."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

import xarray as xr
from jaxtyping import PyTree

from fedjax_priv import _validate, ledger
from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.cli.experiment import Experiment
from fedjax_priv.engine import processes
from fedjax_priv.ledger.budget import BudgetRefused
from fedjax_priv.ledger.entry import Entry, Figure, worst
from fedjax_priv.runs.records import atomic_file, run_folder
from fedjax_priv.runs.records.run_writer import Keep

LEDGER = "ledger.json"
"""File in the folder of a run."""
NOISE = ("noise_multiplier", "noise_variance", "gradient_noise")
"""Options that say how much noise there is; of those of a system, the first that is not 0 is calibrated."""


class BudgetOptions(NamedTuple):
    """Options of `run` about privacy.

    Args:
      delta: delta at which every eps is stated, in (0, 1).
      target_epsilon: choose the noise (noise_multiplier, noise_variance or gradient_noise) so that the eps of all
        rounds is at most this; the search begins at the noise that is given.
      stop_at_epsilon: end the run at the last round with which eps is at most this.
      against: whose eps such a budget is about, as `run` names adversaries: "outsider, replacement", or "device" for
        the first figure of a client of the round. If not given, it is the first adversary in the ledger that has one:
        with coins in dp_fedavg "outsider, add/remove". Replacement needs more noise.
    """

    delta: float = 1e-5
    target_epsilon: float | None = None
    stop_at_epsilon: float | None = None
    against: str | None = None


class LedgerRow(NamedTuple):
    """An entry of a ledger, as a file holds it; eps is the largest of any client."""

    adversary: str
    view: str
    adjacent: str
    neighbours: str
    claimed_epsilon: float | None
    claimed_delta: float | None
    claim: str  # the theorem, or why there is none
    proved_epsilon: float | None
    proved_delta: float | None
    proof: str  # the theorem and its assumptions, or why there is none
    note: str


def check(options: BudgetOptions) -> None:
    """Refuse options outside their range.

    Raises:
      ValueError: names the option.
    """
    _validate.fraction(below_one=True, above_zero=True, delta=options.delta)
    if options.target_epsilon is not None and options.stop_at_epsilon is not None:
        raise ValueError(f"stop_at_epsilon must not be given with target_epsilon, got {options.stop_at_epsilon}")
    for name in ("target_epsilon", "stop_at_epsilon"):
        if (value := getattr(options, name)) is not None:
            _validate.positive(**{name: value})
    if options.against is not None and options.target_epsilon is options.stop_at_epsilon is None:
        raise ValueError(
            f"against must not be given without target_epsilon or stop_at_epsilon, got {options.against!r}"
        )


def within(
    options: BudgetOptions, chosen: Experiment, values: Mapping[str, Any], key: Key, params: PyTree, rounds: int
) -> tuple[dict[str, Any], int]:
    """Options of the system to change, and the number of rounds, which keep the budget.

    Raises:
      ValueError: nothing is proved of the system, or a round is too many.
    """
    asked = {name: getattr(options, name) for name in ("target_epsilon", "stop_at_epsilon")}
    name, epsilon = next(((name, value) for name, value in asked.items() if value is not None), ("", None))
    if epsilon is None:
        return {}, rounds
    about = (key, params, chosen.data, epsilon)
    how = {"delta": options.delta, "chosen": None if options.against is None else ledger.against(options.against)}
    try:
        if name == "stop_at_epsilon":
            return {}, ledger.rounds_within(chosen.make(), *about, most=rounds, **how)
        noise = _calibrated(values)
        make, start = lambda much: chosen.make(**{noise: much}), float(values[noise] or 1.0)
        return {noise: ledger.noise_for(make, *about, rounds=rounds, start=start, **how)}, rounds
    except BudgetRefused as error:
        raise ValueError(f"{name} must {error.must}") from error


def _calibrated(values: Mapping[str, Any]) -> str:
    """The first option with noise; where none has any, the first that there is."""
    if not (options := [option for option in NOISE if option in values]):
        raise BudgetRefused("be for a system with noise")
    return next((option for option in options if values[option]), options[0])


def spent(result: xr.Dataset, algorithm: Algorithm, data: ClientData, delta: float, keep: Keep) -> xr.Dataset:
    """The result with `epsilon`, if anything is proved; the folder of a run that has ended gets it and the ledger."""
    if not result.sizes["round"] or (_has_epsilon(result, delta) and _has_ledger(pathlib.Path(keep.folder))):
        return result
    entries, folder = ledger.ledger(algorithm, result, data, delta=delta), pathlib.Path(keep.folder)
    ended = not result.attrs["interrupted"]
    if ended:
        processes.on_first(lambda: write(folder / LEDGER, entries))
    if any(entry.proved.epsilon is not None for entry in entries):
        result = result.drop_dims("adversary", errors="ignore")
        result = result.assign(epsilon=ledger.epsilon_by_round(algorithm, result, data, delta=delta))
        if ended:
            processes.on_first(lambda: run_folder.save(folder, result))
    return result


def spent_at_points(
    result: xr.Dataset, axes: Mapping[str, Any], chosen: Experiment, delta: float, keep: Keep
) -> xr.Dataset:
    """The result of a sweep with `epsilon`, if anything is proved at a point; its folder gets it if it has ended."""
    if _has_epsilon(result, delta):
        return result
    epsilon = ledger.epsilon_of_sweep(chosen.make, axes, result, chosen.data, delta=delta)
    if epsilon.notnull().any():
        result = result.drop_dims("adversary", errors="ignore").assign(epsilon=epsilon)
        if not result.attrs["interrupted"]:
            run_folder.save(pathlib.Path(keep.folder), result)
    return result


def _has_epsilon(result: xr.Dataset, delta: float) -> bool:
    return "epsilon" in result and result.epsilon.attrs["delta"] == delta


def _has_ledger(folder: pathlib.Path) -> bool:
    try:
        read(folder)
    except ValueError:  # a file that was lost or cut short is written again
        return False
    return True


def write(path: pathlib.Path, entries: list[Entry]) -> None:
    """Write the ledger of a run, unless the file holds it: a finished run may lie in a folder that is read-only now."""
    content = atomic_file.to_json([row(entry)._asdict() for entry in entries])
    with atomic_file.explained("write the ledger", path):
        if not (path.is_file() and path.read_bytes() == content):
            atomic_file.write(path, content)


def read(folder: pathlib.Path) -> list[LedgerRow]:
    """The ledger of a finished run.

    Raises:
      ValueError: the folder is not that of a run, or it has no ledger, or the file is broken.
    """
    run_folder.read_manifest(folder)
    path = folder / LEDGER
    if not path.is_file():
        raise ValueError(
            f"{folder} has no {LEDGER}: `fedjax-priv run` writes it when a run has ended; points of a sweep have "
            "epsilon in its result instead"
        )
    try:
        rows = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise ValueError(f"{path} is broken: it holds no list of objects with {', '.join(LedgerRow._fields)}")
    return [LedgerRow(**fields) for fields in rows]


def _is_row(fields: Any) -> bool:
    kinds = get_type_hints(LedgerRow)
    if not isinstance(fields, dict) or fields.keys() != kinds.keys():
        return False
    return all(isinstance(fields[name], kind if kind is str else kind | int) for name, kind in kinds.items())


def row(entry: Entry) -> LedgerRow:
    """An entry as a row."""
    claimed, proved = entry.claimed, entry.proved
    return LedgerRow(
        entry.adversary, entry.view, entry.adjacent, entry.neighbours,
        worst(claimed), claimed.delta, claimed.why, worst(proved), proved.delta, proved.why, entry.note,
    )  # fmt: skip


def entry_of(row: LedgerRow) -> Entry:
    """A row as an entry, with one eps for all clients."""
    return Entry(
        row.adversary, row.adjacent, Figure(row.claimed_epsilon, row.claimed_delta, row.claim),
        Figure(row.proved_epsilon, row.proved_delta, row.proof), row.note, row.view, neighbours=row.neighbours,
    )  # fmt: skip
