"""Wireless FedSGD with user sampling (Seif, Chang, Tandon 2021): its bounds, and a rigorous accountant beside them.

What does not hold in the paper, and where the package shows it:

* Theorem 1 is false for removal, the paper's own relation (`removal_counterexample`). For replacement, one p and one
  sigma^2 it is true; `central_epsilon_sharp` is what remains, `rigorous_epsilon` what can be said.
* "Knowing K_t does not matter" is false: it ends the amplification of eps (`known_set_epsilon`).
* The 1.25 formula needs eps <= 1; the functions that end in `_analytic` do without it.
* Tables II(a) and III(a) are not of eq. 13 but of `central_epsilon_printed`, and eps_l counts the receiver's noise in
  all tables, which Lemma 2 does not (`receiver_noise` of `local_epsilon`).
* eps_l and eps_c are at different deltas (`local_delta`, `central_delta`). The latter is above delta' for every K, so
  eps_T -> 0 (Fig. 2b) is with a delta_T of T delta' and more.
* Lemma 1 minimises a linearised bound (`optimal_participation`); eqs. 13 and 14 are not convex in p.
* Wireless sampling beats wireless transmission of all users only from K = 156 at Fig. 2a's settings, at a larger delta.
* Fig. 6: at its K eps_c falls all the way to p = 1 for any usual delta'.
* "Unknown K_t always beats known" does not follow from the bounds (`moment_unknown`, `moment_known`).
* Both estimates are biased towards likely participants (`estimate_weights_unknown`, `estimate_weights_known`).
* Power-limited users are covered by no bound of the paper; by `limited_epsilon` if scaled by L.
"""

from fedjax_priv.theory.wireless.baselines import (
    orthogonal_epsilon,
    rigorous_orthogonal_delta,
    rigorous_orthogonal_epsilon,
    rigorous_sampled_orthogonal_delta,
    rigorous_sampled_orthogonal_epsilon,
    rigorous_unsampled_delta,
    rigorous_unsampled_epsilon,
    sampled_orthogonal_epsilon,
    unsampled_epsilon,
)
from fedjax_priv.theory.wireless.central import (
    central_delta,
    central_epsilon,
    central_epsilon_analytic,
    central_epsilon_printed,
    central_epsilon_sharp,
    optimal_participation,
)
from fedjax_priv.theory.wireless.composition import (
    Composed,
    compose_heterogeneous,
    compose_heterogeneous_closed,
    compose_homogeneous,
)
from fedjax_priv.theory.wireless.convergence import (
    Noise,
    Problem,
    convergence_bound,
    convergence_bound_known,
    convergence_bound_optimal,
    convergence_bound_unknown,
    moment_known,
    moment_known_taylor,
    moment_unknown,
)
from fedjax_priv.theory.wireless.counterexample import Counterexample, removal_counterexample
from fedjax_priv.theory.wireless.estimate import (
    EstimateMoments,
    estimate_moments_known,
    estimate_moments_unknown,
    estimate_weights_known,
    estimate_weights_unknown,
)
from fedjax_priv.theory.wireless.limited import limited_amplitudes, limited_delta, limited_epsilon
from fedjax_priv.theory.wireless.local import local_delta, local_epsilon, local_epsilon_analytic
from fedjax_priv.theory.wireless.participation import (
    InverseMoments,
    Participation,
    count_law,
    inverse_moments,
    inverse_moments_taylor,
    participation_moments,
)
from fedjax_priv.theory.wireless.rigorous import known_set_delta, known_set_epsilon, rigorous_delta, rigorous_epsilon

__all__ = [
    "Composed", "Counterexample", "EstimateMoments", "InverseMoments", "Noise", "Participation", "Problem",
    "central_delta", "central_epsilon", "central_epsilon_analytic", "central_epsilon_printed",
    "central_epsilon_sharp", "compose_heterogeneous", "compose_heterogeneous_closed", "compose_homogeneous",
    "convergence_bound", "convergence_bound_known", "convergence_bound_optimal", "convergence_bound_unknown",
    "count_law", "estimate_moments_known", "estimate_moments_unknown", "estimate_weights_known",
    "estimate_weights_unknown", "inverse_moments", "inverse_moments_taylor", "known_set_delta", "known_set_epsilon",
    "limited_amplitudes", "limited_delta", "limited_epsilon", "local_delta", "local_epsilon",
    "local_epsilon_analytic", "moment_known", "moment_known_taylor", "moment_unknown", "optimal_participation",
    "orthogonal_epsilon", "participation_moments", "removal_counterexample", "rigorous_delta", "rigorous_epsilon",
    "rigorous_orthogonal_delta", "rigorous_orthogonal_epsilon", "rigorous_sampled_orthogonal_delta",
    "rigorous_sampled_orthogonal_epsilon", "rigorous_unsampled_delta", "rigorous_unsampled_epsilon",
    "sampled_orthogonal_epsilon", "unsampled_epsilon",
]  # fmt: skip
