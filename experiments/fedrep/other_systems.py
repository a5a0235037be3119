"""Fig. 2, 6 and 7: FedREP against RCGD-EF under attacks, and against SparseSecAgg without."""

from typing import cast

import xarray as xr
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from experiments.claims import Claim, Source
from experiments.comparison import MARGIN
from experiments.drawing import plain
from experiments.fedrep.curves import Compared, ahead, at_equal, claim, compared, draw
from experiments.fedrep.methods import ALIE, Method
from experiments.fedrep.training import Config

ABOVE = "more than 1 above, 95% interval above 0"
BETTER = "above, 95% interval"
SPARSE = "SparseSecAgg"


def sparse(fractions: tuple[float, ...], rates: tuple[float, ...]) -> dict[str, Method]:
    """SparseSecAgg for each fraction of coordinates, without Byzantine clients."""
    return {f"{SPARSE} {of:g}": Method(SPARSE, of, num_byzantine=0, rates=rates) for of in fractions}


def against_rcgd_ef(config: Config, result: xr.Dataset) -> list[Claim]:
    return over_rcgd_ef(result, *(ahead(result, "FedREP", "RCGD-EF", way) for way in ("iteration", "both")))


def over_rcgd_ef(result: xr.Dataset, by_iteration: Compared, at_equal_bytes: Compared) -> list[Claim]:
    """FedREP's accuracy less RCGD-EF's; being better than comparable is no failure."""
    alike, better = (by_iteration.sel(attack=list(names)) for names in (("bit-flip", "FoE"), ALIE))
    return [
        claim(
            "comparable", "FedREP is comparable to RCGD-EF under bit-flip and FoE", "comparable", alike,
            alike.gap.at_least(), "no more than 2 below, 95% interval; above does not matter", controlled_by=result,
        ),
        claim(
            "better-under-alie", "FedREP is better under ALIE", "better", better, better.gap.above(), BETTER,
            controlled_by=result,
        ),
        claim(
            "equal-bytes", "at equal bytes up and down FedREP is better", "", at_equal_bytes,
            at_equal_bytes.gap.clear(), ABOVE, "RCGD-EF's model comes down whole", Source.OURS,
        ),
    ]  # fmt: skip


def by_size(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 6: each FedREP against SparseSecAgg with the same fraction of coordinates."""
    ours = {name: method.ratio for name, method in config.methods.items() if method.system == "FedREP"}
    text = {
        "iteration": "FedREP is clearly better at K / d as SparseSecAgg's Gamma",
        "up": "and at equal uploaded bytes",
        "both": "and at equal bytes up and down",
    }
    said = []
    for way, words in text.items():
        pairs = [at_equal(result, name, f"{SPARSE} {ratio:g}", way) for name, ratio in ours.items()]
        sides = (xr.concat(side, xr.Variable("curve", list(ours))) for side in zip(*pairs, strict=True))
        found = compared(*(cast(xr.DataArray, side) for side in sides))
        rule = f"in every pair, {ABOVE}"
        said.append(claim(f"better-{way}", words, "clearly", found, found.gap.clear(), rule, "farthest shown"))
    return said


def sizes(config: Config, result: xr.Dataset, title: str) -> Figure:
    """Fig. 6: a panel for each size of buffers, SparseSecAgg in all."""
    panels = {}
    for size in dict.fromkeys(method.buffer_size for method in config.methods.values() if method.system == "FedREP"):
        lines = {
            name: f"{method.system} {method.ratio:g}"
            for name, method in config.methods.items()
            if method.system == SPARSE or method.buffer_size == size
        }
        of = result.accuracy.sel(curve=list(lines)).assign_coords(curve=list(lines.values()))
        panels[f"s = {size}"] = of.squeeze("attack", drop=True)
    whole = cast(xr.DataArray, xr.concat(list(panels.values()), xr.Variable("attack", list(panels))))
    return draw(whole.rename(curve="line"), title)


def by_rate(config: Config, result: xr.Dataset) -> list[Claim]:
    """Fig. 7."""
    ours, *others = result.curve.values
    accuracy = lambda name: result.accuracy.sel(curve=name, drop=True)
    like, most = compared(accuracy(ours), accuracy(others[0])), compared(accuracy(ours), accuracy(others[-1]))
    rates = {str(name): float(result.rate.sel(curve=name)) for name in others}
    grid = result.end.sel(curve=others).dropna("tried", how="all").tried.values
    return [
        claim("like-cost", f"FedREP is better than {others[0]}", "better at like cost", like, like.gap.above(), BETTER),
        claim(
            "more-cost", f"and at least as good as {others[-1]}", "it needs far more to be as good", most,
            most.gap.at_least(MARGIN), f"no more than {100 * MARGIN:g} below, 95% interval",
        ),
        Claim(
            "best-rate", "SparseSecAgg's best rate is 5, the edge of the grid", "5",
            ", ".join(f"{name}: {rate:g}" for name, rate in rates.items()),
            all(rate == 5 for rate in rates.values()) if grid.max() >= 5 else None,
            "5 for every fraction of coordinates",
            f"tried: {', '.join(f'{rate:g}' for rate in grid)}; values are scaled by 1 / p, as in its own paper",
        ),
    ]  # fmt: skip


def rates(config: Config, result: xr.Dataset, title: str) -> Figure:
    """Fig. 7: curves at the best rates, and the ends at all rates."""
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
    plain(ends)
    return picture
