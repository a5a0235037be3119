"""The distributed discrete Gaussian mechanism on integer vectors: Kairouz, Liu and Steinke (ICML 2021).

Each of n clients rounds its vector to integers and adds discrete Gaussian noise of parameter s at each coordinate. The
adversary sees the sum. `skellam` is the same for Skellam noise, whose sums are again Skellam. Divergences of both are
at `skellam.ORDERS`, and `skellam.epsilon` converts them.

Neighbours: "zero-out": one client sends only noise; "replacement": it sends any other vector. There is no figure for a
client that is added or removed, since its noise would be added or removed too.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from fedjax_priv.theory import _validate, skellam
from fedjax_priv.theory._validate import Change, Numbers, Result
from fedjax_priv.theory.neighbours import DISTANCE

BETA = math.exp(-0.5)
"""Probability, in the paper's experiments, that a rounded vector is too long and is rounded again."""
Law = Literal["discrete_gaussian", "skellam"]
Growth = Literal["linear", "sqrt"]
GROWTH: dict[str, int] = {"linear": 2, "sqrt": 1}
"""The power of n with which the squared norm of a sum without noise grows."""


def norm_bound(max_norm: Numbers, num_coordinates: Numbers, failure: Numbers = BETA) -> Result:
    """How long is a vector of norm c after rounding, with probability 1 - beta? In grid points, like c.

    D2^2 = min((c + sqrt(d))^2, c^2 + d/4 + sqrt(2 log(1/beta)) (c + sqrt(d)/2)), Proposition 22. Rounding is repeated
    until this holds.

    Args:
      max_norm: c, > 0.
      num_coordinates: d, padding included.
      failure: beta, in (0, 1).

    Examples:
      >>> print(norm_bound(100.0, 256).round(1))
      100.9
    """
    c = _validate.real("(0, inf)", max_norm=max_norm)
    root = np.sqrt(_validate.integer(num_coordinates=num_coordinates))
    beta = _validate.real("(0, 1)", failure=failure)
    likely = c**2 + root**2 / 4 + np.sqrt(-2 * np.log(beta)) * (c + root / 2)
    return np.sqrt(np.minimum(likely, (c + root) ** 2))[()]


def tau(scale: float, shares: int) -> float:
    """How far is a sum of n discrete Gaussians of parameter s from one of parameter sqrt(n) s, in log ratio?

    At most 10 sum_{k=1}^{n-1} exp(-2 pi^2 s^2 k / (k + 1)), Theorem 1, for s >= 1/2.

    Args:
      scale: s, >= 1/2.
      shares: n, the number of discrete Gaussians.

    Examples:
      >>> print(f"{tau(1.0, 10):.1e}")
      5.4e-04
    """
    s = _validate.number("[0.5, inf)", scale=scale)
    k = np.arange(1, _validate.length(shares=shares))
    return float(10 * np.exp(-2 * np.pi**2 * s**2 * k / (k + 1)).sum())


def rdp(
    norm: float, num_coordinates: int, scale: float, shares: int, *, neighbours: Change = "replacement"
) -> np.ndarray:
    """Upper bounds on Renyi divergences of a sum, `[skellam.ORDERS.size]`; Proposition 14.

    min(a l2^2/2 + tau d, (a/2)(l2^2 + 2 l1 tau + tau^2 d), (a/2)(l2 + tau sqrt(d))^2), where l2 and l1 are the
    Euclidean and the L1 distance of adjacent sums divided by sqrt(n) s. To compose rounds, add their divergences.

    Args:
      norm: D2, Euclidean norm of what a client adds before noise, in grid points, >= 0; its L1 norm is then at most
        D2 min(sqrt(d), D2).
      num_coordinates: d, padding included.
      scale: s, of one client's noise, >= 1/2.
      shares: n, the least number of clients in the sum whose noise the adversary does not know: clients that drop out
        or collude do not count.
      neighbours: "replacement" or "zero-out".

    Examples:
      >>> print(rdp(norm=10.0, num_coordinates=100, scale=10.0, shares=10)[:3].round(4))
      [0.4 0.6 0.8]
    """
    factor = _validate.choice(DISTANCE, neighbours=neighbours)
    d2 = _validate.number("[0, inf)", norm=norm)
    d = float(_validate.whole(num_coordinates=num_coordinates))
    apart, deviation = tau(scale, shares), math.sqrt(shares) * scale
    l2, l1 = factor * d2 / deviation, factor * d2 * min(math.sqrt(d), d2) / deviation
    orders = skellam.ORDERS
    each = [
        orders * l2**2 / 2 + apart * d,
        orders / 2 * (l2**2 + 2 * l1 * apart + apart**2 * d),
        orders / 2 * (l2 + apart * math.sqrt(d)) ** 2,
    ]
    return np.min(each, axis=0)


