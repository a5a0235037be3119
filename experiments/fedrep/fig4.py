"""Fig. 4: FedREP where Byzantine clients attack the coordinates they propose, as well as the values they send."""

import xarray as xr

from experiments import harness
from experiments.fedrep.budget import cost
from experiments.fedrep.curves import caveats, claim, draw, gap
from experiments.fedrep.methods import COORDINATES, Method
from experiments.fedrep.scales import CPU, FEW, PAPER, QUICK
from experiments.fedrep.training import Config
from experiments.fedrep.training import run as run_methods

METHODS = {name: Method(ratio=0.065, coordinates=name) for name in COORDINATES}
SLIGHT = 0.1
SCALES = {
    "quick": Config(QUICK, {name: METHODS[name]._replace(num_byzantine=FEW) for name in ("noAtk", "minAtk")}),
    "cpu": Config(CPU._replace(rates=(0.2, 0.5)), METHODS),
    "paper": Config(PAPER, METHODS),
}


def run(config: Config) -> harness.Outcome:
    result = run_methods(config).squeeze(("alpha", "momentum"), drop=True)
    said = [*caveats(config, result), cost(result)]
    return harness.Outcome(draw(result.accuracy.rename(curve="line"), said[0]), result, claims(result), said)


def claims(result: xr.Dataset) -> list[harness.Claim]:
    attacked, without = result.drop_sel(curve="noAtk"), result.sel(curve="noAtk", drop=True)
    change = gap(attacked.accuracy, without.accuracy)
    sent = lambda runs: (runs.up + runs.down).mean("seed")
    more = sent(attacked) / sent(without) - 1
    by_method = ", ".join(
        f"{name} {100 * float(more.sel(curve=name).min()):+.1f} to {100 * float(more.sel(curve=name).max()):+.1f}%"
        for name in more.curve.values
    )
    return [
        claim(
            "attacks on coordinates hardly change accuracy", "hardly", change, change.not_below,
            "none is more than 2, and noise, below noAtk",
        ),
        harness.Claim(
            "attacks on coordinates change bytes slightly", "slightly", by_method, bool((abs(more) <= SLIGHT).all()),
            f"up and down, against noAtk, over attacks on values; verdict: at most {SLIGHT:.0%}",
        ),
    ]  # fmt: skip
