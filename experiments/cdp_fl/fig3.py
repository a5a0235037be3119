"""Fig. 3: logistic regression by noise and by local steps."""

import xarray as xr

from experiments import harness
from experiments.cdp_fl.noise_and_steps import Config, outcome, runs, turns
from experiments.cdp_fl.scales import LOGISTIC, QUICK_LOGISTIC
from experiments.harness import Claim

PAPER = Config(
    LOGISTIC, batch_size=61, local_steps=(1, 5, 10, 40), sigmas=(1e-5, 1e-4, 5e-4, 1e-3), added=(1e-2, 1e-1, 0.5, 1.0),
    every=4,
)  # fmt: skip
QUICK = Config(
    QUICK_LOGISTIC, batch_size=16, local_steps=(1, 10), sigmas=(1e-5, 1e-3), added=(1e-1, 1.0), rounds=20, every=2
)
SCALES = {"quick": QUICK, "cpu": PAPER._replace(setting=LOGISTIC._replace(repeats=2)), "paper": PAPER}
RISE = 0.01


def run(config: Config) -> harness.Outcome:
    result = runs(config)
    return outcome(config, "training_loss", [falls_then_rises(config, result)], result)


def falls_then_rises(config: Config, result: xr.Dataset) -> Claim:
    """At the paper's largest noise and tau, and where it comes to that."""
    tau = config.local_steps[-1]
    found = {sigma: turns(result, "training_loss", tau, float(sigma), 1) for sigma in result.sigma.values}
    down, up, at = found[config.sigmas[-1]]
    first = [sigma for sigma, (_, back, _) in found.items() if back > RISE]
    least = float(result.training_loss.sel(tau=tau, sigma=config.sigmas[-1]).mean("seed").min())
    return Claim(
        f"sigma = {config.sigmas[-1]:g}, tau = {tau}: the loss falls, then rises", "to 7 by round 40, then rises",
        f"falls by {down:.3g} to {least:.3g} at round {at}, then rises by {up:.2g}", bool(down > RISE and up > RISE),
        f"verdict: both by more than {RISE}; rises from sigma = {min(first, default=float('nan')):g} on",
    )  # fmt: skip
