"""Fig. 6: FedREP and SparseSecAgg without attacks, for buffers of 4, 8 and 16 clients."""

from typing import cast

import xarray as xr

from experiments import harness
from experiments.fedrep.budget import ahead, cost
from experiments.fedrep.curves import beside, caveats, claim, draw
from experiments.fedrep.methods import Method
from experiments.fedrep.scales import CPU, PAPER, QUICK
from experiments.fedrep.training import Config, Setting
from experiments.fedrep.training import run as run_methods


def config(setting: Setting, sizes: tuple[int, ...], ratios: tuple[float, ...], rates: tuple[float, ...]) -> Config:
    """`rates` are SparseSecAgg's."""
    sparse = {
        f"SparseSecAgg {ratio:g}": Method("SparseSecAgg", ratio, num_byzantine=0, rates=rates) for ratio in ratios
    }
    ours = {
        f"FedREP {ratio:g}, s = {size}": Method(ratio=ratio, buffer_size=size, num_byzantine=0)
        for size in sizes
        for ratio in ratios
    }
    return Config(setting, sparse | ours, attacks=("none",))


SCALES = {
    "quick": config(QUICK, (4,), (0.05,), QUICK.rates),
    "cpu": config(CPU._replace(rates=(0.5, 1.0, 2.0)), (4, 8, 16), (0.05, 0.1), (0.5, 1.0, 2.0)),
    "paper": config(PAPER, (4, 8, 16), (0.05, 0.1), (*PAPER.rates, 10.0, 20.0)),
}


def run(config: Config) -> harness.Outcome:
    result = run_methods(config).squeeze(("alpha", "momentum"), drop=True)
    said = [
        *caveats(config, result), cost(result),
        "bytes are those of every message; keys, shares and bitmaps weigh more the smaller d is",
        "at equal bytes the costlier run is read where it has spent as many, which may be before its rate falls",
    ]  # fmt: skip
    return harness.Outcome(draw(by_size(config, result.accuracy), said[0]), result, claims(config, result), said)


def by_size(config: Config, accuracy: xr.DataArray) -> xr.DataArray:
    """A panel for each size of buffers, SparseSecAgg in all."""
    sizes = dict.fromkeys(method.buffer_size for method in config.methods.values() if method.system == "FedREP")
    panels = []
    for size in sizes:
        names = [name for name in config.methods if name.endswith(f"s = {size}") or name.startswith("SparseSecAgg")]
        lines = [name.partition(",")[0] for name in names]
        panels.append(accuracy.sel(curve=names).assign_coords(curve=lines).squeeze("attack", drop=True))
    whole = cast(xr.DataArray, xr.concat(panels, xr.Variable("attack", [f"s = {size}" for size in sizes])))
    return whole.rename(curve="line")


def claims(config: Config, result: xr.Dataset) -> list[harness.Claim]:
    ours = {name: method.ratio for name, method in config.methods.items() if method.system == "FedREP"}
    text = {
        "iteration": "FedREP is clearly better at K / d as SparseSecAgg's Gamma",
        "up": "and at equal uploaded bytes",
        "both": "and at equal bytes up and down",
    }
    said = []
    for way, words in text.items():
        gaps = beside({name: ahead(result, name, f"SparseSecAgg {ratio:g}", way) for name, ratio in ours.items()})
        rule = "in every pair, more than 1 above, and noise; farthest shown"
        said.append(claim(words, "clearly", gaps, gaps.clear, rule))
    return said
