"""Run one experiment of a paper, and write its figure, data, manifest and verdicts into a folder."""

import datetime
import io
import json
import os
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
from rich import box
from rich.console import Console
from rich.table import Table

from experiments import pictures
from experiments.claims import Claim, Open, Source, joined
from experiments.resuming import resuming, stopwatch
from experiments.setting import differences
from experiments.stopping import interruptible
from fedjax_priv.runs.records import atomic_file
from fedjax_priv.runs.records.manifest import commit, manifest, plain


class Outcome(NamedTuple):
    """What an experiment makes."""

    figure: Figure
    data: xr.Dataset
    claims: Sequence[Claim]
    caveats: Sequence[str] = ()  # what a reader of the figure must know
    table: Sequence[Sequence[str]] = ()  # rows of text next to the figure, the heading first; empty: none


class Experiment(NamedTuple):
    """A row of a paper's table `FIGURES`."""

    makes: str  # "Fig. 4 and Table II"; empty: a result of ours that the paper does not have
    title: str
    scales: Mapping[str, Any]  # configuration by scale: a NamedTuple with a field `seed`
    run: Callable[[Any], Outcome]
    judge: Callable[[Any, xr.Dataset], Outcome] | None = None  # the outcome again, from the data of a run
    differs: Callable[[Any, Any], str] = differences  # in what a configuration is not the paper's, the second
    table: Callable[[xr.Dataset], str] | None = None  # the data as a table, HTML for the page of results


def make(
    experiment: Experiment,
    paper: str,
    name: str,
    scale: str,
    out: pathlib.Path,
    runs: pathlib.Path | None = None,
    vectors: bool = False,
) -> None:
    """Run an experiment, write its results to `out`, and print its claims.

    Args:
      experiment: what is run.
      paper: its folder.
      name: its name there.
      scale: one of its scales.
      out: folder of the results.
      runs: folder of runs to continue.
      vectors: whether to write the picture as PDF and SVG too.

    Raises:
      KeyboardInterrupt: Ctrl-C arrived; nothing is written to `out`, and `runs` can be continued.
    """
    config = experiment.scales[scale]
    command = _command(sys.argv[1:])
    with interruptible(), resuming(runs), stopwatch(runs) as elapsed:
        outcome = settled(experiment, scale, experiment.run(config))
        seconds = round(elapsed(), 1)
    about = manifest(key=jax.random.key(config.seed), command=command, scale=scale, seconds=seconds)
    save(outcome, out, name, about | {field: plain(value) for field, value in config._asdict().items()}, vectors)
    show(outcome, f"{paper} {name}, scale {scale}", out)


def _command(words: Sequence[str]) -> str:
    """What makes this card; of folders outside the current one only the name, since the others are of this machine."""
    outside = lambda word: not pathlib.Path(os.path.abspath(word)).is_relative_to(pathlib.Path.cwd())
    shown = [pathlib.Path(word).name if outside(word) else word for word in words]
    return shlex.join(["python", "-m", "experiments", *shown])


def judge(experiment: Experiment, paper: str, name: str, scale: str, out: pathlib.Path, vectors: bool = False) -> None:
    """State the claims of a finished run again, from its data, by today's rules; figure and verdicts are rewritten.

    Raises:
      OSError: there is no data.
    """
    with xr.open_dataset(out / f"{name}.nc", engine="h5netcdf") as file:
        data = file.load()
    assert experiment.judge is not None
    outcome = settled(experiment, scale, experiment.judge(experiment.scales[scale], data))
    about = json.loads((out / "manifest.json").read_text()) | {"judged": f"{datetime.date.today()} {commit()}"}
    describe(outcome, out, name, about, vectors)
    show(outcome, f"{paper} {name}, scale {scale}", out)


