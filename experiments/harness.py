"""Run one experiment of a paper, and write its figure, data, manifest and verdicts into a folder."""

import json
import pathlib
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from PIL import Image
from rich import box
from rich.console import Console
from rich.table import Table

from experiments.claims import Claim, said
from experiments.resuming import resuming, stopwatch
from fedjax_priv.runs.records.manifest import manifest, plain

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008): colours that readers with any colour vision tell apart."""


class Outcome(NamedTuple):
    """What an experiment makes."""

    figure: Figure
    data: xr.Dataset
    claims: Sequence[Claim]
    caveats: Sequence[str] = ()  # what a reader of the figure must know


class Experiment(NamedTuple):
    """A row of a paper's table `FIGURES`."""

    makes: str  # "Fig. 4 and Table II"; empty: a result of ours that the paper does not have
    title: str
    scales: Mapping[str, Any]  # configuration by scale: a NamedTuple with a field `seed`
    run: Callable[[Any], Outcome]


def make(
    experiment: Experiment, paper: str, name: str, scale: str, out: pathlib.Path, runs: pathlib.Path | None = None
) -> None:
    """Run an experiment, write its results to `out`, and print its claims; `runs`: folder of runs to continue."""
    config = experiment.scales[scale]
    command = shlex.join(["python", "-m", "experiments", *sys.argv[1:]])
    with resuming(runs), stopwatch(runs) as elapsed:
        outcome = experiment.run(config)
        seconds = round(elapsed(), 1)
    about = manifest(key=jax.random.key(config.seed), command=command, scale=scale, seconds=seconds)
    save(outcome, out, name, about | {field: plain(value) for field, value in config._asdict().items()})
    show(outcome.claims, f"{paper} {name}, scale {scale}")
    Console(soft_wrap=True).print(*outcome.caveats, f"results: {out}", sep="\n")


def save(outcome: Outcome, out: pathlib.Path, name: str, about: Mapping[str, str | int | float]) -> None:
    """Write figure, data, manifest and verdicts into a folder, which is created if it does not exist.

    Raises:
      ValueError: two claims have the same id.
    """
    if twice := [id for id, count in Counter(claim.id for claim in outcome.claims).items() if count > 1]:
        raise ValueError(f"ids of claims must be unique; got {', '.join(twice)} more than once")
    out.mkdir(parents=True, exist_ok=True)
    about = dict(about) | {"caveats": "; ".join(outcome.caveats)}
    _draw(outcome.figure, out / f"{name}.png")
    values = outcome.data.assign_attrs(about)
    encoding: dict[Any, Any] = {key: {"zlib": True} for key, value in values.data_vars.items() if value.ndim}
    values.to_netcdf(out / f"{name}.nc", engine="h5netcdf", encoding=encoding)
    write_json(out / "manifest.json", about)
    write_json(out / "verdicts.json", [plain_claim(claim) for claim in outcome.claims])


def plain_claim(claim: Claim) -> dict[str, Any]:
    """A claim as in `verdicts.json`; its verdict may be a NumPy boolean."""
    return claim._asdict() | {"verdict": None if claim.verdict is None else bool(claim.verdict)}


def _draw(figure: Figure, path: pathlib.Path) -> None:
    """256 colours are enough, and take a third of the space."""
    figure.savefig(path, dpi=110)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256)
    small.save(path, optimize=True)


def write_json(path: pathlib.Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def show(claims: Sequence[Claim], title: str) -> None:
    """Print the claims as a table."""
    table = Table(title=title, box=box.SIMPLE, show_lines=True)
    for heading in ("claim", "source", "expected", "found", "verdict", "rule", "note"):
        table.add_column(heading, overflow="fold")
    for claim in claims:
        verdict = said(plain_claim(claim)["verdict"])
        table.add_row(claim.text, claim.source, claim.expected, claim.found, verdict, claim.rule, claim.note)
    Console(width=max(Console().width, 150)).print(table)


def span(values: ArrayLike, digits: int = 3) -> str:
    """The range of some numbers, as text."""
    low, high = f"{np.min(values):.{digits}g}", f"{np.max(values):.{digits}g}"
    return low if low == high else f"{low} to {high}"
