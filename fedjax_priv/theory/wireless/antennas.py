"""A server with M antennas, and users that know nothing of their channel: the server's estimate, and what it learns.

All users send b g_k at once. Antenna m receives `y_m = sum_k h_km b g_k + CN(0, 2 N0)`, with independent Rayleigh gains
h_km ~ CN(0, 1). The server knows `S_m = sum_k h_km` up to pilot errors. Its estimate of the mean is `Re z / (b K)`,
`z = (1/M) sum_m conj(S_m) y_m` (Amiri, Duman, Gunduz, Kulkarni and Poor, "Blind federated edge learning", 2021). A
complex channel use carries one coordinate, in its real part, or two, as in their paper.

The server has the signals of all antennas, not only z. With more antennas it can separate users better, so what it
learns of a user grows with M.
"""

from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from fedjax_priv.theory import _accountant, _validate, gaussian
from fedjax_priv.theory._accountant import Mechanism
from fedjax_priv.theory._validate import Change, Numbers, Result
from fedjax_priv.theory.neighbours import DISTANCE
from fedjax_priv.theory.wireless.complex_uses import CombinedError, checked_pairs, checked_per_use
from fedjax_priv.theory.wireless.rounds import Round, noises

Pilots = Literal["individual", "common"]
_NODES, _FAR = 400, 1e-16  # of the law of a user's gain over all antennas; chance of one that is left out


class CombinedCoefficients(NamedTuple):
    """Variances and covariances of B_k, the coefficient of user k in z; its mean is 1."""

    real: Result  # Var Re B_k
    imaginary: Result  # Var Im B_k
    real_covariance: Result  # Cov(Re B_k, Re B_l), k and l different
    imaginary_covariance: Result  # Cov(Im B_k, Im B_l)


def combined_coefficients(
    num_users: Numbers, antennas: Numbers, *, error: Numbers = 0.0, pilots: Pilots = "individual"
) -> CombinedCoefficients:
    """Which coefficients do users have after combining? `B_k = (1/M) sum_m conj(S_m) h_km`, with E B_k = 1.

    Variances fall as 1/M. The variances of Re B_k and Im B_k differ by 1/M, so B_k is not circular.

    Args:
      num_users: K >= 1.
      antennas: M >= 1.
      error: v >= 0, variance of the pilot error of each user's gain or, with a common pilot, of the sum of gains.
      pilots: "individual": every user sends its own pilot, and errors add up; "common": one pilot for the sum.

    Examples:
      >>> real, imaginary, covariance, _ = combined_coefficients(5, 8, error=0.3)
      >>> print(real, imaginary, covariance)
      0.46875 0.34375 0.0625
    """
    m, total = _validate.integer(antennas=antennas), _power_of_sum(num_users, error, pilots)
    return CombinedCoefficients((total + 1) / (2 * m), (total - 1) / (2 * m), (0.5 / m)[()], (-0.5 / m)[()])


def combined_error(
    num_users: Numbers,
    antennas: Numbers,
    *,
    mean_square: Numbers,
    square_of_mean: Numbers,
    num_params: Numbers,
    noise_variance: Numbers = 0.0,
    receiver_noise: Numbers = 0.0,
    amplitude: Numbers = 1.0,
    error: Numbers = 0.0,
    pilots: Pilots = "individual",
    coordinates_per_use: Literal[1, 2] = 1,
) -> CombinedError:
    """What is the error of the server's estimate of the mean? Fading contributes `((1 + v) V + ||g||^2) / (2 M)`.

    It falls as 1/M and not with K, since interference grows with K. Two coordinates in a complex use mix through Im B,
    and fading contributes `(1 + v) V / M`. Each coordinate has the same receiver noise in both cases.

    Args:
      num_users: K.
      antennas: M.
      mean_square: V, the mean of ||g_k||^2.
      square_of_mean: ||g||^2 of the mean g.
      num_params: d.
      noise_variance: sigma^2 >= 0 of each user's own noise, sent with its update.
      receiver_noise: N0 >= 0, of each real dimension of an antenna.
      amplitude: b > 0.
      error: v, as in `combined_coefficients`.
      pilots: as in `combined_coefficients`.
      coordinates_per_use: coordinates of an update per complex channel use. With 2, d must be even. If it is odd, add
        the error of the last coordinate, which is alone: that of `num_params=1` with one per use.

    Examples:
      >>> error = combined_error(5, 1, mean_square=4.0, square_of_mean=2.0, num_params=3, receiver_noise=0.5)
      >>> print(error.fading, error.receiver_noise)
      3.0 0.3
    """
    k, m = _validate.integer(num_users=num_users), _validate.integer(antennas=antennas)
    d, b = checked_pairs(num_params, coordinates_per_use), _validate.real("(0, inf)", amplitude=amplitude)
    larger = _power_of_sum(num_users, error, pilots) / k  # 1 + v, or 1 + v_S / K
    square = _validate.real("[0, inf)", mean_square=mean_square)
    of_mean = _validate.real("[0, inf)", square_of_mean=square_of_mean)
    variance, own = _validate.real("[0, inf)", noise_variance=noise_variance), 1 + (larger * k + 1) / (2 * m)
    if coordinates_per_use == 2:
        fading, own = larger * square / m, own + (larger * k - 1) / (2 * m)
    else:
        fading = (larger * square + of_mean) / (2 * m)
    heard = d * larger * _validate.real("[0, inf)", receiver_noise=receiver_noise) / (m * k * b**2)
    return CombinedError(fading, d * variance / k * own, heard)