def settled(experiment: Experiment, scale: str, outcome: Outcome) -> Outcome:
    """With what differs from the paper's setting in all claims that do not say it; a result of ours has no such."""
    config, papers = experiment.scales[scale], experiment.scales["paper"]
    differs = experiment.differs(config, papers) if experiment.makes else ""
    return outcome._replace(
        claims=[claim._replace(differs=differs) if claim.differs is None else claim for claim in outcome.claims]
    )


def save(
    outcome: Outcome, out: pathlib.Path, name: str, about: Mapping[str, str | int | float], vectors: bool = False
) -> None:
    """Write figure, data, manifest and verdicts into a folder, which is created if it does not exist.

    Each file is written whole or not at all.

    Raises:
      ValueError: two claims have the same id.
    """
    _unique(outcome.claims)
    out.mkdir(parents=True, exist_ok=True)
    (out / "verdicts.json").unlink(missing_ok=True)  # of an earlier run: it is written last and means success
    values = outcome.data.assign_attrs(dict(about) | {"caveats": "; ".join(outcome.caveats)})
    encoding: dict[Any, Any] = {key: {"zlib": True} for key, value in values.data_vars.items() if value.ndim}
    file = io.BytesIO()
    values.to_netcdf(file, engine="h5netcdf", encoding=encoding)
    atomic_file.write(out / f"{name}.nc", file.getvalue())
    describe(outcome, out, name, about, vectors)


def describe(outcome: Outcome, out: pathlib.Path, name: str, about: Mapping[str, Any], vectors: bool = False) -> None:
    """Write figure, its table as text, manifest and verdicts.

    Raises:
      ValueError: two claims have the same id.
    """
    _unique(outcome.claims)
    pictures.write(outcome.figure, out / name, vectors=vectors)
    if outcome.table:
        pictures.write_table(outcome.table, out / f"{name}.md")
    write_json(out / "manifest.json", dict(about) | {"caveats": "; ".join(outcome.caveats)})
    write_json(out / "verdicts.json", [plain_claim(claim) for claim in outcome.claims])


def _unique(claims: Sequence[Claim]) -> None:
    if twice := [id for id, count in Counter(claim.id for claim in claims).items() if count > 1]:
        raise ValueError(f"ids of claims must be unique; got {', '.join(twice)} more than once")


def plain_claim(claim: Claim) -> dict[str, Any]:
    """A claim as in `verdicts.json`: without `why` if it has a verdict, which may be a NumPy boolean."""
    fields = claim._asdict()
    if claim.verdict is None:
        return fields
    del fields["why"]
    return fields | {"verdict": bool(claim.verdict)}


def read_claim(*, source: str, why: str = Open.NOT_RUN, **fields: Any) -> Claim:
    """A claim from its fields in `verdicts.json`."""
    return Claim(**fields, source=Source(source), why=Open(why))


def write_json(path: pathlib.Path, content: Any) -> None:
    """Write a file as JSON, whole or not at all."""
    atomic_file.write(path, (json.dumps(content, indent=2) + "\n").encode())


def show(outcome: Outcome, title: str, out: pathlib.Path) -> None:
    """Print the claims as a table, and the caveats."""
    table = Table(title=title, box=box.SIMPLE, show_lines=True)
    for heading in ("claim", "source", "expected", "found", "verdict", "rule", "note"):
        table.add_column(heading, overflow="fold")
    for claim in outcome.claims:
        note = joined(claim.control, claim.note)
        table.add_row(claim.text, claim.source, claim.expected, claim.found, claim.said, claim.rule, note)
    Console(width=max(Console().width, 150)).print(table)
    differs = dict.fromkeys(claim.differs for claim in outcome.claims if claim.elsewhere)
    other = [f"another setting than the paper's: {said}" for said in differs]
    Console(soft_wrap=True).print(*other, *outcome.caveats, f"results: {out}", sep="\n")


def span(values: ArrayLike, digits: int = 3) -> str:
    """The range of some numbers, as text."""
    low, high = f"{np.min(values):.{digits}g}", f"{np.max(values):.{digits}g}"
    return low if low == high else f"{low} to {high}"
