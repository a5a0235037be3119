"""Fig. 7: logistic regression, accuracy by eps, with and without secure aggregation."""

from experiments import harness
from experiments.cdp_fl.by_epsilon import Config, outcome
from experiments.cdp_fl.scales import LOGISTIC, QUICK_LOGISTIC

PAPER = Config(LOGISTIC, rounds=20, local_steps=2)
SCALES = {
    "quick": Config(QUICK_LOGISTIC, rounds=8, local_steps=2, epsilons=(0.1, 1.0, 10.0)),
    "cpu": PAPER._replace(setting=LOGISTIC._replace(repeats=2)),
    "paper": PAPER,
}


def run(config: Config) -> harness.Outcome:
    return outcome(config)
