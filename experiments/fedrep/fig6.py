"""Fig. 6: FedREP and SparseSecAgg without attacks, for buffers of 4, 8 and 16 clients.

python -m experiments.fedrep.fig6 --scale quick
"""

import xarray as xr

from experiments import harness
from experiments.fedrep.curves import Gap, caveats, claim, cost, draw, gap
from experiments.fedrep.methods import Method
from experiments.fedrep.scales import CPU, PAPER, QUICK
from experiments.fedrep.training import Config, Setting
from experiments.fedrep.training import run as run_methods


def config(setting: Setting, sizes: tuple[int, ...], ratios: tuple[float, ...]) -> Config:
    sparse = {f"SparseSecAgg {ratio:g}": Method("SparseSecAgg", ratio=ratio, num_byzantine=0) for ratio in ratios}
    ours = {
        f"FedREP {ratio:g}, s = {size}": Method(ratio=ratio, buffer_size=size, num_byzantine=0)
        for size in sizes
        for ratio in ratios
    }
    return Config(setting, sparse | ours, attacks=("none",))


SCALES = {
    "quick": config(QUICK, (4,), (0.05,)),
    "cpu": config(CPU._replace(rates=(0.5, 1.0, 2.0)), (4, 8, 16), (0.05, 0.1)),
    "paper": config(PAPER._replace(rates=(*PAPER.rates, 10.0)), (4, 8, 16), (0.05, 0.1)),
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
    return xr.concat(panels, xr.Variable("attack", [f"s = {size}" for size in sizes])).rename(curve="line")


def claims(config: Config, result: xr.Dataset) -> list[harness.Claim]:
    ours = {name: method.ratio for name, method in config.methods.items() if method.system == "FedREP"}
    text = {
        "iteration": "FedREP is clearly better at K / d as SparseSecAgg's Gamma",
        "up": "and at equal uploaded bytes",
        "both": "and at equal bytes up and down",
    }
    said = []
    for way, words in text.items():
        pairs = [ahead(result, name, f"SparseSecAgg {ratio:g}", way) for name, ratio in ours.items()]
        gaps = Gap(*(xr.concat(parts, xr.Variable("curve", list(ours))) for parts in zip(*pairs, strict=True)))
        rule = "in every pair, more than 1 above, and noise; farthest shown"
        said.append(claim(words, "clearly", gaps, gaps.clear, rule))
    return said


def ahead(result: xr.Dataset, ours: str, other: str, way: str) -> Gap:
    """FedREP's accuracy less another's: by iteration, or where both sent as many bytes, "up" or "both" ways."""
    pair = [result.sel(curve=name, drop=True) for name in (ours, other)]
    if way == "iteration":
        return gap(*(runs.accuracy for runs in pair))
    spent = [float((runs.up if way == "up" else runs.up + runs.down).mean()) for runs in pair]
    return gap(*(runs.accuracy.pipe(_until, min(spent) / own) for runs, own in zip(pair, spent, strict=True)))


def _until(accuracy: xr.DataArray, share: float) -> xr.DataArray:
    """The part of a run that spent such a share of its bytes, with as many evaluations."""
    epoch = accuracy.epoch
    return accuracy.interp(epoch=epoch * share).assign_coords(epoch=epoch)


if __name__ == "__main__":
    harness.main(__file__, __doc__, SCALES, run)
