"""The paper's composition over rounds (eqs. 18-20): of any guarantees, and in closed form of Theorem 1's."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless import noise
from fedjax_priv.theory.wireless.participation import window
from fedjax_priv.theory.wireless.rounds import Round, checked


class Composed(NamedTuple):
    """A guarantee for all rounds together; it says nothing if delta is 1 or more."""

    epsilon: Result
    delta: Result


def compose_heterogeneous(epsilon: np.ndarray, delta: Numbers, slack: Numbers) -> Composed:
    """eps_T = sum e_t (exp(e_t)-1)/(exp(e_t)+1) + sqrt(2 log(1/dt) sum e_t^2), delta_T = 1 - (1-dt) prod (1-delta_t).

    Args:
      epsilon: `[T]`, e_t of each round.
      delta: `[T]`, or a number for all rounds.
      slack: dt, in (0, 1].

    Examples:
      >>> both = compose_heterogeneous(np.full(100, 0.01), 1e-8, 1e-6)  # 100 rounds of eps = 0.01
      >>> print(both.epsilon.round(3), f"{both.delta:.1e}")
      0.531 2.0e-06
    """
    e, dt = _validate.real("[0, inf)", epsilon=epsilon), _validate.real("(0, 1]", slack=slack)
    failures = np.broadcast_to(np.minimum(_validate.real("[0, inf)", delta=delta), 1), e.shape)
    total = (e * np.tanh(e / 2)).sum() + np.sqrt(2 * np.log(1 / dt) * (e**2).sum())
    with np.errstate(divide="ignore"):
        return Composed(total, -np.expm1(np.log1p(-dt) + np.log1p(-failures).sum()))


def compose_heterogeneous_closed(setting: Round, delta_local: Numbers, delta_prime: Numbers, slack: Numbers) -> Result:
    """The looser eps_T = B^2 S/(2(1-delta')^2) + sqrt(2 log(1/dt)) B sqrt(S)/(1-delta') of Theorem 1's eps_c.

    B = exp(c/sqrt(min_t m_t - beta K)) - 1 and S = sum_t (max_k p_{k,t})^2.

    Args:
      setting: `participation` is `[T]`, p_t, or `[T, K]`, p_{k,t}; the smallest noise variance is used.
      delta_local: delta_l, in (0, 1].
      delta_prime: delta', such that m_t > beta K in every round.
      slack: dt, in (0, 1].

    Raises:
      ValueError: `participation` is a number, or another argument is outside its range.

    Examples:
      >>> rounds = Round(num_users=1000, participation=np.full(100, 0.1), clip=1.0, noise_variance=10.0)
      >>> print(compose_heterogeneous_closed(rounds, delta_local=1e-5, delta_prime=1e-4, slack=1e-5).round(3))
      3.913
    """
    p = _validate.real("[0, 1]", participation=_validate.setting(Round, setting=setting).participation)
    if p.ndim == 0 or len(p) == 0:
        _validate.fail("participation", setting.participation, "`[T]` or `[T, K]`: of each round")
    of_rounds = [checked(setting._replace(participation=of, receiver_noise=0.0)) for of in p]
    windows = [window(one.num_users, one.participation, delta_prime) for one in of_rounds]
    rest = np.min([m for m, _ in windows]) - windows[0][1]
    exponent = noise.classical(delta_local, noise.sensitivity(of_rounds[0], rest))
    most = np.array([one.participation.max() for one in of_rounds])
    with np.errstate(over="ignore"):
        scale = np.expm1(exponent) * np.sqrt((most**2).sum()) / (1 - np.asarray(delta_prime))
    return scale**2 / 2 + np.sqrt(2 * np.log(1 / _validate.real("(0, 1]", slack=slack))) * scale


def compose_homogeneous(epsilon: Numbers, delta: Numbers, rounds: Numbers, slack: Numbers) -> Composed:
    """eps_T = sqrt(2 T log(1/dt)) eps + T eps (e^eps - 1), delta_T = T delta + dt (Dwork and Roth 2014, Theorem 3.20).

    eps and delta are those of every round, T is `rounds`, and dt in (0, 1] is `slack`.

    Examples:
      >>> both = compose_homogeneous(epsilon=0.01, delta=1e-8, rounds=100, slack=1e-6)
      >>> print(both.epsilon.round(3), f"{both.delta:.1e}")
      0.536 2.0e-06
    """
    e, failure = _validate.real("[0, inf)", epsilon=epsilon), _validate.real("[0, inf)", delta=delta)
    t, dt = _validate.integer(rounds=rounds), _validate.real("(0, 1]", slack=slack)
    with np.errstate(over="ignore"):
        return Composed(np.sqrt(2 * t * np.log(1 / dt)) * e + t * e * np.expm1(e), t * failure + dt)
