"""Fig. 4: a network by noise and by local steps."""

import xarray as xr

from experiments import harness
from experiments.cdp_fl.curves import CLEAR
from experiments.cdp_fl.noise_and_steps import Config, outcome, runs, turns
from experiments.cdp_fl.scales import NETWORK, QUICK_NETWORK
from experiments.harness import Claim

PAPER = Config(
    NETWORK, batch_size=122, local_steps=(1, 5, 10, 20), sigmas=(1e-4, 1e-3, 5e-3, 1e-2), added=(1e-1, 0.5, 1.0)
)
QUICK = Config(QUICK_NETWORK, batch_size=16, local_steps=(1, 10), sigmas=(1e-4, 1e-2), added=(1.0,), rounds=20, every=2)
SCALES = {"quick": QUICK, "cpu": PAPER._replace(setting=NETWORK._replace(repeats=2)), "paper": PAPER}


def run(config: Config) -> harness.Outcome:
    result = runs(config)
    return outcome(config, "gradient_norm", [drops_then_rises(config, result)], result)


def drops_then_rises(config: Config, result: xr.Dataset) -> Claim:
    """At the paper's largest noise, for each tau."""
    sigma = config.sigmas[-1]
    found = {tau: turns(result, "accuracy", int(tau), sigma, 1) for tau in result.tau.values}
    return Claim(
        f"sigma = {sigma:g}: accuracy drops at first, then rises", "drops, then rises",
        "; ".join(f"tau {tau}: -{100 * down:.1f}, then {100 * up:+.1f} points" for tau, (down, up, _) in found.items()),
        all(down > CLEAR and up > CLEAR for down, up, _ in found.values()),
        f"mean curve, evaluated every {config.every} rounds; verdict: both by more than a point, at every tau",
    )  # fmt: skip
