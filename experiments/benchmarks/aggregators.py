"""Milliseconds of every aggregation rule, beside those of ByzFL on NumPy where it is installed.

python experiments/benchmarks/aggregators.py --out results/aggregators.json [--rules krum,mda] [--repeats 5]

Ours and ByzFL's calls take turns on the same rows of float32. Rules that look at all subsets have 12 rows, 3 of them
Byzantine, the others 32 and 7. The time to compile stands beside.
"""

import argparse
import importlib
import importlib.util
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.aggregators import (
    PreAggregator,
    arc,
    bucketing,
    caf,
    centered_clipping,
    clipping,
    coordinate_median,
    filter_l2,
    geometric_median,
    krum,
    mda,
    meamed,
    mean,
    monna,
    multi_krum,
    nearest_neighbour_mixing,
    norm_trimming,
    smea,
    trimmed_mean,
)
from fedjax_priv.base import Aggregator, Received
from fedjax_priv.runs.records.manifest import manifest

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
    "mean": Case(mean(), lambda b: b.Average()),
    "coordinate_median": Case(coordinate_median(), lambda b: b.Median()),
    "trimmed_mean": Case(trimmed_mean(BYZANTINE), lambda b: b.TrMean(BYZANTINE)),
    "geometric_median": Case(geometric_median(3, 0.1, "zero"), lambda b: b.GeometricMedian(0.1, 3)),
    "geometric_median_5_steps": Case(geometric_median()),
    "krum": Case(krum(BYZANTINE, neighbours="byzfl"), lambda b: b.Krum(BYZANTINE)),
    "multi_krum": Case(multi_krum(BYZANTINE, neighbours="byzfl"), lambda b: b.MultiKrum(BYZANTINE)),
    "centered_clipping": Case(centered_clipping(100.0, 1, "zero"), lambda b: b.CenteredClipping()),
    "centered_clipping_5_steps": Case(centered_clipping(0.5, 5), lambda b: b.CenteredClipping(L=5, tau=0.5)),
    "monna": Case(monna(BYZANTINE), lambda b: b.MoNNA(BYZANTINE)),
    "meamed": Case(meamed(BYZANTINE), lambda b: b.Meamed(BYZANTINE)),
    "caf": Case(caf(BYZANTINE, compared="all"), lambda b: b.CAF(BYZANTINE)),
    "mda": Case(mda(FEW_BYZANTINE), lambda b: b.MDA(FEW_BYZANTINE), FEW_ROWS),
    "smea": Case(smea(FEW_BYZANTINE), lambda b: b.SMEA(FEW_BYZANTINE), FEW_ROWS),
    "norm_trimming": Case(norm_trimming(BYZANTINE / ROWS)),
    "filter_l2": Case(filter_l2(0.1, fraction=BYZANTINE / ROWS)),
    "bucketing": Case(bucketing(2), lambda b: b.Bucketing(2)),
    "nearest_neighbour_mixing": Case(nearest_neighbour_mixing(BYZANTINE), lambda b: b.NNM(BYZANTINE)),
    "clipping": Case(clipping(100.0), lambda b: b.Clipping(100.0)),
    "arc": Case(arc(BYZANTINE), lambda b: b.ARC(BYZANTINE)),
}


def program(part: Aggregator | PreAggregator) -> jax.stages.Wrapped:
    """`run(key, count, rows)`; as ByzFL's, pre-aggregators may write over the rows they are given."""
    if isinstance(part, PreAggregator):
        return jax.jit(lambda key, count, rows: part.apply(key, rows, count > 0)[0], donate_argnums=2)
    return jax.jit(lambda key, count, rows: part.apply(key, part.init(PARAMETERS), Received(rows, count))[0])


def milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begun)


def measure(case: Case, byzfl: ModuleType | None, repeats: int) -> dict[str, float]:
    """A row of the table."""
    rows = np.random.default_rng(0).normal(size=(case.rows, PARAMETERS)).astype(np.float32)
    arguments = jax.random.key(0), jnp.ones(case.rows, jnp.int32)
    begun = time.perf_counter()
    run = program(case.ours).lower(*arguments, jnp.asarray(rows)).compile()
    compiled = time.perf_counter() - begun
    jax.block_until_ready(run(*arguments, jnp.array(rows)))
    theirs = case.theirs(byzfl) if byzfl and case.theirs else None
    ours_took, theirs_took = [], []
    for _ in range(repeats):
        copy = jax.block_until_ready(jnp.array(rows))
        ours_took.append(milliseconds(lambda copy=copy: jax.block_until_ready(run(*arguments, copy))))
        if theirs:
            copy = rows.copy()
            theirs_took.append(milliseconds(lambda copy=copy: theirs(copy)))
    row = {"rows": case.rows, "milliseconds": statistics.median(ours_took), "least": min(ours_took)}
    if theirs:
        row |= {"byzfl": statistics.median(theirs_took), "byzfl_least": min(theirs_took)}
        row |= {"times_faster": row["byzfl"] / row["milliseconds"]}
    return {**row, "compile_seconds": compiled}


def main() -> None:
    """Time the rules one after the other and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rules", default=",".join(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    byzfl = importlib.import_module("byzfl") if importlib.util.find_spec("byzfl") else None
    table: dict[str, object] = {}
    for name in arguments.rules.split(","):
        table[name] = measure(CASES[name], byzfl, arguments.repeats)
        print(name, json.dumps(table[name]), flush=True)
    table["manifest"] = manifest(key=jax.random.key(0), repeats=arguments.repeats, parameters=PARAMETERS)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
