"""Fig. 3: CIFAR-10, IID, to 55%: total upload, accuracy by round and time of SecAgg and SparseSecAgg."""

import numpy as np
import xarray as xr

from experiments import harness
from experiments.claims import Claim
from experiments.sparse_secagg.comparison import Paper, caveats, claims, figure
from experiments.sparse_secagg.training import Config, Setting, compare, rounds_to

SCALES = {
    "quick": Config(
        Setting("digits", model="mlp32", learning_rate=0.05), target=0.85,
        num_clients=(12,), rounds=(25,), repeats=1, timed_rounds=2,
    ),
    "cpu": Config(
        Setting("cifar10", samples=10_000, model="mlp64"), target=0.35,
        num_clients=(10, 20), rounds=(20, 40), repeats=1,
    ),
    "paper": Config(Setting("cifar10"), target=0.55),
}  # fmt: skip
PAPER = Paper(upload=7.8, clock=1.13)


def run(config: Config) -> harness.Outcome:
    result = compare(config)
    found = [*claims(config, PAPER, result), *rounds(config, result)]
    return harness.Outcome(figure(config, result), result, found, caveats(config, result))


def rounds(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 3(b)."""
    needed = rounds_to(result, config.target).mean("seed", skipna=False)
    dense, sparse = (needed.sel(system=system).values for system in ("SecAgg", "SparseSecAgg"))
    reached = bool(needed.notnull().all())
    return [
        Claim(
            "few-rounds-earlier",
            "SecAgg reaches the target only a few rounds earlier", "a few", harness.span(sparse - dense),
            bool((sparse - dense <= np.maximum(5, 0.2 * dense)).all()) if reached else None,
            "verdict: at most 5 rounds, or a fifth of SecAgg's",
        ),
        Claim(
            "rounds-grow-with-n", "larger N needs more rounds", "more", ", ".join(f"{r:.3g}" for r in sparse),
            bool((np.diff(sparse) > 0).all() and (np.diff(dense) > 0).all())
            if reached and len(sparse) > 1 else None,
        ),
    ]  # fmt: skip
