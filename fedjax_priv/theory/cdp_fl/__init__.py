"""Concentrated-DP federated learning: the privacy it claims, what can be proved of it, and how it converges."""

from fedjax_priv.theory.cdp_fl.claimed import (
    DpSgdEpsilon,
    dp_sgd_epsilon,
    epsilon,
    sigma_for_epsilon,
    step_rho,
    upload_epsilon,
)
from fedjax_priv.theory.cdp_fl.convergence import (
    Bound,
    ConvergenceBound,
    Problem,
    Training,
    convergence_bound,
    strongly_convex_bound,
)
from fedjax_priv.theory.cdp_fl.counterexamples import (
    Counterexample,
    Law,
    one_pass,
    part_of_a_pass,
    smooth_convex,
    true_epsilon,
)
from fedjax_priv.theory.cdp_fl.proved import Proved, ProvedEpsilon, proved_epsilon, proved_rho
from fedjax_priv.theory.cdp_fl.rows import ASSUMPTIONS, lipschitz_constant
from fedjax_priv.theory.cdp_fl.sampling import amplified_epsilon, delta_before_draw

__all__ = [
    "ASSUMPTIONS", "Bound", "ConvergenceBound", "Counterexample", "DpSgdEpsilon", "Law", "Problem", "Proved",
    "ProvedEpsilon", "Training",
    "amplified_epsilon", "convergence_bound", "delta_before_draw", "dp_sgd_epsilon", "epsilon", "lipschitz_constant",
    "one_pass", "part_of_a_pass", "proved_epsilon", "proved_rho", "sigma_for_epsilon", "smooth_convex", "step_rho",
    "strongly_convex_bound", "true_epsilon", "upload_epsilon",
]  # fmt: skip
