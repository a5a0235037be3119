"""Eps of a whole run with correlated noise: one Gaussian mechanism, even if updates depend on earlier releases.

A run releases x_t + s (C^-1 z)_t with s = sigma C_clip, which is C^-1 (C x + s z). A client moves C x by at most the
sensitivity times C_clip, so mu = sensitivity / sigma, and twice as much for replacement (Denisov, McMahan, Rush, Smith
and Thakurta 2022, arXiv 2202.08312). Only `by_coins` uses sampling. The clip norm must not change during the run.
"""

import numpy as np

from fedjax_priv.theory import _roots, _validate, gaussian
from fedjax_priv.theory._validate import Change, Numbers, Result
from fedjax_priv.theory.correlated_noise.sensitivity import Schedule, checked, padded
from fedjax_priv.theory.correlated_noise.workload import Column
from fedjax_priv.theory.neighbours import DISTANCE
from fedjax_priv.theory.sampled_gaussian import Round, Rounds


def mu(noise_multiplier: Numbers, sensitivity: Numbers, neighbours: Change = "zero-out") -> Result:
    """Which mu has the run's Gaussian mechanism? The distance of two means divided by the noise's deviation.

    Args:
      noise_multiplier: sigma > 0, standard deviation of the seeds divided by the clip norm.
      sensitivity: of C, by `toeplitz_sensitivity` or `tree_sensitivity`.
      neighbours: "zero-out", which equals add/remove if the other clients take part as before; or "replacement".

    Examples:
      >>> print(mu(noise_multiplier=4.0, sensitivity=2.0), mu(4.0, 2.0, "replacement"))
      0.5 1.0
    """
    sigma = _validate.real("(0, inf)", noise_multiplier=noise_multiplier)
    return (
        _validate.choice(DISTANCE, neighbours=neighbours) * _validate.real("(0, inf)", sensitivity=sensitivity) / sigma
    )


def epsilon(delta: Numbers, noise_multiplier: Numbers, sensitivity: Numbers, neighbours: Change = "zero-out") -> Result:
    """For which eps are all rounds together (eps, delta)-private? Exact.

    Args:
      delta: in (0, 1).
      noise_multiplier: as in `mu`.
      sensitivity: as in `mu`.
      neighbours: as in `mu`.

    Examples:
      >>> print(epsilon(1e-5, noise_multiplier=4.0, sensitivity=2.0).round(2))
      1.99
    """
    return gaussian.epsilon(_validate.real("(0, 1)", delta=delta), mu(noise_multiplier, sensitivity, neighbours))


def noise_multiplier_for(epsilon: float, delta: float, sensitivity: float, neighbours: Change = "zero-out") -> float:
    """How much noise is enough? The smallest sigma that makes all rounds together (eps, delta)-private.

    Args:
      epsilon: to be reached, > 0.
      delta: in (0, 1).
      sensitivity: as in `mu`.
      neighbours: as in `mu`.

    Examples:
      >>> print(round(noise_multiplier_for(1.0, 1e-5, sensitivity=2.0), 2))
      7.46
    """
    budget, target = _validate.number("(0, inf)", epsilon=epsilon), _validate.number("(0, 1)", delta=delta)
    distance = mu(1.0, _validate.number("(0, inf)", sensitivity=sensitivity), neighbours)
    inverse_mu = _roots.unbounded_least(lambda x: gaussian.epsilon(target, 1 / np.maximum(x, 1e-9)), budget)
    return float(distance * inverse_mu)


def by_coins(one: Round, column: Column, schedule: Schedule) -> Rounds:
    """The rounds of `sampled_gaussian` that a run with banded C costs, if groups of clients take turns to toss coins.

    Clients form b fixed, public groups; in round t the clients of group t mod b toss a coin. So a client has
    ceil(n / b) chances. If C has at most b bands, no two of their columns are in the same rounds, and each chance is a
    Poisson-sampled Gaussian whose multiplier is sigma divided by the norm of a column (Choquette-Choo et al. 2023,
    arXiv 2306.08153, cyclic Poisson sampling, for add/remove). Replacement has the profile of `sampled_gaussian`, since
    a chance moves the seeds by the column times the update. For an adversary that sees who takes part, use `epsilon`.

    Args:
      one: sigma of the seeds, rate q of a coin, and capacity; its population is the number of clients of a group.
      column: the first of C, with at most b bands.
      schedule: of a client; b is the number of groups. `participations` must be None: coins decide.

    Raises:
      ValueError: C has more than b bands, sampling is not "poisson", or `schedule` limits participations.

    Examples:
      >>> from fedjax_priv.theory import sampled_gaussian
      >>> one = sampled_gaussian.Round(noise_multiplier=2.0, rate=0.1)
      >>> rounds = by_coins(one, optimal_banded(100, 10), Schedule(100, 10))
      >>> print(sampled_gaussian.epsilon(1e-5, rounds).round(2))
      0.8
    """
    n, b, k = checked(schedule)
    if schedule.participations is not None:
        _validate.fail("participations", schedule.participations, "None: coins decide how often a client takes part")
    c = padded(column, n)
    if (bands := int(np.flatnonzero(c)[-1]) + 1) > b:
        _validate.fail("column", f"{bands} bands", f"at most separation = {b} numbers")
    if _validate.setting(Round, one=one).sampling != "poisson":
        _validate.fail("sampling", one.sampling, '"poisson"')
    sigma = _validate.number("(0, inf)", noise_multiplier=one.noise_multiplier)
    return [(one._replace(noise_multiplier=float(sigma / np.linalg.norm(c))), k)]
