"""How many users take part in a round: R, a sum of independent coins."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _binomial, _validate
from fedjax_priv.theory._validate import Numbers, Result


class Participation(NamedTuple):
    """Moments of R = |K_t|, the number of users that take part."""

    mean: Result  # m = sum_k p_k
    variance: Result  # v = sum_k p_k (1 - p_k)
    any: Result  # zeta = 1 - prod_k (1 - p_k)


class InverseMoments(NamedTuple):
    """E[1/R] and E[1/R^2] over R >= 1, without dividing by zeta."""

    first: Result
    second: Result


def participation_moments(num_users: Numbers, participation: Numbers) -> Participation:
    """m, v and zeta of R.

    Args:
      num_users: K.
      participation: p, or `[K]`, one p_k per user; in [0, 1].

    Examples:
      >>> moments = participation_moments(20, 0.1)
      >>> print(moments.mean.round(3), moments.variance.round(3), moments.any.round(3))
      2.0 1.8 0.878
    """
    p = users(num_users, participation)
    with np.errstate(divide="ignore"):
        return Participation(p.sum(), (p * (1 - p)).sum(), -np.expm1(np.log1p(-p).sum()))


def count_law(num_users: Numbers, participation: Numbers) -> np.ndarray:
    """`[K + 1]`, P[R = r]: binomial, or Poisson-binomial by adding one user after the other, in O(K^2).

    Arguments and errors are those of `participation_moments`.

    Examples:
      >>> print(count_law(2, np.array([0.5, 0.1])))  # of nobody, one user and both
      [0.45 0.5  0.05]
    """
    p = users(num_users, participation)
    if p.size and (p == p[0]).all():
        return np.asarray(_binomial.pmf(np.arange(p.size + 1.0), p.size, p[0]))
    law = np.ones(1)
    for chance in p:
        law = np.append(law, 0) * (1 - chance) + np.append(0, law) * chance
    return law


def inverse_moments(num_users: Numbers, participation: Numbers) -> InverseMoments:
    """sum_{r>=1} P[R=r]/r^j for j = 1, 2, exact.

    Arguments and errors are those of `participation_moments`.

    Examples:
      >>> print(inverse_moments(20, 0.1).first.round(3))  # the paper's approximation: 0.725
      0.507
    """
    law, r = count_law(num_users, participation)[1:], np.arange(1.0, int(num_users) + 1)
    return InverseMoments((law / r).sum(), (law / r**2).sum())


def inverse_moments_taylor(num_users: Numbers, participation: Numbers) -> InverseMoments:
    """The paper's approximations 1/m + v/m^3 and 1/m^2 + 3 v/m^4 (eqs. 24, 25).

    Their errors are 40% and 60% at K = 20, m = 2, and 1% and 3% at K = 200. Arguments and errors are those of
    `participation_moments`; in addition, some p must be positive.

    Examples:
      >>> print(inverse_moments_taylor(20, 0.1).first.round(3))  # exact: 0.507
      0.725
    """
    m, v, _ = positive_moments(num_users, participation)
    return InverseMoments(1 / m + v / m**3, 1 / m**2 + 3 * v / m**4)


def window(num_users: Numbers, participation: Numbers, delta_prime: Numbers) -> tuple[Result, Result]:
    """m and beta K; ValueError unless m > beta K, which the error states as a range of delta'."""
    k, m = _validate.integer(num_users=num_users), users(num_users, participation).sum()
    least = 2 * np.exp(-2 * m**2 / k)
    if least >= 1:
        allowed = f"above sqrt(K log(2)/2) = {np.sqrt(k * np.log(2) / 2)} in sum (no delta_prime will do)"
        _validate.fail("participation", participation, allowed)
    width = deviation(num_users, delta_prime)
    if (m <= width).any():
        _validate.fail("delta_prime", delta_prime, f"in (2 exp(-2 m^2/K), 1) = ({least}, 1), or m > beta K fails")
    return m, width


def deviation(num_users: Numbers, delta_prime: Numbers) -> Result:
    """beta K: |R - m| is at most beta K with probability at least 1 - delta' (Hoeffding)."""
    failure = _validate.real("(0, 1)", delta_prime=delta_prime)
    return np.sqrt(0.5 * _validate.integer(num_users=num_users) * np.log(2 / failure))


def positive_moments(num_users: Numbers, participation: Numbers) -> Participation:
    """m, v and zeta; ValueError if nobody ever takes part."""
    found = participation_moments(num_users, participation)
    if found.mean == 0:
        _validate.fail("participation", participation, "positive for some user")
    return found


def users(num_users: Numbers, participation: Numbers) -> np.ndarray:
    """`[K]`, p_k; ValueError unless it is one probability, or one per user."""
    size = _validate.length(num_users=num_users)
    p = _validate.real("[0, 1]", participation=participation)
    if p.shape not in ((), (size,)):
        _validate.fail("participation", participation, f"a number, or one per user: num_users = {size}")
    return np.broadcast_to(p, size)


def others(p: np.ndarray, user: int) -> np.ndarray:
    """`[K + 1]`, P[R_{-k} = r]: the law of the others' count, 0 at K."""
    if p.size == 1:
        return np.array([1.0, 0.0])
    return np.append(count_law(p.size - 1, np.delete(p, user)), 0)
