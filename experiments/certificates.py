"""What a search finds against robust rules: the "found" values of `docs/certificates.md`, with rows that reach them.

python -m experiments.certificates --out experiments/results/certificates/certificates.json [--chosen krum] [--seed 0]

A value is a lower bound: the best of `starts` searches (`analysis.kappa_search`) by each of its `seeds`. A run with
another seed adds searches and keeps what is larger; rules that are not chosen stay as they are. Rows are float32,
Byzantine ones first.
"""

import argparse
import json
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fedjax_priv import aggregators
from fedjax_priv.analysis import kappa_search
from fedjax_priv.base import Aggregator
from fedjax_priv.runs.records import atomic_file

SETTINGS = ((7, 2), (11, 3), (15, 4), (16, 3))
"""Rows, and how many of them are Byzantine."""
STARTS, STEPS, PARAMS = 24, 200, 3
SHORT, SHORT_STARTS, SHORT_STEPS = ("geometric_median", "caf", "mda", "smea"), 6, 60
"""Rules that iterate or try subsets, which are searched for less long."""
OF_SUBSETS, MOST_ROWS = ("mda", "smea"), 7
"""Rules whose search takes minutes with more rows: there are 21 subsets of 7 rows, and 1,365 of 15."""


def mixed(num_byzantine: int) -> Aggregator:
    """The trimmed mean after mixing."""
    mixing = aggregators.nearest_neighbour_mixing(num_byzantine)
    return aggregators.pre_aggregated(mixing, aggregators.trimmed_mean(num_byzantine))


RULES: dict[str, Callable[[int], Aggregator]] = {
    "trimmed_mean": aggregators.trimmed_mean,
    "coordinate_median": lambda f: aggregators.coordinate_median(),
    "geometric_median": lambda f: aggregators.geometric_median(),
    "krum": aggregators.krum,
    "krum_byzfl": lambda f: aggregators.krum(f, neighbours="byzfl"),
    "multi_krum": aggregators.multi_krum,
    "meamed": aggregators.meamed,
    "mixed_trimmed_mean": mixed,
    "smea": aggregators.smea,
    "mda": aggregators.mda,
    "caf": aggregators.caf,
}


def settings(name: str) -> list[tuple[int, int]]:
    """Those of `SETTINGS` that are searched."""
    return [(n, f) for n, f in SETTINGS if n <= MOST_ROWS or name not in OF_SUBSETS]


def found(name: str, num_rows: int, num_byzantine: int, seed: int) -> dict[str, Any]:
    """An entry of the file, of one seed."""
    rule, key = RULES[name](num_byzantine), jax.random.key(seed)
    starts, steps = (SHORT_STARTS, SHORT_STEPS) if name in SHORT else (STARTS, STEPS)
    worst = kappa_search(key, rule, num_rows, num_byzantine, num_params=PARAMS, starts=starts, steps=steps)
    rows = np.asarray(worst.rows).tolist()
    return {"kappa": round(float(worst.kappa), 4), "seeds": [seed], "starts": starts, "steps": steps, "rows": rows}


def better(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The larger of two entries, with the seeds of both."""
    if old is None:
        return new
    best = max(old, new, key=lambda entry: entry["kappa"])
    return best | {"seeds": sorted({*old["seeds"], *new["seeds"]})}


def write(file: pathlib.Path, chosen: str, seed: int) -> None:
    """Searches, printing each value; the file is written after each."""
    for name, n, f in ((rule, *of) for rule in chosen.split(",") for of in settings(rule)):
        rules = json.loads(file.read_text())["rules"] if file.exists() else {}
        entries = rules.setdefault(name, {})
        entries[f"{n},{f}"] = entry = better(entries.get(f"{n},{f}"), found(name, n, f, seed))
        print(name, n, f, entry["kappa"], flush=True)
        kept = {name: rules[name] for name in RULES if name in rules}
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write(file, (json.dumps({"rules": kept}) + "\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file")
    parser.add_argument("--chosen", default=",".join(RULES), help="rules, all if not given")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(given.out, given.chosen, given.seed)
