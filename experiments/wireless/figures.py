"""The wireless paper's figures and tables, and results of ours."""

from experiments.harness import Experiment
from experiments.wireless import accountants, errata, fig2, fig3, fig4, fig5, fig6, fig7, tables

FIGURES = {
    "fig2": Experiment(
        "Fig. 2 and Table I", "leakage against the number of users, of one round and of many, and its order in K",
        fig2.SCALES, fig2.run,
    ),
    "fig3": Experiment(
        "Fig. 3", "convergence with a known and an unknown number of participants, bounds and accuracy",
        fig3.SCALES, fig3.run,
    ),
    "fig4": Experiment(
        "Fig. 4 and Table II", "channel-aware and uniform sampling, softmax regression, sigma^2 = 0.1",
        fig4.SCALES, fig4.run,
    ),
    "fig5": Experiment(
        "Fig. 5 and Table III", "channel-aware and uniform sampling, a network with a hidden layer, sigma^2 = 0.8",
        fig5.SCALES, tables.run,
    ),
    "fig6": Experiment(
        "Fig. 6", "leakage against the participation probability, for several c", fig6.SCALES, fig6.run
    ),
    "fig7": Experiment(
        "Fig. 7", "accuracy by iteration for several privacy noises, a network with a hidden layer",
        fig7.SCALES, fig7.run,
    ),
    "accountants": Experiment(
        "", "The paper's bounds next to exact accounting, and an audit of both by simulation",
        accountants.SCALES, accountants.run,
    ),
    "errata": Experiment(
        "", "What the paper prints next to what its own formulas, or exact ones, give", errata.SCALES, errata.run
    ),
}  # fmt: skip
