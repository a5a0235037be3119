"""Privacy of Gaussian noise on the sum of a sampled cohort (DP-FedAvg, McMahan, Ramage, Talwar and Zhang 2018).

- `rounds`: a `Round`, its profiles for each sampling and each kind of adjacent inputs, and why they hold.
- `accounting`: eps of many rounds, of one or several kinds; noise and rounds for an eps.
- `central_limit`: an approximation that is no bound, for comparison with figures that were computed with it.

All figures are for an adversary that sees the noisy sums of all rounds, but not who takes part. For an adversary that
sees who takes part, eps is `gaussian.epsilon` at sqrt(number of the client's rounds) / z, or twice that for
replacement.
"""

from fedjax_priv.theory.sampled_gaussian.accounting import (
    Rounds,
    delta,
    epsilon,
    epsilon_by_round,
    noise_multiplier_for,
    replacement_epsilon,
    rounds_within,
    trade_off,
)
from fedjax_priv.theory.sampled_gaussian.central_limit import central_limit_sensitivity
from fedjax_priv.theory.sampled_gaussian.rounds import Neighbours, Round, Sampling

__all__ = [
    "Neighbours", "Round", "Rounds", "Sampling", "central_limit_sensitivity", "delta", "epsilon", "epsilon_by_round",
    "noise_multiplier_for", "replacement_epsilon", "rounds_within", "trade_off",
]  # fmt: skip
