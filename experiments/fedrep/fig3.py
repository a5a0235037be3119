"""Fig. 3: as Fig. 1, with the geometric median and the trimmed mean."""

import numpy as np
import xarray as xr

from experiments import harness
from experiments.fedrep import fig1
from experiments.fedrep.methods import ALIE, Method
from experiments.fedrep.scales import CPU, FEW, PAPER, QUICK
from experiments.fedrep.training import Config

RULES = ("geoMed", "TMean")
SCALES = {
    "quick": Config(QUICK, {"geoMed": Method(aggregate="geoMed", num_byzantine=FEW)}, alphas=(0.0, 0.5, 1.0)),
    "cpu": Config(
        CPU._replace(rates=(0.1, 0.2, 0.5)),
        {rule: Method(aggregate=rule) for rule in RULES},
        alphas=(0.0, 0.5, 0.8, 0.95, 1.0),
    ),
    "paper": Config(PAPER, {rule: Method(aggregate=rule) for rule in RULES}, alphas=fig1.ALPHAS),
}


def run(config: Config) -> harness.Outcome:
    outcome = fig1.run(config)
    return outcome._replace(claims=[*outcome.claims, unsteady(outcome.data.accuracy)])


def unsteady(accuracy: xr.DataArray) -> harness.Claim:
    """Ups and downs between evaluations in the second half, at alpha = 0."""
    text, both = "TMean is unsteady under ALIE", set(RULES) <= {*accuracy.curve.values}
    if not both:
        return harness.Claim(text, "unsteady", "one rule is run", None)
    late = accuracy.sel(alpha=0.0).isel(epoch=slice(accuracy.sizes["epoch"] // 2, None))
    swing = 100 * abs(late.diff("epoch")).mean(("epoch", "seed"))
    of = lambda rule, attack: float(swing.sel(curve=rule, attack=attack))
    ours = "; ".join(f"{name}: TMean {of('TMean', name):.2f}, geoMed {of('geoMed', name):.2f}" for name in ALIE)
    holds = [of("TMean", name) > 2 * max(of("geoMed", name), of("TMean", "bit-flip")) for name in ALIE]
    hangs = "; it hangs on z, which the paper does not give" if len(set(holds)) == 2 else ""
    note = "mean change between evaluations, points; verdict: twice geoMed's, and TMean's own under bit-flip"
    return harness.Claim(text, "unsteady", ours, bool(np.all(holds)), note + hangs)
