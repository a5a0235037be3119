"""Wireless FedSGD with user sampling (Seif, Chang, Tandon 2021): the bounds it claims, and what can be proved.

A `Round` holds the numbers of one round; most functions take one.

* `rounds`: `Round` and its checks.
* `participation`: the law of R and its moments (eqs. 24, 25).
* `claimed`: Theorem 1 (eqs. 13, 14), Lemma 1 (eqs. 15, 16), Lemma 2 (eq. 17); `composition`: eqs. 18-20.
* `other_schemes`: the other schemes of Table I, as printed and exact.
* `proved`: the rigorous accountant over rounds, from the one-round `profiles`; `power_limited`: the same with eq. 26.
* `counterexample`: to Theorem 1 for removal.
* `gradient_estimate`: moments of eqs. 9 and 10; `convergence`: Theorems 2, 3 and Corollary 2 (eqs. 21-23).
* `noise`: eps of one user, hidden by the noise of several users.
* `public_set`: eps if everybody knows who sends.
* `truncation` (Zhu, Wang and Huang 2020), `power_allocation` (Liu and Simeone 2021): levels at which users are
  received. `energy_allocation`: levels if each user's energy is limited. `online_allocation`: if gains are not known in
  advance. `orthogonal_allocation`: if users send one after another.
* `estimated_channel`: users that invert an estimate. `antennas`: users that know nothing, and a server with several
  antennas. `complex_uses`: errors if a complex channel use carries one coordinate, or two.

Statements of the paper that do not hold, and where the package shows it:

* Theorem 1 is false for removal, the paper's own relation (`removal_counterexample`). It is true for replacement with
  one p and one sigma^2; `central_epsilon_sharp` is its sharpest form, `rigorous_epsilon` the best proved figure.
* "Knowing K_t does not matter" is false: without secrecy of K_t, eps is not amplified (`known_set_epsilon`).
* The 1.25 formula needs eps <= 1; the functions that end in `_analytic` do not use it.
* Tables II(a) and III(a) show `central_epsilon_printed` and not eq. 13. In all tables, eps_l counts the receiver's
  noise, which Lemma 2 does not (`receiver_noise` of `local_epsilon`).
* eps_l and eps_c hold at different deltas (`local_delta`, `central_delta`). The latter is above delta' for every K, so
  in Fig. 2b eps_T -> 0 holds at a delta_T of at least T delta'.
* Lemma 1 minimises a linearised bound (`optimal_participation`); eqs. 13 and 14 are not convex in p.
* At Fig. 2a's settings, wireless sampling beats wireless transmission of all users only from K = 156 on, at a larger
  delta.
* Fig. 6: at its K, eps_c falls up to p = 1 for any usual delta'.
* "Unknown K_t always beats known" does not follow from the bounds (`moment_unknown`, `moment_known`).
* Both estimates are biased towards likely participants (`estimate_weights_unknown`, `estimate_weights_known`).
* No bound of the paper covers power-limited users; `limited_epsilon` does if they scale by L.
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