class Sum(NamedTuple):
    """A modular sum whose grid is not chosen yet; functions raise ValueError for a field outside its range."""

    clip: float  # c, largest norm of a client's vector, > 0
    shares: int  # n, clients in the sum
    num_coordinates: int  # d', padding included
    bits: int  # B >= 1, the sum is modulo 2**B
    failure: float = BETA  # beta of `norm_bound`, in (0, 1)
    deviations: float = 2.0  # k > 0: the ring holds a coordinate of the sum up to +-k standard deviations
    neighbours: Change = "zero-out"
    growth: Growth = "linear"  # the norm of the sum without noise grows as n, or as sqrt(n) for vectors without a trend


class Grid(NamedTuple):
    """Grid and noise of a private sum, in the units of `Sum.clip`."""

    step: float  # gamma > 0
    deviation: float  # sigma > 0 of one client's noise, gamma s


def epsilon(of: Sum, grid: Grid, delta: float, law: Law = "discrete_gaussian") -> float:
    """Which eps has one sum?

    Args:
      of: the sum.
      grid: its grid and noise; eps is infinite for discrete Gaussian noise with s below 1/2.
      delta: in (0, 1).
      law: "discrete_gaussian" or "skellam".

    Examples:
      >>> total = Sum(clip=1.0, shares=100, num_coordinates=256, bits=16)
      >>> print(round(epsilon(total, Grid(step=0.01, deviation=0.5), 1e-5), 2))
      0.8
    """
    spent = _validate.choice(_LAWS, law=law)
    _check_sum(of)
    _check_grid(grid)
    norm = norm_bound(of.clip / grid.step, of.num_coordinates, of.failure)
    return spent(of, float(norm), grid.deviation / grid.step, delta)


