"""What is measured of each cell: accuracy alone and under the worst attack, bytes, proved eps, rounds skipped."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from experiments.atlas.audits import Game
from experiments.atlas.stacks import Cell, stack_of, stacks
from experiments.atlas.training import HONEST, Config, Problem, Program, kilobytes, system
from fedjax_priv.analysis.intervals import half_width
from fedjax_priv.ledger import ledger
from fedjax_priv.ledger.entry import worst
from fedjax_priv.systems.composition import marks_of, why_not

BITES = 0.1
"""Accuracy that an attack has to cost the mean."""
NOT_RUN, POSSIBLE = "not run", ""


def measured(config: Config, shared: Problem, program: Program, runs: xr.Dataset) -> dict[Cell, dict[str, Any]]:
    """The cells of a program."""
    last = runs.accuracy.isel(evaluation=-1).fillna(0)
    skipped = (runs.status > 0).mean(["round", "seed", "attack"])
    up, down = kilobytes(runs, "up_bytes"), kilobytes(runs, "down_bytes")
    found = {}
    for at, dropout in enumerate(config.dropouts):
        eps, why = _epsilon(config, shared, program, runs, dropout)
        for rule in program.rules:
            here, control = (last.sel(dropout=dropout, rule=name) for name in (rule, "mean"))
            found[program.cell(rule, dropout)] = _accuracies(here, control) | {
                "up": up[at], "down": down[at], "epsilon": eps, "why": why,
                "skipped": float(skipped.sel(dropout=dropout, rule=rule)),
            }  # fmt: skip
    return found


def _accuracies(here: xr.DataArray, control: xr.DataArray) -> dict[str, Any]:
    """Of a rule `[attack, seed]`: without attack, and under the worst of all attacks, if one costs the mean 10 points.

    An attack that is made against rules may cost the mean nothing, so all of them count.
    """
    means, lost = here.mean("seed"), control.mean("seed").sel(attack=HONEST) - control.mean("seed")
    attacks = [str(name) for name in here.attack.values if name != HONEST]
    worst_of = min(attacks, key=lambda name: float(means.sel(attack=name))) if float(lost.max()) >= BITES else ""
    under = here.sel(attack=worst_of).values if worst_of else np.full(here.sizes["seed"], np.nan)
    return {
        "honest": float(means.sel(attack=HONEST)), "worst": float(under.mean()), "attack": worst_of,
        "width": float(half_width(under)), "lost": float(lost.max()), "mean": float(control.sel(attack=HONEST).mean()),
    }  # fmt: skip


def _epsilon(config: Config, shared: Problem, program: Program, runs: xr.Dataset, dropout: float) -> tuple[float, str]:
    """The server's entry of the ledger for all rounds of the first seed; NaN and why not, where there is none."""
    first = runs.isel(rule=0, attack=0, seed=0).sel(dropout=dropout)
    made = system(config, shared, program, rule=0, attack=0, dropout=dropout)
    run = first.assign_attrs(num_params=shared.size)
    entry = next(one for one in ledger(made, run, shared.clients, delta=config.delta) if one.view == "server")
    eps = worst(entry.proved)
    return (np.nan, entry.proved.why) if eps is None else (eps, "")


def dataset(config: Config, cells: dict[Cell, dict[str, Any]]) -> xr.Dataset:
    """All stacks of the grid, in order: numbers of those that were run, and why others were not."""
    rows = [_row(cell, cells.get(cell)) for cell in stacks()]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return xr.Dataset({name: ("stack", values) for name, values in columns.items()}, attrs={"repeats": config.repeats})


def _row(cell: Cell, found: dict[str, Any] | None) -> dict[str, Any]:
    stack = stack_of(cell)
    refusal = why_not(stack)
    numbers = ("honest", "worst", "width", "lost", "mean", "up", "down", "epsilon", "skipped", *Game._fields)
    row: dict[str, Any] = cell._asdict() | dict.fromkeys(numbers, np.nan) | {"attack": "", "why": ""}
    if refusal is not None:
        return row | {"code": refusal.code, "why": refusal.sentence, "marks": ""}
    return row | {"code": POSSIBLE if found else NOT_RUN, "marks": marks_of(stack)} | (found or {})


def cells(data: xr.Dataset) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """The rows of a dataset again."""
    columns = {str(name): values.values for name, values in data.data_vars.items()}
    for i in range(data.sizes["stack"]):
        row = {name: values[i].item() if hasattr(values[i], "item") else values[i] for name, values in columns.items()}
        yield Cell(*(row[name] for name in Cell._fields)), row
