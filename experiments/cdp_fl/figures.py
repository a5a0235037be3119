"""The CDP-FL paper's figures, and the counterexamples to its Theorem 1."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from experiments.cdp_fl import against_dp_sgd, by_epsilon, counterexamples, noise_and_steps
from experiments.cdp_fl.problem import Setting
from experiments.harness import Experiment

LOGISTIC, NETWORK = Setting("logistic"), Setting("network")
SMALL: dict[str, Any] = dict(dataset="digits", num_devices=8, num_selected=5, num_train=160, num_test=40, repeats=3)


def scales(paper: Any, **quick: Any) -> Mapping[str, Any]:
    """The paper's configuration; with two repeats at `cpu`, and with small data and what is given at `quick`."""
    return {
        "quick": paper._replace(setting=paper.setting._replace(**SMALL), **quick),
        "cpu": paper._replace(setting=paper.setting._replace(repeats=2)),
        "paper": paper,
    }


FIGURES = {
    "fig3": Experiment(
        "Fig. 3", "logistic regression by noise and by local steps",
        scales(
            noise_and_steps.Config(
                LOGISTIC, "training_loss", batch_size=61, local_steps=(1, 5, 10, 40), sigmas=(1e-5, 1e-4, 5e-4, 1e-3),
                added=(1e-2, 1e-1, 0.5, 1.0), every=4,
            ),
            batch_size=16, local_steps=(1, 10), sigmas=(1e-5, 1e-3), added=(1e-1, 1.0), rounds=20, every=2,
        ),
        partial(noise_and_steps.run, turns=noise_and_steps.falls_then_rises),
        partial(noise_and_steps.judge, turns=noise_and_steps.falls_then_rises), noise_and_steps.differs,
    ),
    "fig4": Experiment(
        "Fig. 4", "a network by noise and by local steps",
        scales(
            noise_and_steps.Config(
                NETWORK, "gradient_norm", batch_size=122, local_steps=(1, 5, 10, 20), sigmas=(1e-4, 1e-3, 5e-3, 1e-2),
                added=(1e-1, 0.5, 1.0),
            ),
            batch_size=16, local_steps=(1, 10), sigmas=(1e-4, 1e-2), added=(1.0,), rounds=20, every=2,
        ),
        partial(noise_and_steps.run, turns=noise_and_steps.drops_then_rises),
        partial(noise_and_steps.judge, turns=noise_and_steps.drops_then_rises), noise_and_steps.differs,
    ),
    "fig5": Experiment(
        "Fig. 5", "logistic regression against DP-SGD",
        scales(against_dp_sgd.Config(LOGISTIC, "training_loss", rounds=20, local_steps=10), rounds=8),
        against_dp_sgd.run, against_dp_sgd.judge,
    ),
    "fig6": Experiment(
        "Fig. 6", "a network against DP-SGD",
        scales(against_dp_sgd.Config(NETWORK, "gradient_norm", rounds=50, local_steps=5, every=2), rounds=8, every=1),
        against_dp_sgd.run, against_dp_sgd.judge,
    ),
    "fig7": Experiment(
        "Fig. 7", "logistic regression, accuracy by eps, with and without secure aggregation",
        scales(by_epsilon.Config(LOGISTIC, rounds=20, local_steps=2), rounds=8, epsilons=(0.1, 1.0, 10.0)),
        by_epsilon.run, by_epsilon.judge,
    ),
    "fig8": Experiment(
        "Fig. 8", "a network, accuracy by eps, with and without secure aggregation",
        scales(by_epsilon.Config(NETWORK, rounds=50, local_steps=5), rounds=8, epsilons=(0.1, 1.0, 10.0)),
        by_epsilon.run, by_epsilon.judge,
    ),
    "counterexamples": Experiment(
        "", "Theorem 1's counterexamples: claimed against true delta and eps, and an audit of the first by simulation",
        {
            "quick": counterexamples.Config(audits=((3.0, 40_000),), num_samples=20),
            "cpu": counterexamples.Config(),
            "paper": counterexamples.Config(),
        },
        counterexamples.run, counterexamples.judge,
    ),
}  # fmt: skip
