"""Fig. 8: a network, accuracy by eps, with and without secure aggregation."""

from experiments import harness
from experiments.cdp_fl.by_epsilon import Config, outcome
from experiments.cdp_fl.scales import NETWORK, QUICK_NETWORK

PAPER = Config(NETWORK, rounds=50, local_steps=5)
SCALES = {
    "quick": Config(QUICK_NETWORK, rounds=8, local_steps=5, epsilons=(0.1, 1.0, 10.0)),
    "cpu": PAPER._replace(setting=NETWORK._replace(repeats=2)),
    "paper": PAPER,
}


def run(config: Config) -> harness.Outcome:
    return outcome(config)
