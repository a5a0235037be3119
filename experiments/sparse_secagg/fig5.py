"""Fig. 5: MNIST, IID, to 97%: total upload, time and revealed fraction of SecAgg and SparseSecAgg."""

import numpy as np
import xarray as xr

from experiments import harness
from experiments.claims import Claim
from experiments.sparse_secagg.comparison import Paper, caveats, claims, figure
from experiments.sparse_secagg.training import Config, Setting, compare

SCALES = {
    "quick": Config(
        Setting("digits", model="mlp32", learning_rate=0.05), target=0.85,
        num_clients=(12,), rounds=(25,), repeats=1, timed_rounds=2,
    ),
    "cpu": Config(Setting(model="mlp64"), target=0.92, num_clients=(25, 50, 100), rounds=(12, 24, 48), repeats=1),
    "paper": Config(Setting(), target=0.97),
}  # fmt: skip
PAPER = Paper(upload=17.9, clock=1.8)


def run(config: Config) -> harness.Outcome:
    result = compare(config)
    found = [*claims(config, PAPER, result), revealed(result)]
    return harness.Outcome(figure(config, result), result, found, caveats(config, result))


def revealed(result: xr.Dataset) -> Claim:
    """Fig. 5(c)."""
    mean = result.revealed_all.sel(system="SparseSecAgg").mean(("seed", "round")).values
    return Claim(
        "revealed-by-n", "revealed fraction falls with N", "falls", ", ".join(f"{share:.3f}" for share in mean),
        bool((np.diff(mean) < 0).all()) if len(mean) > 1 else None,
        "coordinates that one honest user sends, dropouts not counted; what the server reads is more: leakage.py",
    )  # fmt: skip
