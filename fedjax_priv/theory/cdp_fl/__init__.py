"""Concentrated-DP federated learning (CDP-FL): the privacy that it claims, what can be proved, and how it converges.

A `Training` holds one device's numbers; the functions about privacy take one.

* `training`: `Training` and its checks.
* `claimed`: Theorem 1 (eq. 10), its inverse, and the paper's baselines.
* `counterexamples`: three cases in which Theorem 1 is false.
* `proved`: rho and eps that can be proved, from the four rows of `round_costs`; `sampling`: what random batches and a
  random choice of devices add.
* `convergence`: Theorem 2 (eq. 14) and Lemma 6 (eq. 15), printed and corrected.
"""

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
    Schedule,
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
from fedjax_priv.theory.cdp_fl.round_costs import ASSUMPTIONS, lipschitz_constant
from fedjax_priv.theory.cdp_fl.sampling import amplified_epsilon, delta_before_draw
from fedjax_priv.theory.cdp_fl.training import Training

__all__ = [
    "ASSUMPTIONS", "Bound", "ConvergenceBound", "Counterexample", "DpSgdEpsilon", "Law", "Problem", "Proved",
    "ProvedEpsilon", "Schedule", "Training",
    "amplified_epsilon", "convergence_bound", "delta_before_draw", "dp_sgd_epsilon", "epsilon", "lipschitz_constant",
    "one_pass", "part_of_a_pass", "proved_epsilon", "proved_rho", "sigma_for_epsilon", "smooth_convex", "step_rho",
    "strongly_convex_bound", "true_epsilon", "upload_epsilon",
]  # fmt: skip
