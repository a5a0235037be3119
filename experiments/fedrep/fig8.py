"""Fig. 8 to 11: FedREP at several ratios and SHARE, plain SGD, without attack and with 3 Byzantine clients."""

from typing import Any

import numpy as np
import xarray as xr

from experiments import harness
from experiments.fedrep.budget import cost
from experiments.fedrep.curves import SMALL, Gap, beside, caveats, claim, draw, gap
from experiments.fedrep.methods import ALIE, PAPERS, Method
from experiments.fedrep.scales import CPU, FEW, PAPER, QUICK
from experiments.fedrep.training import Config
from experiments.fedrep.training import run as run_methods

ATTACKS = ("none", *PAPERS)
LITTLE = 0.05


def methods(ratios: tuple[float, ...], **how: Any) -> dict[str, Method]:
    ours = {f"FedREP {ratio:g}": Method(ratio=ratio, **how) for ratio in ratios}
    return ours | {"SHARE": Method("SHARE", ratio=1.0, **how)}


RATIOS = (0.02, 0.06, 0.13)
SCALES = {
    "quick": Config(QUICK, methods((0.13,), num_byzantine=FEW), attacks=ATTACKS, momenta=(0.0,)),
    "cpu": Config(
        CPU._replace(rates=(0.5, 1.0)), methods(RATIOS, buffer_size=4, num_byzantine=3), attacks=ATTACKS, momenta=(0.0,)
    ),
    "paper": Config(PAPER, methods(RATIOS, buffer_size=4, num_byzantine=3), attacks=ATTACKS, momenta=(0.0,)),
}


def run(config: Config) -> harness.Outcome:
    result = run_methods(config).squeeze(("alpha", "momentum"), drop=True)
    said = [*caveats(config, result), cost(result)]
    return harness.Outcome(draw(result.accuracy.rename(curve="line"), said[0]), result, claims(result), said)


def claims(result: xr.Dataset) -> list[harness.Claim]:
    gammas = result.gamma.groupby("curve").mean(...).drop_sel(curve="SHARE")
    found = []
    for wanted, allowed, words in ((0.079, SMALL, "almost nothing"), (0.017, LITTLE, "little")):
        name = gammas.curve.values[np.abs(gammas.values - wanted).argmin()]
        near, ahead = float(gammas.sel(curve=name)), over_share(result, name)
        text = f"FedREP loses {words} against SHARE at Gamma of about {wanted}"
        if abs(near - wanted) > wanted / 4:
            found.append(harness.Claim(text, words, f"nearest is Gamma = {near:.3f}", None))
            continue
        holds = ahead.last >= -(allowed + np.minimum(ahead.noise, SMALL))
        rule = f"no more than {100 * allowed:g}, and noise, below"
        found.append(claim(f"{text} ({near:.3f})", words, ahead, holds, rule))
    return [*found, above_under_alie(result, gammas.curve.values)]


def above_under_alie(result: xr.Dataset, names: list[str]) -> harness.Claim:
    ahead = beside({name: over_share(result.sel(attack=list(ALIE)), name) for name in names})
    return claim(
        "under ALIE FedREP is above SHARE", "above", ahead, ahead.clear, "at every ratio, more than 1 above, and noise"
    )


def over_share(result: xr.Dataset, name: str) -> Gap:
    """FedREP's accuracy less SHARE's."""
    return gap(*(result.accuracy.sel(curve=curve, drop=True) for curve in (name, "SHARE")))