def antennas_sensitivity(
    setting: Round,
    gains: np.ndarray,
    *,
    amplitude: float = 1.0,
    coordinates_per_use: Literal[1, 2] = 1,
    neighbours: Change = "replacement",
) -> np.ndarray:
    """How far does each user move the signals of all antennas, relative to the noise? `[K]`.

    If a complex use carries two coordinates, `s_k^2 = (2 b L)^2 h_k^H (b^2 sum_j sigma_j^2 h_j h_j^H + N0 I)^-1 h_k`,
    h_k in C^M. If it carries one, the same with real and imaginary parts stacked in R^2M, which is never less. Without
    noise of users it is `2 b L ||h_k|| / sqrt(N0)`, which grows as sqrt(M). With noise of users, many antennas separate
    them: s_k -> 2 L / sigma, as if user k were alone. It holds whatever way the server combines its antennas.

    Args:
      setting: N0 > 0; `participation` is not used. sigma^2 may be `[K]`.
      gains: `[K, M]`, complex, of all users that send.
      amplitude: b > 0.
      coordinates_per_use: as in `known_coefficients_sensitivity`.
      neighbours: "replacement", or "zero-out": the user sends only its noise.

    Examples:
      >>> setting = Round(num_users=2, participation=1.0, clip=0.5, noise_variance=0.5, receiver_noise=1.0)
      >>> print(antennas_sensitivity(setting, np.array([[1.0, 1j], [1.0, -1j]])).round(4))
      [1. 1.]
    """
    clip, variance, _ = noises(setting)
    n0 = _validate.real("(0, inf)", receiver_noise=setting.receiver_noise)
    b = _validate.real("(0, inf)", amplitude=amplitude)
    per_use = checked_per_use(coordinates_per_use)
    gains = np.asarray(gains, np.complex128)
    if gains.ndim != 2 or not np.isfinite(gains).all():
        _validate.fail("gains", gains.shape, "finite numbers [K, M]")
    h = np.concatenate([np.real(gains), np.imag(gains)], axis=1) if per_use == 1 else gains
    alike = h.conj() @ h.T  # [K, K]; (A^H A)(x + A^H A)^-1 is as large as users, not as antennas
    share = np.linalg.solve(n0 * np.eye(len(h)) + b**2 * alike * variance, alike).diagonal().real
    shift = _validate.choice(DISTANCE, neighbours=neighbours)
    return shift * b * clip * np.sqrt(np.maximum(share, 0))


def antennas_epsilon(delta: Numbers, sensitivity: float, antennas: int, *, rounds: int = 1) -> Result:
    """For which eps are rounds private, if gains are independent from round to round and users add no noise?

    One round has `delta(eps) = E delta_G(eps; s ||h||)`, exactly, with ||h||^2 ~ Gamma(M, 1).

    Args:
      delta: in (0, 1).
      sensitivity: s = 2 b L / sqrt(N0) > 0, for gain 1 at a single antenna.
      antennas: M.
      rounds: number of rounds in which the user sends.

    Examples:
      >>> print([float(antennas_epsilon(1e-3, 0.5, m).round(2)) for m in (1, 4, 16)])
      [2.17, 3.99, 8.46]
    """
    mechanism = _averaged(sensitivity, antennas)
    number = _validate.whole(rounds=rounds)
    return _accountant.epsilon_after(_validate.real("(0, 1)", delta=delta), [(mechanism, number)])


def _averaged(sensitivity: float, antennas: int) -> Mechanism:
    """The mechanism averaged over ||h||, whose square is Gamma; its far tails count as infinite loss."""
    s, m = _validate.number("(0, inf)", sensitivity=sensitivity), float(_validate.whole(antennas=antennas))
    shortest, longest = np.sqrt([stats.gamma.ppf(_FAR, m), stats.gamma.isf(_FAR, m)])
    x, width = np.polynomial.legendre.leggauss(_NODES)
    length = shortest + (longest - shortest) * (x + 1) / 2
    chance = 2 * length * stats.gamma.pdf(length**2, m) * width * (longest - shortest) / 2
    term = lambda eps: chance * gaussian.delta(eps, s * length)
    return _accountant.symmetric(_accountant.averaged(term, length.size, max(1 - float(chance.sum()), 0.0)))


def _power_of_sum(num_users: Numbers, error: Numbers, pilots: Pilots) -> Result:
    """E |S_m|^2 of the estimate."""
    k, v = _validate.integer(num_users=num_users), _validate.real("[0, inf)", error=error)
    return k + v * _validate.choice({"individual": k, "common": np.ones_like(k)}, pilots=pilots)
