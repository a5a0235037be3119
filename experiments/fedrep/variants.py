"""Fig. 1, 3, 4 and 5: FedREP by alpha, under attacks on coordinates, and with momentum."""

import numpy as np
import xarray as xr

from experiments.claims import Claim, Open
from experiments.comparison import MARGIN, decided, gap, over_seeds
from experiments.fedrep import control
from experiments.fedrep.curves import HANGS_ON_Z, claim, compared
from experiments.fedrep.methods import ALIE
from experiments.fedrep.training import Config

SLIGHT = 0.1
"""Bytes change slightly up to a tenth."""


def alpha(config: Config, result: xr.Dataset) -> list[Claim]:
    return [said for rule in result.curve.values for said in of_rule(result.accuracy.sel(curve=rule), str(rule))]


def alpha_and_unsteady(config: Config, result: xr.Dataset) -> list[Claim]:
    return [*alpha(config, result), unsteady(result)]


def of_rule(accuracy: xr.DataArray, rule: str) -> list[Claim]:
    plain, of = accuracy.sel(alpha=0.0, drop=True), accuracy.alpha
    below, above = (compared(accuracy.sel(alpha=of[part]), plain) for part in ((of > 0) & (of <= 0.95), of > 0.95))
    ends = (plain - accuracy.sel(alpha=of[of > 0.95])).isel(epoch=-1, drop=True)
    falls = over_seeds(ends, max(1, ends.sizes["alpha"])).clear()  # at any of them
    beyond = Claim(
        f"{rule}-falls", f"{rule}: accuracy falls beyond", "falls, memory entries grow large", "no alpha beyond is run",
        None, "somewhere beyond, more than 1 below alpha = 0, 95% interval",
    )  # fmt: skip
    return [
        claim(
            f"{rule}-flat", f"{rule}: little change in accuracy up to alpha = 0.95", "little change", below,
            below.gap.small(), "every alpha at most 2 from alpha = 0, and as sure as that",
        ),
        claim(*beyond[:3], above, falls.max("alpha"), beyond.rule) if above.gap.mean.size else beyond,
    ]  # fmt: skip


def unsteady(result: xr.Dataset) -> Claim:
    """Ups and downs between evaluations in the second half, at alpha = 0."""
    accuracy = result.accuracy
    said = Claim(
        "unsteady", "TMean is unsteady under ALIE", "unsteady", "one rule is run", None,
        "twice geoMed's, and TMean's own under bit-flip, 95% intervals over seeds",
    )  # fmt: skip
    if not {"geoMed", "TMean"} <= {*accuracy.curve.values}:
        return said
    late = accuracy.sel(alpha=0.0).isel(epoch=slice(accuracy.sizes["epoch"] // 2, None))
    swing = 100 * abs(late.diff("epoch")).mean("epoch")
    by = lambda rule, attack: swing.sel(curve=rule, attack=attack, drop=True)
    of = lambda rule, attack: float(by(rule, attack).mean())
    others = {name: np.maximum(by("geoMed", name), by("TMean", "bit-flip")) for name in ALIE}
    holds = xr.concat([gap(by("TMean", name), 2 * others[name]).above(margin=100 * MARGIN) for name in ALIE], "attack")
    said = said._replace(
        found="; ".join(f"{name}: TMean {of('TMean', name):.2f}, geoMed {of('geoMed', name):.2f}" for name in ALIE),
        verdict=decided(holds),
        why=Open.UNDECIDED,
        note="mean change between evaluations, points" + (f"; {HANGS_ON_Z}" if {1, -1} == {*holds.values} else ""),
    )
    return control.controlled(result, said, list(ALIE), control.biting(result, list(ALIE)))


def coordinates(config: Config, result: xr.Dataset) -> list[Claim]:
    attacked, without = result.drop_sel(curve="noAtk"), result.sel(curve="noAtk", drop=True)
    change = compared(attacked.accuracy, without.accuracy)
    sent = lambda runs: (runs.up + runs.down).mean("seed")
    more = sent(attacked) / sent(without) - 1
    by_method = ", ".join(
        f"{name} {100 * float(more.sel(curve=name).min()):+.1f} to {100 * float(more.sel(curve=name).max()):+.1f}%"
        for name in more.curve.values
    )
    return [
        claim(
            "accuracy", "attacks on coordinates hardly change accuracy", "hardly", change, change.gap.at_least(),
            "none is more than 2 below noAtk, 95% interval",
        ),
        Claim(
            "bytes", "attacks on coordinates change bytes slightly", "slightly", by_method,
            bool((abs(more) <= SLIGHT).all()), f"at most {SLIGHT:.0%}",
            "up and down, against noAtk, over attacks on values",
        ),
    ]  # fmt: skip


def momentum(config: Config, result: xr.Dataset) -> list[Claim]:
    return [helps(str(rule), result.sel(curve=rule)) for rule in result.curve.values]


def helps(rule: str, result: xr.Dataset) -> Claim:
    accuracy = result.accuracy
    gained = compared(accuracy.sel(momentum=0.9), accuracy.sel(momentum=0.0))
    return claim(
        rule, f"{rule}: momentum helps under ALIE", "helps", gained, gained.gap.above(),
        "0.9 above 0, 95% interval", controlled_by=result,
    )  # fmt: skip
