"""Fig. 1: FedREP with centered clipping under attacks, for shares alpha of coordinates proposed at random."""

import xarray as xr

from experiments import harness
from experiments.fedrep.curves import caveats, claim, draw, gap
from experiments.fedrep.methods import Method
from experiments.fedrep.scales import CPU, FEW, PAPER, QUICK
from experiments.fedrep.training import Config
from experiments.fedrep.training import run as run_methods

ALPHAS = (0.0, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0)
SCALES = {
    "quick": Config(QUICK, {"CClip": Method(num_byzantine=FEW)}, alphas=(0.0, 0.5, 1.0)),
    "cpu": Config(CPU._replace(rates=(0.1, 0.2, 0.5, 1.0)), {"CClip": Method()}, alphas=ALPHAS),
    "paper": Config(PAPER, {"CClip": Method()}, alphas=ALPHAS),
}


def run(config: Config) -> harness.Outcome:
    result = run_methods(config).squeeze("momentum", drop=True)
    found = [said for rule in result.curve.values for said in claims(result.accuracy.sel(curve=rule), str(rule))]
    said = caveats(config, result)
    picture = draw(result.accuracy.rename(curve="row", alpha="line"), said[0], "alpha")
    return harness.Outcome(picture, result, found, said)


def claims(accuracy: xr.DataArray, rule: str) -> list[harness.Claim]:
    """Of one rule."""
    plain, of = accuracy.sel(alpha=0.0, drop=True), accuracy.alpha
    below, above = (gap(accuracy.sel(alpha=of[part]), plain) for part in ((of > 0) & (of <= 0.95), of > 0.95))
    falls = above._replace(last=-above.last).clear.any("alpha")
    return [
        claim(
            f"{rule}: little change in accuracy up to alpha = 0.95", "little change", below, below.small,
            "the largest change against alpha = 0 is at most 2, and noise",
        ),
        claim(
            f"{rule}: accuracy falls beyond", "falls, memory entries grow large", above, falls,
            "somewhere beyond, more than 1 and noise below alpha = 0",
        ),
    ]  # fmt: skip