def calibrated(of: Sum, epsilon: float, delta: float, law: Law = "discrete_gaussian") -> Grid:
    """The finest grid that keeps sums in range, with the least noise that reaches eps on this grid.

    2^B gamma = 2 k sqrt(c^2 n^2 / d + (gamma^2 / 4 + sigma(gamma)^2) n), where sigma(gamma) is the noise that reaches
    eps at delta on the grid gamma: two nested searches, each of a decreasing function. If `of.growth` is "sqrt", n^2
    becomes n, and the grid is finer. If sums grow faster than that, they wrap, but eps holds anyway.

    Args:
      of: the sum.
      epsilon: to be reached, > 0.
      delta: in (0, 1).
      law: "discrete_gaussian" or "skellam".

    Raises:
      ValueError: there is no such grid: `bits` is too small for `shares`, or `epsilon` is too small for the orders of
        `skellam.ORDERS` at `delta`.

    Examples:
      >>> grid = calibrated(Sum(clip=1.0, shares=100, num_coordinates=256, bits=16), epsilon=1.0, delta=1e-5)
      >>> print(f"{grid.step:.5f} {grid.deviation:.3f}")
      0.00045 0.405
    """
    target = _validate.number("(0, inf)", epsilon=epsilon)
    spent = _validate.choice(_LAWS, law=law)
    _check_sum(of)
    delta = _validate.number("(0, 1)", delta=delta)

    grown = float(of.shares) ** GROWTH[of.growth]

    def scale(step: float) -> float:
        """s, the noise of one client in grid points."""
        norm = float(norm_bound(of.clip / step, of.num_coordinates, of.failure))
        excess = lambda log_scale: spent(of, norm, math.exp(log_scale), delta) - target
        largest = math.log(norm) + _FAR
        if excess(largest) > 0:
            allowed = f"large enough for Renyi orders up to {skellam.ORDERS[-1]} at delta = {delta:g}"
            _validate.fail("epsilon", target, allowed)
        return math.exp(_zero(excess, math.log(0.5) if law == "discrete_gaussian" else -_FAR, largest))

    def excess(log_step: float) -> float:
        step = math.exp(log_step)
        squared = of.clip**2 * grown / (of.num_coordinates * step**2) + (0.25 + scale(step) ** 2) * of.shares
        return math.log(2 * of.deviations * math.sqrt(squared)) - of.bits * math.log(2)

    largest = math.log(of.clip) + _COARSE
    if excess(largest) > 0:
        _validate.fail("bits", of.bits, f"enough for a sum of {of.shares} clients at eps = {target:g}")
    step = math.exp(_zero(excess, math.log(of.clip) - _FINE, largest))
    return Grid(step, step * scale(step))


def mean_squared_error(grid: Grid, shares: int) -> float:
    """The mean squared error of a coordinate of the mean, if nothing wraps: (sigma^2 + gamma^2 / 6) / n.

    Rounding adds variance gamma^2 / 6 if a coordinate's position between two grid points is uniform, and less if the
    coordinate is within one step of 0.

    Args:
      grid: of the sum.
      shares: n.

    Examples:
      >>> print(f"{mean_squared_error(Grid(step=0.01, deviation=0.5), 100):.6f}")
      0.002500
    """
    _check_grid(grid)
    return (grid.deviation**2 + grid.step**2 / 6) / float(_validate.length(shares=shares))


def _check_sum(of: Sum) -> None:
    """ValueError names a field outside its range."""
    _validate.number("(0, inf)", clip=_validate.setting(Sum, of=of).clip)
    _validate.whole(shares=of.shares)
    _validate.whole(num_coordinates=of.num_coordinates)
    _validate.whole(bits=of.bits)
    _validate.number("(0, 1)", failure=of.failure)
    _validate.number("(0, inf)", deviations=of.deviations)
    _validate.choice(DISTANCE, neighbours=of.neighbours)
    _validate.choice(GROWTH, growth=of.growth)


def _check_grid(grid: Grid) -> None:
    _validate.number("(0, inf)", step=_validate.setting(Grid, grid=grid).step)
    _validate.number("(0, inf)", deviation=grid.deviation)


_FAR, _FINE, _COARSE = 25.0, 20.0, 10.0  # logarithms of scales over norms, and of steps over clips


def _zero(decreasing, low: float, high: float) -> float:
    """The root of a decreasing function; `low` if the function is at most 0 there."""
    from scipy.optimize import root_scalar  # slow to import

    if decreasing(low) <= 0:
        return low
    return float(root_scalar(decreasing, bracket=(low, high), method="brentq", xtol=1e-13).root)


def _of_discrete_gaussian(of: Sum, norm: float, scale: float, delta: float) -> float:
    if scale < 0.5:
        return math.inf
    return skellam.epsilon(rdp(norm, of.num_coordinates, scale, of.shares, neighbours=of.neighbours), delta)


def _of_skellam(of: Sum, norm: float, scale: float, delta: float) -> float:
    distance = _validate.choice(DISTANCE, neighbours=of.neighbours) * norm
    return skellam.epsilon(skellam.rdp(distance, of.num_coordinates, of.shares * scale**2), delta)


_LAWS = {"discrete_gaussian": _of_discrete_gaussian, "skellam": _of_skellam}
