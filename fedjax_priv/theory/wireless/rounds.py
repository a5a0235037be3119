"""One round of wireless FedSGD: its numbers, their checks, and the distinct rounds of a run."""

from typing import NamedTuple

import numpy as np

from fedjax_priv.theory import _validate
from fedjax_priv.theory._validate import Numbers
from fedjax_priv.theory.wireless.participation import users


class Round(NamedTuple):
    """One round, in the paper's symbols; a function that takes one raises ValueError for a field outside its range.

    In functions about T rounds, `participation` may also be `[T, 1]` or `[T, K]`, and `noise_variance` and
    `receiver_noise` `[T]`: the values of each round. If users are received at level c_t, give N0 / c_t^2 as N0.
    """

    num_users: Numbers  # K >= 1
    participation: Numbers  # p in [0, 1]: the probability of taking part, one for all users or `[K]`
    clip: Numbers  # L > 0: the norm to which gradients are clipped
    noise_variance: Numbers  # sigma^2 >= 0: a user's privacy noise on a parameter, one for all users or `[K]`
    receiver_noise: Numbers = 0.0  # N0 >= 0: variance of the receiver's noise on a parameter


class Checked(NamedTuple):
    """A `Round` whose fields are in their ranges, in float64."""

    num_users: int
    participation: np.ndarray  # [K]
    clip: np.ndarray
    noise_variance: np.ndarray  # [] or [K]
    receiver_noise: np.ndarray


def checked(setting: Round) -> Checked:
    """The checked fields of one round; ValueError names a field outside its range."""
    size = _validate.length(num_users=_validate.setting(Round, setting=setting).num_users)
    clip, variance, receiver_noise = noises(setting)
    if variance.shape not in ((), (size,)):
        _validate.fail("noise_variance", setting.noise_variance, f"a number, or one per user: num_users = {size}")
    if receiver_noise.ndim:
        _validate.fail("receiver_noise", setting.receiver_noise, "a number, of one round")
    return Checked(size, users(size, setting.participation), clip, variance, receiver_noise)


def distinct(setting: Round, rounds: Numbers) -> list[tuple[Checked, int]]:
    """The distinct rounds of a run of T rounds, checked, and how often each occurs; all users have one sigma^2."""
    kinds, which = in_order(setting, rounds)
    return list(zip(kinds, np.bincount(which).tolist(), strict=True))


def in_order(setting: Round, rounds: Numbers) -> tuple[list[Checked], np.ndarray]:
    """The distinct rounds of a run of T rounds, checked, and the number `[T]` of each round among them."""
    _validate.setting(Round, setting=setting)
    size, total = _validate.length(num_users=setting.num_users), _validate.length(rounds=rounds)
    p, (clip, variance, receiver_noise) = in_rounds(setting, total), noises(setting)
    for name, value in (("noise_variance", variance), ("receiver_noise", receiver_noise)):
        if value.shape not in ((), (total,)):
            _validate.fail(name, getattr(setting, name), f"a number, or one per round: rounds = {total}")
    if p.ndim < 2 and variance.ndim == receiver_noise.ndim == 0:
        return [Checked(size, np.broadcast_to(p, size), clip, variance, receiver_noise)], np.zeros(total, int)
    noise = [np.broadcast_to(each, total) for each in (variance, receiver_noise)]
    rows, which = np.unique(np.column_stack([*noise, np.broadcast_to(p, (total, size))]), axis=0, return_inverse=True)
    return [Checked(size, row[2:], clip, row[0], row[1]) for row in rows], which.ravel()


def in_rounds(setting: Round, total: int) -> np.ndarray:
    """p: a number, `[K]`, `[T, 1]` or `[T, K]`; ValueError for other shapes."""
    size = _validate.length(num_users=setting.num_users)
    p = _validate.real("[0, 1]", participation=setting.participation)
    if p.shape not in ((), (size,), (total, 1), (total, size)):
        shapes = f"a number, [K], [T, 1] or [T, K] for K = {size} users and T = rounds = {total}"
        _validate.fail("participation", setting.participation, shapes)
    return p


def without_receiver(setting: Round) -> Round:
    """The round as if the receiver added no noise."""
    return _validate.setting(Round, setting=setting)._replace(receiver_noise=0.0)


def noises(setting: Round) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L, sigma^2 and N0, of one or many rounds; ValueError for a value outside its range."""
    return (
        _validate.real("(0, inf)", clip=_validate.setting(Round, setting=setting).clip),
        _validate.real("[0, inf)", noise_variance=setting.noise_variance),
        _validate.real("[0, inf)", receiver_noise=setting.receiver_noise),
    )
