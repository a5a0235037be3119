"""Gaussian noise on the sum of a sampled cohort (DP-FedAvg, McMahan, Ramage, Talwar and Zhang 2018): what is proved.

- `rounds`: a `Round`, its profiles for each sampling and each kind of neighbours, and why they hold.
- `accounting`: eps of many rounds, of one kind or of several; noise and rounds for an eps.

All figures are for an adversary that sees the noisy sums of all rounds and not who takes part in them. One that sees
who takes part has `gaussian.epsilon` at 1/z times the root of the number of rounds of the client (twice that where its
update is replaced).
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
from fedjax_priv.theory.sampled_gaussian.rounds import Neighbours, Round, Sampling

__all__ = [
    "Neighbours", "Round", "Rounds", "Sampling", "delta", "epsilon", "epsilon_by_round", "noise_multiplier_for",
    "replacement_epsilon", "rounds_within", "trade_off",
]  # fmt: skip
