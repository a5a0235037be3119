"""What the scripts of papers share: scales, data, claims with their verdicts, and the folder a script leaves.

A script has a table `SCALES` of its configurations and a function `run(config) -> Outcome`, and ends in

    if __name__ == "__main__":
        harness.main(__file__, __doc__, SCALES, run)
"""

import argparse
import json
import pathlib
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from PIL import Image
from rich import box
from rich.console import Console
from rich.table import Table

from experiments.claims import NOT_TESTED
from fedjax_priv import data
from fedjax_priv.runs.records.manifest import manifest, plain

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008), told apart with any colour vision."""


class Claim(NamedTuple):
    """What the paper says of a figure, and what came out."""

    claim: str
    paper: str  # its value
    ours: str
    verdict: bool | None  # computed from the data; None: not tested at this scale
    note: str = ""


class Outcome(NamedTuple):
    """What a script leaves."""

    figure: Figure
    data: xr.Dataset
    claims: Sequence[Claim]
    caveats: Sequence[str] = ()  # what a reader of the figure must know


def main(file: str, description: str | None, scales: Mapping[str, Any], run: Callable[[Any], Outcome]) -> None:
    """Run a script at the scale that the command line names.

    Args:
      file: the script, whose name its results bear, in a folder named as its paper's.
      description: for `--help`, its first line.
      scales: configuration by scale, NamedTuples with a field `seed`.
      run: the experiment.
    """
    paper, name = pathlib.Path(file).parent.name, pathlib.Path(file).stem
    parser = argparse.ArgumentParser(description=(description or name).partition("\n")[0])
    parser.add_argument("--scale", choices=list(scales), default="quick")
    parser.add_argument("--out", type=pathlib.Path, help=f"folder; results/{paper}/{name}-SCALE if not given")
    args = parser.parse_args()
    out = args.out or pathlib.Path("results") / paper / f"{name}-{args.scale}"
    config = scales[args.scale]
    command = shlex.join(["python", "-m", f"experiments.{paper}.{name}", *sys.argv[1:]])
    start = time.perf_counter()
    outcome = run(config)
    seconds = round(time.perf_counter() - start, 1)
    about = manifest(key=jax.random.key(config.seed), command=command, scale=args.scale, seconds=seconds)
    save(outcome, out, name, about | {field: plain(value) for field, value in config._asdict().items()})
    show(outcome.claims, f"{name}, scale {args.scale}")
    Console(soft_wrap=True).print(*outcome.caveats, f"results: {out}", sep="\n")


def save(outcome: Outcome, out: pathlib.Path, name: str, about: Mapping[str, str | int | float]) -> None:
    """Write figure, data, manifest and verdicts into a folder, which is made if need be."""
    out.mkdir(parents=True, exist_ok=True)
    about = dict(about) | {"caveats": "; ".join(outcome.caveats)}
    _draw(outcome.figure, out / f"{name}.png")
    values = outcome.data.assign_attrs(about)
    encoding: dict[Any, Any] = {key: {"zlib": True} for key, value in values.data_vars.items() if value.ndim}
    values.to_netcdf(out / f"{name}.nc", engine="h5netcdf", encoding=encoding)
    write_json(out / "manifest.json", about)
    write_json(out / "verdicts.json", [claim._asdict() | {"verdict": verdict(claim)} for claim in outcome.claims])


def _draw(figure: Figure, path: pathlib.Path) -> None:
    """256 colours are enough, in a third of the space."""
    figure.savefig(path, dpi=110)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256)
    small.save(path, optimize=True)


def verdict(claim: Claim) -> bool | str:
    return NOT_TESTED if claim.verdict is None else bool(claim.verdict)


def write_json(path: pathlib.Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def show(claims: Sequence[Claim], title: str) -> None:
    """Print the claims as a table."""
    table = Table(title=title, box=box.SIMPLE, show_lines=True)
    for heading in ("claim", "paper", "ours", "verdict", "note"):
        table.add_column(heading, overflow="fold")
    for claim in claims:
        table.add_row(claim.claim, claim.paper, claim.ours, str(verdict(claim)), claim.note)
    Console(width=max(Console().width, 150)).print(table)


def load(name: Literal["digits", "mnist", "cifar10"], samples: int | None = None) -> data.Dataset:
    """A data set; of its training samples only the first ones, in its own order, where `samples` is given.

    MNIST and CIFAR-10 are read from `$TFDS_DATA_DIR`, see `fedjax_priv.data.mnist`.
    """
    whole = {"digits": data.digits, "mnist": data.mnist, "cifar10": data.cifar10}[name]()
    return whole._replace(x_train=whole.x_train[:samples], y_train=whole.y_train[:samples])


def span(values: ArrayLike, digits: int = 3) -> str:
    """The range of some numbers, as text."""
    low, high = f"{np.min(values):.{digits}g}", f"{np.max(values):.{digits}g}"
    return low if low == high else f"{low} to {high}"


def two_errors(values: xr.DataArray, dim: str) -> xr.DataArray:
    """Two standard errors of the mean over a dimension; 0 where it has one entry."""
    number = values.sizes[dim]
    return 2 * values.std(dim, ddof=1) / np.sqrt(number) if number > 1 else xr.zeros_like(values.mean(dim))
