"""Votes on signs: how often the majority of one-bit uploads is wrong, over the air or not. Exact values and bounds.

Real baseband, as in `digital_links`: a channel use has noise N0, and r aligned voters are received as
`c (sum of signs) + N(0, N0)`. A complex use is two real uses, so its noise has variance 2 N0. Sources: one-bit
over-the-air aggregation by Zhu, Du, Gunduz and Huang 2021 (arXiv 2001.05713), majority vote by Bernstein et al. 2018
(arXiv 1802.04434), vote by two tones by Sahin, Everette and Hoque 2021.
"""

import numpy as np
from scipy import special

from fedjax_priv.theory import _binomial, _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless import truncated_inversion, truncation_level

_MOST, _MOST_APART = 1_000_000, 10_000
"""Voters who are alike, and users or voters who are computed one by one; laws of so many take seconds."""


def vote_error(voters: int, wrong: Numbers, level: float = np.inf, noise: float = 1.0, against: int = 0) -> Result:
    """How often is the majority of one coordinate wrong? `sum_j P[j are wrong] Q(c (r - 2 j - f) / sqrt(N0))`.

    j is the number of the r voters that are wrong. A tie is wrong half the time.

    Args:
      voters: r, from 0 to 1,000,000.
      wrong: q, probability in [0, 1] that a voter is wrong: one for all, or `[r]`, r <= 10,000. Voters are independent.
      level: c > 0, the amplitude at which each vote is received; infinite: no noise.
      noise: N0 > 0, variance of the receiver's noise.
      against: f >= 0, the number of further voters that are always wrong, such as Byzantine ones.

    Examples:
      >>> print(vote_error(10, 0.3, level=1.0).round(6), vote_error(16, 0.3, level=1.0, against=4).round(6))
      0.102533 0.260248
    """
    law = _number_wrong(voters, wrong)
    against = _validate.whole(0, against=against)
    margin = voters - 2 * np.arange(voters + 1) - against
    return (law * _lost(margin, level, noise)).sum()


def _number_wrong(voters: int, wrong: Numbers) -> np.ndarray:
    """`[r + 1]`, the law of the number of wrong voters."""
    voters = _validate.whole(0, _MOST, voters=voters)
    wrong = _validate.real("[0, 1]", wrong=wrong)
    if wrong.ndim and wrong.shape != (voters,):
        raise ValueError(f"wrong must be a number, or one per voter, [{voters}], got shape {wrong.shape}")
    if wrong.ndim and voters > _MOST_APART:
        _validate.fail("voters", voters, f"at most {_MOST_APART} with one wrong per voter")
    if not wrong.ndim:
        return np.asarray(_binomial.pmf(np.arange(voters + 1), voters, wrong))
    law = np.ones(1)
    for q in wrong:
        law = np.convolve(law, [1 - q, q])
    return law


def _lost(margin: np.ndarray, level: float, noise: float) -> np.ndarray:
    """How often a sum of signs with these margins, right votes minus wrong ones, is received as negative."""
    amplitude, variance = _validate.real("(0, inf]", level=level), _validate.real("(0, inf)", noise=noise)
    if np.isinf(amplitude):
        return (1 - np.sign(margin)) / 2
    return special.ndtr(-amplitude * margin / np.sqrt(variance))


def vote_error_bound(voters: Numbers, wrong: Numbers, level: Numbers, noise: Numbers = 1.0) -> Result:
    """How often is a majority wrong at most? `exp(-(c r (1 - 2 q))**2 / (2 (c**2 r + N0)))`, by sub-Gaussian tails.

    Args:
      voters: r >= 1.
      wrong: q in [0, 0.5].
      level: c > 0.
      noise: N0 > 0.

    Examples:
      >>> print(vote_error_bound(10, 0.3, 1.0).round(6), vote_error(10, 0.3, 1.0).round(6))
      0.483225 0.102533
    """
    voters, wrong = _validate.integer(voters=voters), _validate.real("[0, 0.5]", wrong=wrong)
    level, noise = _validate.real("(0, inf)", level=level), _validate.real("(0, inf)", noise=noise)
    with np.errstate(over="ignore"):
        over_signal = noise / level / level  # the square of a level may be beyond float64
    return np.exp(-((voters * (1 - 2 * wrong)) ** 2) / (2 * (voters + over_signal)))


def faded_vote_error(users: int, wrong: float, *, threshold: float, energy: float, noise: float = 1.0) -> Result:
    """How often is the majority wrong, if users invert Rayleigh gains and users with weak gains are silent?

    The mean of `vote_error` over the number of senders, Binomial(K, exp(-g)), at the level
    `wireless.truncation_level`.

    Args:
      users: K, from 1 to 10,000.
      wrong: q in [0, 1].
      threshold: g > 0.
      energy: P > 0, per channel use.
      noise: N0 > 0.

    Examples:
      >>> print(faded_vote_error(20, 0.3, threshold=0.2, energy=1.0).round(7))
      0.0517777
    """
    users, power = _validate.whole(1, _MOST_APART, users=users), _validate.number("(0, inf)", energy=energy)
    wrong, noise = _validate.number("[0, 1]", wrong=wrong), _validate.number("(0, inf)", noise=noise)
    threshold = _validate.number("(0, inf)", threshold=threshold)
    level = float(truncation_level(power, threshold, energy_received=1.0))
    senders = np.arange(users + 1)
    law = _binomial.pmf(senders, users, float(truncated_inversion(threshold).sends))
    return (law * np.array([vote_error(r, wrong, level, noise) for r in senders.tolist()])).sum()


def two_tone_error(right: Numbers, wrong: Numbers, energy: Numbers, noise: Numbers = 1.0) -> Result:
    """How often does the wrong tone have more energy than the right one? `(n_- E + N) / ((n_+ + n_-) E + 2 N)`.

    Each user sends its energy on the tone of its sign, with a Rayleigh gain and an unknown phase. So the energies of
    the two tones are exponential, and the error does not vanish for large E.

    Args:
      right: n_+ >= 0, users on the right tone.
      wrong: n_- >= 0.
      energy: E >= 0, of a user.
      noise: N0 > 0, of a real use; the complex noise of a tone has N = 2 N0.

    Examples:
      >>> print(two_tone_error(7, 3, energy=2.0, noise=0.5).round(6))  # 7 / 22
      0.318182
    """
    right, wrong = _validate.integer(0, right=right), _validate.integer(0, wrong=wrong)
    half, noise = _validate.real("[0, inf)", energy=energy) / 2, _validate.real("(0, inf)", noise=noise)
    largest = np.maximum(half, noise)
    half, noise = half / largest, noise / largest
    return (wrong * half + noise) / ((right + wrong) * half + 2 * noise)


def vote_sensitivity(num_params: Numbers, level: Numbers, noise: Numbers = 1.0) -> Result:
    """How far can a user move the received sum, relative to the noise? `s = 2 c sqrt(d / N0)`, if all its signs flip.

    Signs cannot be clipped, so s is large at useful levels. s is the `sensitivity` of `gaussian.epsilon` for one round.

    Args:
      num_params: d.
      level: c >= 0.
      noise: N0 > 0.

    Examples:
      >>> print(vote_sensitivity(7850, level=1.0).round(2))
      177.2
    """
    num_params, level = _validate.integer(num_params=num_params), _validate.real("[0, inf)", level=level)
    return 2 * level * np.sqrt(num_params / _validate.real("(0, inf)", noise=noise))
