"""Fig. 5: momentum of local training under ALIE."""

import xarray as xr

from experiments import harness
from experiments.fedrep.curves import caveats, claim, draw, gap
from experiments.fedrep.methods import ALIE, Method
from experiments.fedrep.scales import CPU, FEW, PAPER, QUICK
from experiments.fedrep.training import Config
from experiments.fedrep.training import run as run_methods

METHODS = {rule: Method(aggregate=rule) for rule in ("geoMed", "TMean", "CClip")}
MOMENTA = (0.0, 0.5, 0.9)
SCALES = {
    "quick": Config(QUICK, {"CClip": Method(num_byzantine=FEW)}, attacks=ALIE, momenta=MOMENTA),
    "cpu": Config(CPU, METHODS, attacks=ALIE, momenta=MOMENTA),
    "paper": Config(PAPER, METHODS, attacks=ALIE, momenta=(*MOMENTA, 0.99)),
}


def run(config: Config) -> harness.Outcome:
    result = run_methods(config).squeeze("alpha", drop=True)
    said = caveats(config, result)
    found = [helps(str(rule), result.accuracy.sel(curve=rule)) for rule in result.curve.values]
    picture = draw(result.accuracy.rename(curve="row", momentum="line"), said[0], "momentum")
    return harness.Outcome(picture, result, found, said)


def helps(rule: str, accuracy: xr.DataArray) -> harness.Claim:
    gained = gap(accuracy.sel(momentum=0.9), accuracy.sel(momentum=0.0))
    return claim(
        f"{rule}: momentum helps under ALIE", "helps", gained, gained.clear, "0.9 more than 1 above 0, and noise"
    )
