"""What is measured of each cell: accuracy alone and under the worst attack, bytes, proved eps, rounds without a step or
without a guarantee.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from experiments.atlas.audits import Game
from experiments.atlas.stacks import BYZANTINE, CLIENTS, Cell, rules, stack_of, stacks
from experiments.atlas.training import HONEST, Config, Problem, Program, kilobytes, system
from fedjax_priv.analysis.intervals import half_width
from fedjax_priv.base import Aggregator
from fedjax_priv.ledger import ledger
from fedjax_priv.ledger.entry import worst
from fedjax_priv.systems.composition import marks_of, why_not

BITES = 0.1
"""Accuracy that an attack has to cost the mean."""
NOT_RUN, POSSIBLE = "not run", ""
NUMBERS = (
    "honest", "worst", "width", "lost", "mean", "up", "down", "epsilon", "skipped", "uncovered", *Game._fields
)  # fmt: skip


def measured(config: Config, shared: Problem, program: Program, runs: xr.Dataset) -> dict[Cell, dict[str, Any]]:
    """The cells of a program."""
    last = runs.accuracy.isel(evaluation=-1).fillna(0)
    skipped = (runs.status > 0).mean(["round", "seed", "attack"])
    groups = groups_of(config, shared, program)
    up, down = kilobytes(runs, "up_bytes"), kilobytes(runs, "down_bytes")
    found = {}
    for at, dropout in enumerate(config.dropouts):
        eps, why = _epsilon(config, shared, program, runs, dropout)
        for rule in program.rules:
            here, control = (last.sel(dropout=dropout, rule=name) for name in (rule, "mean"))
            found[program.cell(rule, dropout)] = _accuracies(here, control) | {
                "up": up[at], "down": down[at], "epsilon": eps, "why": why,
                "skipped": float(skipped.sel(dropout=dropout, rule=rule)),
                "uncovered": uncovered(runs.sel(dropout=dropout, rule=rule), groups, rules()[rule]),
            }  # fmt: skip
    return found


def groups_of(config: Config, shared: Problem, program: Program) -> np.ndarray:
    """The row of each client, `[seed, round, client]`: a draw depends on the seed alone."""
    made = system(config, shared, program, rule=0, attack=0, dropout=0.0)
    draw = made.draw
    assert draw is not None

    def drawn(seed: Array) -> Array:
        key = jax.random.fold_in(jax.random.key(config.seed), seed)
        state = made.init(key, shared.model.init(key), shared.clients).draw
        one = lambda number: draw(key, state, number, shared.clients.count)[0].group
        return jax.vmap(one)(jnp.arange(config.rounds))

    return np.asarray(jax.jit(jax.vmap(drawn))(jnp.arange(config.repeats)))


def uncovered(runs: xr.Dataset, groups: np.ndarray, rule: Aggregator) -> float:
    """The fraction of rounds with a step to which more rows with an attacker came than the rule tolerates.

    Args:
      runs: by attack, seed, round and client.
      groups: the row of each client, `[seed, round, client]`.
      rule: one that says how many it tolerates; NaN of another.
    """
    if (most := rule.most_byzantine) is None:
        return np.nan
    counted = runs.counted.transpose("attack", "seed", "round", "client").values == 1
    here = groups[..., None] == np.arange(groups.max() + 1)
    rows = lambda who: (who[..., None] & here).any(-2).sum(-1)
    came, attacked = rows(counted), rows(counted & (np.arange(CLIENTS) < BYZANTINE))
    tolerated = np.vectorize(most, otypes=[int])(came)
    stepped = runs.status.transpose("attack", "seed", "round").values == 0
    return float((stepped & (attacked > tolerated)).mean())


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
    row: dict[str, Any] = cell._asdict() | dict.fromkeys(NUMBERS, np.nan) | {"attack": "", "why": ""}
    if refusal is not None:
        return row | {"code": refusal.code, "why": refusal.sentence, "marks": ""}
    return row | {"code": POSSIBLE if found else NOT_RUN, "marks": marks_of(stack)} | (found or {})


def cells(data: xr.Dataset) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """The rows of a dataset again; NaN for what an earlier run did not measure."""
    known = {str(name): values.values for name, values in data.data_vars.items()}
    columns = {name: np.full(data.sizes["stack"], np.nan) for name in NUMBERS} | known
    for i in range(data.sizes["stack"]):
        row = {name: values[i].item() if hasattr(values[i], "item") else values[i] for name, values in columns.items()}
        yield Cell(*(row[name] for name in Cell._fields)), row
