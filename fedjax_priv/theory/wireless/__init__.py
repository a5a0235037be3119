"""Wireless FedSGD with user sampling (Seif, Chang, Tandon 2021): the bounds it claims, and what can be proved.

A `Round` holds the numbers of one round; most functions take one.

* `rounds`: `Round` and its checks.
* `participation`: the law of R, its moments (eqs. 24, 25), amplification by sampling.
* `claimed`: Theorem 1 (eqs. 13, 14), Lemma 1 (eqs. 15, 16), Lemma 2 (eq. 17); `composition`: eqs. 18-20.
* `other_schemes`: Table I's, as printed and exact.
* `proved`: the rigorous accountant over rounds, from the one-round `profiles`; `power_limited`: with eq. 26.
* `counterexample`: to Theorem 1 for removal.
* `gradient_estimate`: moments of eqs. 9 and 10; `convergence`: Theorems 2, 3 and Corollary 2 (eqs. 21-23).
* `noise`: eps of one user at the noise of several.
* `public_set`: where it is public who sends; `truncation`, `power_allocation`: levels at which users are received,
  by Zhu, Wang and Huang 2020 and by Liu and Simeone 2021; `energy_allocation`: with limits of energy of each user, and
  `online_allocation` where gains are not known in advance, and `orthogonal_allocation` of users that send one after
  another;
  `estimated_channel`: users that invert an estimate; `antennas`: users that know nothing, heard by several antennas;
  `complex_uses`: errors where a complex use of the channel carries one coordinate, or two.

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

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.theory.wireless.antennas import (
        CombinedCoefficients,
        antennas_epsilon,
        antennas_sensitivity,
        combined_coefficients,
        combined_error,
    )
    from fedjax_priv.theory.wireless.claimed import (
        central_delta,
        central_epsilon,
        central_epsilon_analytic,
        central_epsilon_printed,
        central_epsilon_sharp,
        local_delta,
        local_epsilon,
        local_epsilon_analytic,
        optimal_participation,
    )
    from fedjax_priv.theory.wireless.complex_uses import CombinedError, misaligned_error
    from fedjax_priv.theory.wireless.composition import (
        Composed,
        compose_heterogeneous,
        compose_heterogeneous_closed,
        compose_homogeneous,
    )
    from fedjax_priv.theory.wireless.convergence import (
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
    from fedjax_priv.theory.wireless.energy_allocation import allocate_energy, dual_value
    from fedjax_priv.theory.wireless.estimated_channel import (
        Coefficient,
        estimated_channel_delta,
        estimated_channel_epsilon,
        estimated_coefficient,
        estimated_mean,
        known_coefficients_sensitivity,
        turned_coefficient,
    )
    from fedjax_priv.theory.wireless.gradient_estimate import (
        EstimateMoments,
        estimate_moments_known,
        estimate_moments_unknown,
        estimate_weights_known,
        estimate_weights_unknown,
    )
    from fedjax_priv.theory.wireless.online_allocation import allocate_online
    from fedjax_priv.theory.wireless.orthogonal_allocation import OrthogonalAllocation, allocate_orthogonal
    from fedjax_priv.theory.wireless.other_schemes import (
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
    from fedjax_priv.theory.wireless.participation import (
        InverseMoments,
        Participation,
        count_law,
        inverse_moments,
        inverse_moments_taylor,
        participation_moments,
    )
    from fedjax_priv.theory.wireless.power_allocation import (
        Allocation,
        allocate,
        contraction_weights,
        level_budget,
        noise_cost,
        printed_sensitivity_budget,
        squared_sensitivity_budget,
    )
    from fedjax_priv.theory.wireless.power_limited import limited_amplitudes, limited_delta, limited_epsilon
    from fedjax_priv.theory.wireless.proved import (
        epsilon_by_round,
        known_set_delta,
        known_set_epsilon,
        rigorous_delta,
        rigorous_epsilon,
    )
    from fedjax_priv.theory.wireless.public_set import (
        public_set_epsilon,
        public_set_epsilon_by_round,
        public_set_sensitivity,
        received_at_most,
    )
    from fedjax_priv.theory.wireless.rounds import Round
    from fedjax_priv.theory.wireless.truncation import (
        Truncation,
        best_truncation,
        truncated_inversion,
        truncation_level,
        truncation_noise,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Allocation", "Coefficient", "CombinedCoefficients", "CombinedError", "Composed", "Counterexample",
    "EstimateMoments", "InverseMoments", "OrthogonalAllocation", "Participation", "Problem", "Round", "Truncation",
    "allocate", "allocate_energy", "allocate_online", "allocate_orthogonal", "antennas_epsilon", "antennas_sensitivity",
    "best_truncation", "central_delta", "central_epsilon", "central_epsilon_analytic", "central_epsilon_printed",
    "central_epsilon_sharp", "combined_coefficients", "combined_error", "compose_heterogeneous",
    "compose_heterogeneous_closed", "compose_homogeneous", "contraction_weights", "convergence_bound",
    "convergence_bound_known", "convergence_bound_optimal", "convergence_bound_unknown", "count_law", "dual_value",
    "epsilon_by_round", "estimate_moments_known", "estimate_moments_unknown", "estimate_weights_known",
    "estimate_weights_unknown", "estimated_channel_delta", "estimated_channel_epsilon", "estimated_coefficient",
    "estimated_mean", "inverse_moments", "inverse_moments_taylor", "known_coefficients_sensitivity", "known_set_delta",
    "known_set_epsilon", "level_budget", "limited_amplitudes", "limited_delta", "limited_epsilon", "local_delta",
    "local_epsilon", "local_epsilon_analytic", "misaligned_error", "moment_known", "moment_known_taylor",
    "moment_unknown", "noise_cost", "optimal_participation", "orthogonal_epsilon", "participation_moments",
    "printed_sensitivity_budget", "public_set_epsilon", "public_set_epsilon_by_round", "public_set_sensitivity",
    "received_at_most", "removal_counterexample", "rigorous_delta", "rigorous_epsilon", "rigorous_orthogonal_delta",
    "rigorous_orthogonal_epsilon", "rigorous_sampled_orthogonal_delta", "rigorous_sampled_orthogonal_epsilon",
    "rigorous_unsampled_delta", "rigorous_unsampled_epsilon", "sampled_orthogonal_epsilon",
    "squared_sensitivity_budget", "truncated_inversion", "truncation_level", "truncation_noise", "turned_coefficient",
    "unsampled_epsilon",
]  # fmt: skip
