"""Table I: the four schemes, what the paper says that a round of each leaks, and what it leaks exactly."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from fedjax_priv.theory import wireless as theory

SCHEMES = ("orthogonal, all users", "orthogonal, sampled", "wireless, all users", "wireless, sampled")
ORDERS = (0.0, -0.5, -0.5, -0.75)
"""Of eps in K, by Table I."""


class Noise(NamedTuple):
    """The caption's numbers; sampled schemes are taken at p = p*(K)."""

    clip: float = 1.0
    privacy: float = 9.0  # sigma^2, sigma = 3
    receiver: float = 3.0  # N0
    delta_local: float = 1e-4
    delta_prime: float = 1e-4


def leakage(num_users: np.ndarray, noise: Noise) -> xr.Dataset:
    """`eps`, the paper's, and `exact`, by replacement, at its `delta`; by `scheme` and `K`."""
    rows = [_at(int(k), noise) for k in num_users]
    names = ("eps", "delta", "exact")
    values = {name: (("K", "scheme"), [[cell[i] for cell in row] for row in rows]) for i, name in enumerate(names)}
    return xr.Dataset(values, {"K": num_users, "scheme": list(SCHEMES)})


def _at(k: int, noise: Noise) -> list[tuple[Any, Any, Any]]:
    """Eps, delta and exact eps of each scheme."""
    small = noise.delta_local
    setting, eps, delta = sampled_round(k, noise)
    rows = [
        (theory.orthogonal_epsilon, small, theory.rigorous_orthogonal_epsilon),
        (theory.sampled_orthogonal_epsilon, setting.participation * small, theory.rigorous_sampled_orthogonal_epsilon),
        (theory.unsampled_epsilon, small, theory.rigorous_unsampled_epsilon),
    ]
    printed = [(claim(setting, small), at, exact(setting, at)) for claim, at, exact in rows]
    return [*printed, (eps, delta, theory.rigorous_epsilon(setting, delta))]


class SampledRound(NamedTuple):
    """Wireless transmission of sampled users."""

    setting: theory.Round  # with p*
    epsilon: float  # eq. 16; eq. 14 where p* = 1
    delta: float


def sampled_round(k: int, noise: Noise) -> SampledRound:
    """The paper's figures at p*(K)."""
    p = float(theory.optimal_participation(k, noise.delta_prime))
    setting = theory.Round(k, p, noise.clip, noise.privacy, noise.receiver)
    given = setting, noise.delta_local, noise.delta_prime
    return SampledRound(setting, float(theory.central_epsilon(*given)), float(theory.central_delta(*given)))
