"""Fig. 6: a network against DP-SGD."""

from experiments import harness
from experiments.cdp_fl.against_dp_sgd import Config, outcome
from experiments.cdp_fl.scales import NETWORK, QUICK_NETWORK

PAPER = Config(NETWORK, rounds=50, local_steps=5, every=2)
SCALES = {
    "quick": Config(QUICK_NETWORK, rounds=8, local_steps=5),
    "cpu": PAPER._replace(setting=NETWORK._replace(repeats=2)),
    "paper": PAPER,
}


def run(config: Config) -> harness.Outcome:
    return outcome(config, "gradient_norm")
