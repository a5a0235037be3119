"""Fig. 7: FedREP at rate 0.5 and SparseSecAgg at several shares of coordinates and rates, without attacks."""

import xarray as xr
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from experiments import harness
from experiments.fedrep.budget import cost
from experiments.fedrep.curves import caveats, claim, draw, gap
from experiments.fedrep.methods import Method
from experiments.fedrep.scales import CPU, PAPER, QUICK
from experiments.fedrep.training import Config, Setting
from experiments.fedrep.training import run as run_methods


def config(setting: Setting, gammas: tuple[float, ...], rates: tuple[float, ...]) -> Config:
    sparse = {
        f"SparseSecAgg {gamma:g}": Method("SparseSecAgg", gamma, num_byzantine=0, rates=rates) for gamma in gammas
    }
    return Config(setting, {"FedREP 0.05": Method(num_byzantine=0, rates=(0.5,))} | sparse, attacks=("none",))


SCALES = {
    "quick": config(QUICK, (0.05,), (0.5, 1.0)),
    "cpu": config(CPU, (0.05, 0.1, 0.2), (0.2, 0.5, 1.0, 2.0, 5.0)),
    "paper": config(PAPER, (0.05, 0.1, 0.2), (*PAPER.rates, 10.0, 20.0)),
}


def run(config: Config) -> harness.Outcome:
    result = run_methods(config).squeeze(("alpha", "momentum"), drop=True)
    said = [*caveats(config, result), cost(result)]
    return harness.Outcome(figure(result, said[0]), result, claims(result), said)


def claims(result: xr.Dataset) -> list[harness.Claim]:
    ours, *others = result.curve.values
    accuracy = lambda name: result.accuracy.sel(curve=name, drop=True)
    like, most = gap(accuracy(ours), accuracy(others[0])), gap(accuracy(ours), accuracy(others[-1]))
    rates = {str(name): float(result.rate.sel(curve=name)) for name in others}
    grid = result.end.sel(curve=others).dropna("tried", how="all").tried.values
    rule = "more than 1 above, and noise"
    return [
        claim(f"FedREP is better than {others[0]}", "better at like cost", like, like.clear, rule),
        claim(f"and still better than {others[-1]}", "it needs far more to be as good", most, most.clear, rule),
        harness.Claim(
            "SparseSecAgg's best rate is 5, the edge of the grid", "5",
            ", ".join(f"{name}: {rate:g}" for name, rate in rates.items()),
            all(rate == 5 for rate in rates.values()) if grid.max() >= 5 else None,
            f"tried: {', '.join(f'{rate:g}' for rate in grid)}; values are scaled by 1 / p, as in its own paper",
        ),
    ]  # fmt: skip


def figure(result: xr.Dataset, title: str) -> Figure:
    """Curves at the best rates, and the ends at all."""
    picture = draw(result.accuracy.rename(curve="line"), title)
    picture.set_size_inches(9, 3.4)
    picture.suptitle(title, fontsize=10)
    grid = GridSpec(1, 2, picture)
    picture.axes[0].set_subplotspec(grid[0])
    ends = picture.add_subplot(grid[1])
    for line in picture.axes[0].lines:
        of = result.end.sel(curve=line.get_label()).dropna("tried")
        ends.plot(of.tried, of, "o-", color=line.get_color(), linewidth=1.2)
    ends.set(xscale="log", xlabel="learning rate", ylabel="test accuracy at the end", title="by rate")
    ends.title.set_fontsize(9)
    ends.set_xticks(result.tried.values, [f"{rate:g}" for rate in result.tried.values])
    ends.minorticks_off()
    ends.grid(alpha=0.3)
    ends.spines[["top", "right"]].set_visible(False)
    return picture
