"""Milliseconds of every aggregation rule, and of the same rule in ByzFL on NumPy where that is installed.

python -m experiments.benchmarks.aggregators --out results/aggregators.json [--chosen krum,mda] [--repeats 5]

Ours and ByzFL's calls take turns on the same float32 rows. Rules that try all subsets get 12 rows, 3 of them Byzantine;
the others get 32 rows, 7 of them Byzantine. The table also has the seconds to compile.
"""

import importlib
import importlib.util
import json
import statistics
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import script
from experiments.benchmarks.script import seconds, timed
from fedjax_priv import aggregators as rules
from fedjax_priv.aggregators import PreAggregator
from fedjax_priv.base import Aggregator, Received

PARAMETERS = 272_474
"""Of ResNet-20 with 1x1 convolutions in its shortcuts."""

ROWS, BYZANTINE = 32, 7
FEW_ROWS, FEW_BYZANTINE = 12, 3


class Case(NamedTuple):
    """A rule, and the same one of ByzFL."""

    ours: Aggregator | PreAggregator
    theirs: Callable[[ModuleType], Callable] | None = None
    rows: int = ROWS


CASES = {
    "mean": Case(rules.mean(), lambda b: b.Average()),
    "coordinate_median": Case(rules.coordinate_median(), lambda b: b.Median()),
    "trimmed_mean": Case(rules.trimmed_mean(BYZANTINE), lambda b: b.TrMean(BYZANTINE)),
    "geometric_median": Case(rules.weiszfeld(3, 0.1, "zero"), lambda b: b.GeometricMedian(0.1, 3)),
    "geometric_median_5_steps": Case(rules.weiszfeld()),
    "krum": Case(rules.krum(BYZANTINE, neighbours="byzfl"), lambda b: b.Krum(BYZANTINE)),
    "multi_krum": Case(rules.multi_krum(BYZANTINE, neighbours="byzfl"), lambda b: b.MultiKrum(BYZANTINE)),
    "centered_clipping": Case(rules.centered_clipping(100.0, 1, "zero"), lambda b: b.CenteredClipping()),
    "centered_clipping_5_steps": Case(rules.centered_clipping(0.5, 5), lambda b: b.CenteredClipping(L=5, tau=0.5)),
    "monna": Case(rules.monna(BYZANTINE), lambda b: b.MoNNA(BYZANTINE)),
    "meamed": Case(rules.meamed(BYZANTINE), lambda b: b.Meamed(BYZANTINE)),
    "caf": Case(rules.caf(BYZANTINE, compared="all"), lambda b: b.CAF(BYZANTINE)),
    "mda": Case(rules.mda(FEW_BYZANTINE), lambda b: b.MDA(FEW_BYZANTINE), FEW_ROWS),
    "smea": Case(rules.smea(FEW_BYZANTINE), lambda b: b.SMEA(FEW_BYZANTINE), FEW_ROWS),
    "norm_trimming": Case(rules.norm_trimming(BYZANTINE / ROWS)),
    "filter_l2": Case(rules.filter_l2(0.1, fraction=BYZANTINE / ROWS)),
    "bucketing": Case(rules.bucketing(2), lambda b: b.Bucketing(2)),
    "nearest_neighbour_mixing": Case(rules.nearest_neighbour_mixing(BYZANTINE), lambda b: b.NNM(BYZANTINE)),
    "clipping": Case(rules.clipping(100.0), lambda b: b.Clipping(100.0)),
    "arc": Case(rules.arc(BYZANTINE), lambda b: b.ARC(BYZANTINE)),
}


def program(part: Aggregator | PreAggregator) -> jax.stages.Wrapped:
    """`run(key, count, rows)`; pre-aggregators may overwrite the rows they are given, as ByzFL's do."""
    if isinstance(part, PreAggregator):
        return jax.jit(lambda key, count, rows: part.apply(key, rows, count > 0)[0], donate_argnums=2)
    return jax.jit(lambda key, count, rows: part.apply(key, part.init(PARAMETERS), Received(rows, count))[0])


def measure(case: Case, byzfl: ModuleType | None, repeats: int) -> dict[str, float]:
    """A row of the table."""
    rows = np.random.default_rng(0).normal(size=(case.rows, PARAMETERS)).astype(np.float32)
    arguments = jax.random.key(0), jnp.ones(case.rows, jnp.int32)
    run, compiled = timed(lambda: program(case.ours).lower(*arguments, jnp.asarray(rows)).compile())
    jax.block_until_ready(run(*arguments, jnp.array(rows)))
    theirs = case.theirs(byzfl) if byzfl and case.theirs else None
    took: dict[str, list[float]] = {"": [], "byzfl": []}
    for _ in range(repeats):
        copy = jax.block_until_ready(jnp.array(rows))
        took[""].append(1e3 * seconds(lambda copy=copy: run(*arguments, copy)))
        if theirs:
            copy = rows.copy()
            took["byzfl"].append(1e3 * seconds(lambda copy=copy: theirs(copy)))
    row = {"rows": case.rows, "milliseconds": statistics.median(took[""]), "least": min(took[""])}
    if theirs:
        row |= {"byzfl": statistics.median(took["byzfl"]), "byzfl_least": min(took["byzfl"])}
        row |= {"times_faster": row["byzfl"] / row["milliseconds"]}
    return {**row, "compile_seconds": compiled}


def table(chosen: str, repeats: int) -> dict[str, object]:
    """A row for each rule, printed as it is measured."""
    byzfl = importlib.import_module("byzfl") if importlib.util.find_spec("byzfl") else None
    rows: dict[str, object] = {"parameters": PARAMETERS}
    for name in chosen.split(","):
        rows[name] = measure(CASES[name], byzfl, repeats)
        print(name, json.dumps(rows[name]), flush=True)
    return rows


if __name__ == "__main__":
    script.main(__doc__, table, chosen=",".join(CASES), repeats=5)
