"""Users that invert an estimate of their channel: moments of their received coefficients, and what the server learns.

Pilots of energy E_p estimate Rayleigh fading h ~ CN(0, 1) with an error of variance `v = 2 N0 / E_p`. A user with
`|hat h|^2 >= g` sends `g_k c / hat h` and arrives with the complex coefficient `u = h / hat h`, the same for all
coordinates; other users are silent. A complex channel use carries one coordinate in its real part, or two in its real
and imaginary part, which mix through Im u; `complex_uses` has the error of both.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from fedjax_priv.theory import _accountant, _validate, gaussian
from fedjax_priv.theory._accountant import Mechanism
from fedjax_priv.theory._exponential_integral import scaled_exp1
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.wireless.complex_uses import checked_per_use
from fedjax_priv.theory.wireless.rounds import Round, noises

Estimator = Literal["least squares", "mmse"]
_LENGTHS = 200
_REACH = 8  # largest error, in units of sqrt(v): larger ones have probability below 1e-27
_STEP, _NEAREST, _STRONGEST = 0.25, 1e-12, 50.0  # grid of log(y - g): its step, its start in units of g, its end
_LONGEST = 1e-16  # probability of a coefficient beyond the grid


class Coefficient(NamedTuple):
    """Moments of u for a user that sends, and how often and at which energy a user sends."""

    mean: Result  # E u, real
    variance: Result  # E |u - E u|^2; half of it is the variance of Re u
    sends: Result  # P[|hat h|^2 >= g]
    energy: Result  # E[1 / |hat h|^2; sends]


def estimated_coefficient(error: Numbers, threshold: Numbers, estimator: Estimator = "mmse") -> Coefficient:
    """Which coefficient has a user that inverts an estimate? With its mean, `y / (c R E u)` is unbiased.

    Args:
      error: v > 0.
      threshold: g > 0; at 0 the variance would be infinite.
      estimator: "mmse" is "least squares" divided by 1 + v.

    Examples:
      >>> mean, variance, sends, energy = estimated_coefficient(0.1, 0.2)
      >>> print(mean, variance.round(6), sends.round(6))
      1.0 0.142723 0.802519
    """
    v, g = _validate.real("(0, inf)", error=error), _validate.real("(0, inf)", threshold=threshold)
    shrunk = _validate.choice({"mmse": True, "least squares": False}, estimator=estimator)
    x = g * (1 + v) if shrunk else g / (1 + v)
    scattered = v * scaled_exp1(x)
    if shrunk:
        return Coefficient(np.ones_like(x)[()], scattered, np.exp(-x), (1 + v) * special.exp1(x))
    return Coefficient(1 / (1 + v), scattered / (1 + v) ** 2, np.exp(-x), special.exp1(x) / (1 + v))


def estimated_mean(
    gains: np.ndarray, error: float, threshold: float = 0.0, estimator: Estimator = "mmse"
) -> np.floating[Any]:
    """What is E u of a user that sends, if all `gains` are equally likely? For `channels.estimated(..., mean=)`.

    `E[h / (h + e); |h + e| >= R] = int_R^inf (2 h / v) e^(-(r^2 + h^2) / v) I_1(2 r h / v) dr`: the mean of
    `e^(-i theta)` over the angle of `h + e` at length r. `R = sqrt(g)` under "least squares". Under "mmse",
    `R = (1 + v) sqrt(g)`, and u is 1 + v times as long. Under "least squares" without a threshold, it is
    `1 - e^(-h^2 / v)` for a gain h.

    Args:
      gains: h > 0, true amplitudes, `[...]`: recorded gains, a constant gain, or quantiles of a law.
      error: v > 0.
      threshold: g >= 0.
      estimator: as in `estimated_coefficient`.

    Raises:
      ValueError: an argument outside its range, or a threshold that no user reaches.

    Examples:
      >>> print(estimated_mean(np.array([1.0]), 0.1).round(4), estimated_mean(np.array([1.0]), 0.1, 0.9).round(4))
      1.1 0.8966
    """
    h = _validate.real("(0, inf)", gains=gains).reshape(-1, 1)
    v, g = _validate.number("(0, inf)", error=error), _validate.number("[0, inf)", threshold=threshold)
    longer = 1 + v if _validate.choice({"mmse": True, "least squares": False}, estimator=estimator) else 1.0
    least, reach = longer * np.sqrt(g), _REACH * np.sqrt(v)
    low, high = np.maximum(least, h - reach), np.maximum(least, h) + reach
    x, weight = np.polynomial.legendre.leggauss(_LENGTHS)
    r = low + (high - low) * (x + 1) / 2
    density = np.exp(-np.square(r - h) / v) * weight * (high - low) / v
    sends = (density * r * special.i0e(2 * r * h / v)).sum()
    if sends == 0:
        raise ValueError(f"threshold must be one that an estimate reaches, got {threshold}")
    return longer * (density * h * special.i1e(2 * r * h / v)).sum() / sends


def turned_coefficient(deviation: Numbers) -> tuple[Result, Result, Result]:
    """Mean of u = e^(j phi), and variances of its real and imaginary part, for phase errors phi ~ N(0, f^2).

    Args:
      deviation: f >= 0, in radians.

    Examples:
      >>> mean, real, imaginary = turned_coefficient(0.8)
      >>> print(mean.round(4), real.round(4), imaginary.round(4))
      0.7261 0.1117 0.361
    """
    f2 = _validate.real("[0, inf)", deviation=deviation) ** 2
    return np.exp(-f2 / 2), np.expm1(-f2) ** 2 / 2, -np.expm1(-2 * f2) / 2


def estimated_channel_delta(
    epsilon: Numbers, sensitivity: float, *, error: float, threshold: float, rounds: int = 1
) -> Result:
    """Which delta have rounds for a user that sends in them? For one round `E delta_G(eps; s |u|)`.

    The server has the complex signal and may learn the phase of u: |u| matters, not Re u, and |u| can be above 1. Users
    add no noise, and estimates are MMSE, new in each round.

    For one round the result has ten digits, ignoring coefficients of probability 1e-16. For more rounds it is an upper
    bound, and deltas below about 1e-11 are not resolved.

    Args:
      epsilon: >= 0.
      sensitivity: s = 2 c L / sqrt(N0) > 0, with perfect channel knowledge.
      error: v > 0.
      threshold: g > 0.
      rounds: number of rounds in which the user sends.

    Examples:
      >>> print(estimated_channel_delta(1.0, 0.5, error=0.1, threshold=0.2).round(5))  # 0.00683 if gains are known
      0.01374
    """
    mechanism = _mechanism(sensitivity, error, threshold)
    number = _validate.whole(rounds=rounds)
    return _accountant.delta_after(_validate.real("[0, inf)", epsilon=epsilon), [(mechanism, number)])


def estimated_channel_epsilon(
    delta: Numbers, sensitivity: float, *, error: float, threshold: float, rounds: int = 1
) -> Result:
    """The inverse of `estimated_channel_delta`, at delta in (0, 1).

    Examples:
      >>> print(estimated_channel_epsilon(1e-3, 0.5, error=0.1, threshold=0.2).round(2))
      1.77
    """
    mechanism = _mechanism(sensitivity, error, threshold)
    number = _validate.whole(rounds=rounds)
    return _accountant.epsilon_after(_validate.real("(0, 1)", delta=delta), [(mechanism, number)])


def known_coefficients_sensitivity(
    setting: Round, coefficients: np.ndarray, *, level: float = 1.0, coordinates_per_use: Literal[1, 2] = 1
) -> np.ndarray:
    """How far does each sender move the received signal, relative to the noise, if the server knows all u? `[K]`.

    With one coordinate per complex use, a user's noise lies along its u in R^2:
    `s_k^2 = (2 c L)^2 u_k^T (N0 I + c^2 sum_j sigma_j^2 u_j u_j^T)^-1 u_k`. With two coordinates, a user's noise fills
    both parts: `s_k = 2 c L |u_k| / sqrt(N0 + c^2 sum_j sigma_j^2 |u_j|^2)`. Both are exact, for replacement, and the
    first is never less.

    Args:
      setting: N0 > 0; `participation` is not used. sigma^2 may be `[K]`.
      coefficients: `[K]`, complex, u of the senders.
      level: c > 0.
      coordinates_per_use: 2 only if every complex use carries two coordinates, with a user's noise on each. If d is
        odd, the last coordinate is alone, and an update may have all its norm there: use 1.

    Examples:
      >>> setting = Round(num_users=3, participation=1.0, clip=0.6, noise_variance=0.5, receiver_noise=0.2)
      >>> u = np.array([1.1 - 0.3j, 0.8 + 0.5j, 1.2 + 0.1j])
      >>> print(known_coefficients_sensitivity(setting, u, level=0.9).round(4))
      [1.1647 1.1032 1.0495]
    """
    clip, variance, _ = noises(setting)
    n0, c = _validate.real("(0, inf)", receiver_noise=setting.receiver_noise), _validate.real("(0, inf)", level=level)
    if checked_per_use(coordinates_per_use) == 2:
        length = np.abs(coefficients)
        return 2 * c * clip * length / np.sqrt(n0 + c**2 * (variance * np.square(length)).sum())
    u = np.stack([np.real(coefficients), np.imag(coefficients)], axis=1)
    noise = n0 * np.eye(2) + c**2 * (variance * u.T) @ u
    return 2 * c * clip * np.sqrt((u * np.linalg.solve(noise, u.T).T).sum(1))


def _mechanism(sensitivity: float, error: float, threshold: float) -> Mechanism:
    s = _validate.number("(0, inf)", sensitivity=sensitivity)
    v, g = (_validate.number("(0, inf)", error=error), _validate.number("(0, inf)", threshold=threshold))
    length, chance = _lengths(v, g)
    term = lambda eps: chance * gaussian.delta(eps, s * length)
    lost = max(1 - float(chance.sum()), 0.0)
    return _accountant.symmetric(_accountant.averaged(term, length.size, lost))


def _lengths(v: float, g: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and probabilities of |u| for a user that sends: Rice given |hat h|^2 = y, and y - g is exponential.

    The tail of |u| comes from y near g, so the sum over y - g uses a logarithmic grid. The law has a narrow peak at 1
    and a far tail: nodes are evenly spaced near the peak, and geometrically beyond a typical spread.
    """
    t = np.exp(np.arange(np.log(_NEAREST * min(g * (1 + v), 1)), np.log(_STRONGEST), _STEP))
    weight = t * np.exp(-t)
    spread = lambda t: np.sqrt(v / (1 + v) / (2 * (g + t / (1 + v))))
    most, typical = spread(0) * np.sqrt(-2 * np.log(_LONGEST)), spread(1)
    low, high = np.arcsinh([-min(1, most) / typical, most / typical])
    x, width = np.polynomial.legendre.leggauss(_LENGTHS)
    at = low + (high - low) * (x + 1) / 2
    off = typical * np.sinh(at)[:, None]  # |u| - 1, without cancellation
    precision = 1 / spread(t) ** 2
    rice = np.exp(-(off**2) * precision / 2) * special.i0e((1 + off) * precision) * (1 + off) * precision
    density = rice @ (weight / weight.sum())
    return 1 + off[:, 0], density * typical * np.cosh(at) * width * (high - low) / 2
