"""One round of DP-FedAvg: its numbers, their checks, and its privacy profiles.

A round releases S = sum x_i + N(0, (z C)^2 I) over the clients that take part, each |x_i| <= C. Everything is in units
of z C: a client moves the sum by up to 1/z, and replacing a client moves it by up to 2/z.

The profiles, with P = 1/z and g the probability that a client takes part. Each order is composed separately.

- Poisson, add/remove and zero-out: (1-q) N(0) + q N(P) against N(0) (Zhu, Dong and Wang 2022, Theorem 11).
- Poisson, replacement: (1-q) N(0) + q N(P) against (1-q) N(0) + q N(-P). We know of no printed proof. Ours: fix
  everything except the client's coin and its two values x and y, |x|, |y| <= P. For a >= 1 the divergence is
  G(x, y) = sup over tests f of q E_x f - (1-q)(a-1) E_0 f - a q E_y f. The best test accepts
  R = {u: q > (1-q)(a-1) e^{-x.u + ..} + a q e^{(y-x).u + ..}}, and R + v is in R if x.v >= 0 and (x-y).v >= 0.
  So G does not fall as y moves along -v, or x along v. With t the angle from x = |x| (1, 0) to y, v = (sin t, -cos t)
  is such a direction: x.v = |x| sin t = (x-y).v. Hence G is largest if y is opposite to x. Then v = x is such a
  direction too, so G is largest if both have norm P. For a < 1 exchange x and y.
- Fixed size, add/remove: (1-g) N(0) + g N(2P) against N(0) (same theorem: the client takes another client's place).
- Fixed size, replacement: the profile of the line above for a >= 1, and its reverse for a < 1 (same paper).
- Fixed size, zero-out: let w be the value of the client whose place is taken: (1-g) N(w) + g N(x) against
  (1-g) N(w) + g N(0). For a >= 1 and the order with the client first, w turns away from x by the same v: the profile is
  that of (1-g) N(0) + g N(2P) against (1-g) N(0) + g N(P). In the other order w turns towards x: the profile is that of
  (1-g) N(0) + g N(P) against N(0). For a < 1, an order has the reverse of the other order's profile. The worst data
  sets differ, but the maximum of convex profiles is a profile.
- Truncated Poisson, a uniform m-subset of the clients that a coin chose: if u >= m others were chosen, the client is in
  with probability q m/(u+1), in another client's place: use the profile of fixed size. Otherwise use Poisson's.
  Profiles are averaged over u, which convexity of the divergence allows.
- Poisson with a quorum: a secure sum of fewer than t clients is not opened, and noise alone is released. If t - 1
  others stay, the client's own coin decides whether the sum is opened: no release without the client hides its update.
  By convexity the divergence is at most q times the divergence of N(x) from N(y), a Gaussian mechanism of shift P, or
  2P for replacement. If more others stay, use Poisson's profile; if fewer stay, nothing is released. A cohort of fixed
  size, or a full one, needs no special profile: whoever has the client's place is as likely to stay. Add/remove has
  no profile: without the client, a sum of t - 1 others is never opened; with it, their whole sum is opened, not only x.

Values may depend on all earlier releases: profiles that hold for any earlier releases compose (same paper,
Theorem 10).
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from fedjax_priv.theory import _accountant, _binomial, _validate, gaussian
from fedjax_priv.theory._accountant import Mechanism, Profile
from fedjax_priv.theory._mixtures import both_mixed, mixed_first, mixed_second
from fedjax_priv.theory._validate import Numbers, Result
from fedjax_priv.theory.neighbours import ANY_DISTANCE

Neighbours = Literal["add/remove", "zero-out", "replacement"]
Sampling = Literal["poisson", "fixed size"]
_NEVER = 1e-22  # less likely numbers of clients count as infinite loss
_NEGLIGIBLE = 1e-13  # if a full cohort is less likely, it counts as infinite loss


class Round(NamedTuple):
    """One round; a function that takes one raises ValueError for a field outside its range.

    If coins choose more clients than `capacity`, a uniform subset of `capacity` of them takes part.
    """

    noise_multiplier: float = 1.0  # z > 0: standard deviation of the sum's noise divided by the clip norm C
    rate: float = 1.0  # q of a coin, or m/N of a cohort of fixed size, in [0, 1]; 1: everyone takes part
    sampling: Sampling = "poisson"
    capacity: int | None = None  # the most clients of a Poisson round, >= 1
    population: int | None = None  # N, including the client; needed with a capacity or a quorum
    quorum: int | None = None  # t >= 1: the sum of a Poisson round with fewer clients is not opened
    stays: float = 1.0  # probability that another client that takes part counts for the quorum, in [0, 1]


def mechanism(one: Round, neighbours: Neighbours) -> Mechanism:
    """The profiles of a round in both orders, the input with the client first or second; one if both are the same.

    Raises:
      ValueError: `neighbours` is none of the three, or "add/remove" with a quorum.
    """
    z, q = checked(one)
    of_sampling = {"poisson": _poisson, "fixed size": _fixed_size}
    row = _validate.choice(of_sampling, sampling=one.sampling)
    _validate.choice(dict.fromkeys(get_args(Neighbours)), neighbours=neighbours)
    if one.quorum is not None and neighbours == "add/remove":
        allowed = "'zero-out' or 'replacement' with a quorum: whether a client comes can decide if a sum is opened"
        _validate.fail("neighbours", neighbours, allowed)
    if row is _fixed_size:
        return row(q, 1 / z, neighbours)
    return _by_coins(one, q, 1 / z, neighbours) if one.capacity is None else _truncated(one, q, 1 / z, neighbours)


def checked(one: Round) -> tuple[float, float]:
    """z and q of a round whose numbers are in range."""
    z = _validate.number("(0, inf)", noise_multiplier=_validate.setting(Round, one=one).noise_multiplier)
    for name in ("capacity", "quorum"):
        if (size := getattr(one, name)) is not None:
            _check_size(one, name, size)
    _validate.number("[0, 1]", stays=one.stays)
    return z, _validate.number("[0, 1]", rate=one.rate)


def _check_size(one: Round, name: str, size: int) -> None:
    _validate.whole(**{name: size})
    if one.sampling != "poisson":
        _validate.fail(name, size, 'None where sampling is not "poisson"')
    if one.population is None:
        _validate.fail("population", one.population, f"given with a {name}")
    _validate.whole(population=one.population)


def _by_coins(one: Round, q: float, shift: Numbers, neighbours: str, fits: float = 1.0) -> Mechanism:
    """Poisson's profiles given that the cohort fits its capacity, which has probability `fits`."""
    orders = _poisson(q, shift, neighbours)
    if one.quorum is None:
        return orders
    others, distance = int(one.population or 1) - 1, shift * ANY_DISTANCE[neighbours]
    turning = 0.0 if one.quorum > others + 1 else float(_binomial.pmf(one.quorum - 1, others, q * one.stays))
    return tuple(_opened_by_the_client(order, q, distance, min(1.0, turning / fits)) for order in orders)


