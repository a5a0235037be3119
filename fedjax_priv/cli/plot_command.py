"""The command `plot`: recorded runs and sweeps as curves, and their last values as a table."""

import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import xarray as xr

from fedjax_priv import systems
from fedjax_priv.analysis import bands, curves
from fedjax_priv.analysis.curve_bands import common_adversary
from fedjax_priv.cli import picture_file
from fedjax_priv.cli.result_tables import plain_table, show_table
from fedjax_priv.runs.records import run_folder
from fedjax_priv.runs.records.manifest import OF_THE_END, lasting
from fedjax_priv.runs.records.run_list import summaries

FORMS = (".svg", ".pdf", ".png")
_OF_A_SEED = {"seed", "key"}
_OF_A_MACHINE = {
    "backend", "device_kind", "num_devices", "xla_flags", "key_impl", "block", "runs", "axes", "static", "over",
}  # fmt: skip
_SHOWN = 2  # options in a label, at most


class Row(NamedTuple):
    """The end of a curve: means over runs that differ in the seed alone."""

    curve: str
    runs: int
    x: float
    y: float
    half_width: float | None  # of the 95% interval of y; None for one run
    adversary: str | None  # whose eps x is; None for another x


def plot(folders: Sequence[pathlib.Path], x: str, y: str, adversary: str | None, out: pathlib.Path) -> list[Row]:
    """Draw finished runs.

    Args:
      folders: of runs or sweeps, or above such folders.
      x: as of `analysis.curves`.
      y: as of `analysis.curves`.
      adversary: as of `analysis.curves`.
      out: file to write; one that is there is replaced.

    Raises:
      ValueError: no such folder, variable or kind of file.
      OSError: the file cannot be written.
    """
    if out.suffix not in FORMS:
        raise ValueError(f"out must end with one of {', '.join(FORMS)}, got {out}")
    if adversary is not None and x != "epsilon":
        raise ValueError(f"adversary must not be given unless x is epsilon, got {adversary!r} with x {x}")
    results = joined({folder: run_folder.load(folder) for folder in _runs(folders)}, spent=x == "epsilon")
    figure = curves(results, x, y, adversary=adversary)
    out.parent.mkdir(parents=True, exist_ok=True)
    picture_file.write(figure, out)
    whose = common_adversary([*results.values()], adversary) if x == "epsilon" else None
    rows = [row for name, result in results.items() for row in _rows(name, result, x, y, whose)]
    _show(rows, f"{y} against {x}" + (f" of {whose}" if whose else ""), x, y, out)
    return rows


def _runs(folders: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """The folders that are runs, and the finished runs below the others; those that are broken are named."""
    found = []
    for folder in folders:
        if (folder / run_folder.MANIFEST).exists() or not folder.is_dir():
            found.append(folder)  # which `load` will read, or refuse in words
            continue
        listed = summaries(folder)
        for run in listed:
            if run.status == "broken":
                print(f"fedjax-priv: {run.folder} is left out: it is the folder of a broken run", file=sys.stderr)
        below = [run.folder for run in listed if run.status == "finished"]
        if not below:
            raise ValueError(f"folders must hold finished runs, got {folder}, which holds none")
        found += below
    return list(dict.fromkeys(found))


def joined(results: Mapping[pathlib.Path, xr.Dataset], *, spent: bool = False) -> dict[str, xr.Dataset]:
    """Results by a short name; runs of the command that differ in the seed alone are one result, with a band.

    With `spent`, runs whose eps is at another delta, or that have none, differ in more than the seed.
    """
    alike: dict[tuple, list[pathlib.Path]] = {}
    keys = set()
    for folder, result in results.items():
        asked = {name: value for name, value in _asked(result).items() if name not in _OF_A_SEED}
        asked |= {"axes": result.attrs.get("axes"), **({"delta": _delta(result)} if spent else {})}
        group = tuple(sorted(asked.items(), key=repr))
        again = (group, result.attrs.get("key")) in keys  # the same run twice says nothing about noise
        keys.add((group, result.attrs.get("key")))
        alone = again or "seed" in result.dims or "system" not in asked  # of what was run in Python we know too little
        alike.setdefault((str(folder) if alone else "", *group), []).append(folder)
    groups = list(alike.values())
    names = _names([(group[0], _asked(results[group[0]])) for group in groups])
    return {name: _one([results[folder] for folder in group]) for name, group in zip(names, groups, strict=True)}


def _delta(result: xr.Dataset) -> float | None:
    return float(result.epsilon.attrs["delta"]) if "epsilon" in result else None


def _one(runs: Sequence[xr.Dataset]) -> xr.Dataset:
    if len(runs) == 1:
        return runs[0]
    spent = all("epsilon" in run for run in runs)
    unlike = ["params", "group_status", *([] if spent else ["epsilon", "adversary"])]
    drawn = [run.drop_vars(unlike, errors="ignore") for run in runs]
    return xr.concat(drawn, "seed", combine_attrs="override", join="exact")


def _asked(result: xr.Dataset) -> dict[str, Any]:
    """The options of a run that may tell its curve from another one."""
    ours = lasting(result.attrs)
    skipped = _OF_A_MACHINE | OF_THE_END - {"num_params"}
    return {name: value for name, value in ours.items() if name not in skipped and not name.endswith("_version")}


def _names(runs: Sequence[tuple[pathlib.Path, Mapping[str, Any]]]) -> list[str]:
    """Systems where these differ, and the options in which runs of one system differ, or else their folders."""
    names = []
    for _, asked in runs:
        system = str(asked.get("system", "run"))
        same = [other for _, other in runs if other.get("system", "run") == system]
        differing = [name for name in asked if name not in _OF_A_SEED and len({repr(o.get(name)) for o in same}) > 1]
        told = [f"{name}={_spelt(system, name, asked[name])}" for name in differing]
        names.append(", ".join([system, *told]) if len(told) <= _SHOWN else "")
    if len({*names}) < len(names) or "" in names:
        return [str(folder) for folder, _ in runs]
    return names


def _spelt(system: str, name: str, value: Any) -> Any:
    """A value of an option, as an axis of a sweep has it: a manifest keeps flags as 0 or 1."""
    from fedjax_priv.cli.experiment import options_by_part  # imports every system

    parts = options_by_part(system).values() if system in systems.__all__ else ()
    flag = any(name in options and options[name].type is bool for options in parts)
    return bool(value) if flag and value in (0, 1) else value


def _rows(name: str, result: xr.Dataset, x: str, y: str, adversary: str | None) -> list[Row]:
    rows = []
    for point, band in bands(result, x, y, adversary=adversary).items():
        label = ", ".join(part for part in (name, point) if part)
        half = float(band.half_width[-1]) if band.runs > 1 else None
        rows.append(Row(label, band.runs, float(band.x[-1]), float(band.y[-1]), half, adversary))
    return rows


def _show(rows: Sequence[Row], title: str, x: str, y: str, out: pathlib.Path) -> None:
    table = plain_table(f"{title}, at the end", "curve", "runs", x, y, "95%, +-", left={"curve"})
    for row in rows:
        half = "-" if row.half_width is None else f"{row.half_width:.2g}"
        table.add_row(row.curve, str(row.runs), f"{row.x:,.6g}", f"{row.y:.4g}", half)
    show_table(table, f"figure: {out}")
