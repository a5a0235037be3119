"""Fig. 5: logistic regression against DP-SGD."""

from experiments import harness
from experiments.cdp_fl.against_dp_sgd import Config, outcome
from experiments.cdp_fl.scales import LOGISTIC, QUICK_LOGISTIC

PAPER = Config(LOGISTIC, rounds=20, local_steps=10)
SCALES = {
    "quick": Config(QUICK_LOGISTIC, rounds=8, local_steps=10),
    "cpu": PAPER._replace(setting=LOGISTIC._replace(repeats=2)),
    "paper": PAPER,
}


def run(config: Config) -> harness.Outcome:
    return outcome(config, "training_loss")