def _opened_by_the_client(order: Profile, q: float, distance: Numbers, turning: float) -> Profile:
    """A mixture of `order` and, with probability `turning`, of a sum that is opened only if the client takes part."""

    def profile(epsilon: Numbers) -> Result:
        decided = q * mixed_first(epsilon, 1.0, distance) - (1 - q) * np.expm1(np.minimum(epsilon, 0))
        usual = order(epsilon)
        return (1 - turning) * usual + turning * np.maximum(usual, decided)

    return profile


def _poisson(q: Numbers, shift: Numbers, neighbours: str) -> Mechanism:
    if neighbours == "replacement":
        return _accountant.symmetric(lambda x: both_mixed(x, q, shift, -shift))
    return (lambda x: mixed_first(x, q, shift)), (lambda x: mixed_second(x, q, shift))


def _fixed_size(g: Numbers, shift: Numbers, neighbours: str) -> Mechanism:
    taken = lambda x: mixed_first(x, g, 2 * shift)
    if neighbours == "replacement":
        return _accountant.symmetric(taken)
    if neighbours == "add/remove":
        return taken, (lambda x: mixed_second(x, g, 2 * shift))
    remove, add = (lambda x: both_mixed(x, g, 2 * shift, shift)), (lambda x: mixed_first(x, g, shift))
    return _with_reverse(remove, add), _with_reverse(add, remove)


def _with_reverse(above: Profile, reverse: Profile) -> Profile:
    """An order's profile: `above` at eps >= 0; at eps < 0 it follows from `reverse`, the reverse order's profile."""

    def profile(epsilon: Numbers) -> Result:
        size = np.abs(epsilon)
        return np.where(np.less(epsilon, 0), gaussian.at_any(-size, reverse(size)), above(size))

    return profile


def _truncated(one: Round, q: float, shift: Numbers, neighbours: str) -> Mechanism:
    """Truncated Poisson sampling: profiles averaged over the number of others that a coin chose."""
    most, others = int(one.capacity or 0), int(one.population or 1) - 1
    if most > others:
        return _by_coins(one, q, shift, neighbours)
    number = np.arange(most, others + 1.0)
    chance = np.asarray(_binomial.pmf(number, others, q))
    rest = float(_binomial.below(most, others, 1 - q))
    happens = chance > _NEVER
    lost = float(chance[~happens].sum())
    number, chance = number[happens], chance[happens]
    if (full := float(chance.sum()) + lost) < _NEGLIGIBLE:
        return tuple(_or_lost(order, full) for order in _by_coins(one, q, shift, neighbours))
    coins = _by_coins(one, q, shift, neighbours, max(rest, _NEVER))
    orders = zip(coins, _fixed_size(q * most / (number + 1), shift, neighbours), strict=True)
    return tuple(_mixed(fits, full, rest, chance, lost) for fits, full in orders)


def _or_lost(profile: Profile, chance: float) -> Profile:
    return lambda x: np.minimum(profile(x) + chance, 1)


def _mixed(fits: Profile, full: Profile, rest: float, chance: np.ndarray, lost: float) -> Profile:
    in_place = _accountant.averaged(lambda x: chance * full(x), chance.size, lost)
    return lambda x: np.minimum(rest * fits(x) + in_place(x), 1)
