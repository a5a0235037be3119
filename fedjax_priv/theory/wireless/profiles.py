"""Privacy profiles (delta as a function of eps) of one round: users are aligned, the server learns R but not K_t.

Given R = r, the noise has variance s_r^2 = r sigma^2 + N0, no matter who takes part; t_r = 2L/s_r.
"""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _accountant, gaussian
from fedjax_priv.theory._accountant import Mechanism
from fedjax_priv.theory._mixtures import amplified, mixed_first, mixed_second
from fedjax_priv.theory.wireless.participation import count_law, others
from fedjax_priv.theory.wireless.rounds import Checked

_NEVER = 1e-22  # less likely counts are treated as infinite loss


class Counts(NamedTuple):
    """Counts r that are not negligible, with and without user k, `[n]`, and the probability of the rest."""

    count: np.ndarray  # r
    chance: np.ndarray  # P_r = P[R = r]
    without: np.ndarray  # P'_r = P[R_{-k} = r]
    fraction: np.ndarray  # q_r = P[k in K_t | R = r]
    sensitivity: np.ndarray  # t_r
    lost: float


def replacement(one: Checked, user: int) -> Mechanism:
    """delta(eps) = sum_{r>=1} P_r q_r delta_G(log(1 + (e^eps - 1)/q_r); t_r).

    Of the users of a round, it is largest for the one with the largest p: q_r grows with p_k, and the sum with q_r.
    """
    return replacement_at(counts(one, user))


def replacement_at(law: Counts) -> Mechanism:
    """`replacement` for the user of `law`."""
    chance, fraction, shift = (x[law.fraction > 0] for x in (law.chance, law.fraction, law.sensitivity))
    term = lambda eps: chance * fraction * gaussian.delta(amplified(eps, 1 / fraction), shift)
    return _accountant.symmetric(_accountant.averaged(term, chance.size, law.lost))


def removal(one: Checked) -> Mechanism:
    """Both orders, user k in the first or in the second input; at each eps for the user for whom delta is largest."""
    distinct = np.unique(one.participation, return_index=True)[1]
    return _accountant.worst([_removal(counts(one, int(user))) for user in distinct])


def known_set(one: Checked, user: int) -> Mechanism:
    """delta(eps) = sum_r P_r q_r delta_G(eps; t_r): replacement if the server knows K_t."""
    return known_set_at(counts(one, user))


def known_set_at(law: Counts) -> Mechanism:
    """`known_set` for the user of `law`."""
    term = lambda eps: law.chance * law.fraction * gaussian.delta(eps, law.sensitivity)
    return _accountant.symmetric(_accountant.averaged(term, law.chance.size, law.lost))


def counts(one: Checked, user: int) -> Counts:
    """The law of R with and without a user."""
    p, r = one.participation, np.arange(one.num_users + 1)
    chance, without = count_law(p.size, p), others(p, user)
    happens = np.maximum(chance, without) > _NEVER
    joint = p[user] * np.append(0, without[:-1])  # P[k in K_t, R = r]
    fraction = np.minimum(np.divide(joint, chance, out=np.zeros(r.size), where=chance > 0), 1)
    lost = max(chance[~happens].sum(), without[~happens].sum())
    with np.errstate(divide="ignore"):
        sensitivity = 2 * one.clip / np.sqrt(r * one.noise_variance + one.receiver_noise)
    return Counts(r[happens], chance[happens], without[happens], fraction[happens], sensitivity[happens], lost)


def _removal(law: Counts) -> Mechanism:
    """Both orders of y | r ~ (1-q_r) N(0, s_r^2) + q_r N(2L, s_r^2), r ~ P, and y | r ~ N(0, s_r^2), r ~ P'."""
    _, chance, without, fraction, shift, lost = law
    with np.errstate(divide="ignore"):
        log_ratio = np.log(without) - np.log(chance)
    remove = lambda eps: chance * mixed_first(eps + log_ratio, fraction, shift)
    add = lambda eps: without * mixed_second(eps - log_ratio, fraction, shift)
    return tuple(_accountant.averaged(order, chance.size, lost) for order in (remove, add))
