"""What the figure of accountants shows: eps by p, K and T, and what an audit measured."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from experiments.wireless import audit
from experiments.wireless.leakage import DELTA_LOCAL, delta_prime
from experiments.wireless.schemes import Noise, sampled_round
from experiments.wireless.training import RECEIVER_NOISE
from fedjax_priv.theory import wireless as theory


class Config(NamedTuple):
    """By p with Fig. 4's numbers, by K with Fig. 2's, by T with Fig. 4(b)'s; the simulations are ours."""

    num_users: int = 200
    noise_variance: float = 0.1
    clips: tuple[float, float] = (1.0, 0.1)
    participation: tuple[float, ...] = (*np.round(np.arange(0.02, 1.0, 0.02), 2), 0.99, 1.0)
    sizes: tuple[int, ...] = (20, 30, 50, 100, 156, 300, 600, 1000, 2000)
    iterations: tuple[int, ...] = (1, 10, 100, 400, 1000, 2500)
    uniform: float = 0.3  # p of the composition
    slack: float = 1e-5  # dt
    pair: audit.Trials = audit.Trials(theory.Round(20, 0.3, 1.0, 0.1, 1.0), num_params=2, rounds=10_000, seeds=20)
    removed: audit.Trials = audit.Trials(theory.Round(200, 0.9, 0.1, 0.1, 1.0), num_params=7850, rounds=5000, seeds=4)
    removed_clips: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1)  # gradients are 0: one simulation serves every L
    seed: int = 0


CURVES = {
    "paper": "paper, eq. 13",
    "analytic": "(a) eq. 13, exact Gaussian",
    "replacement": "(b) exact, replacement",
    "removal": "(b) exact, removal",
    "known": "(c) exact, K_t known",
}
EPSILONS = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5])
"""At which the worst pair is audited."""


def by_participation(config: Config) -> xr.Dataset:
    """`eps` by `clip`, `p` and `curve`, at eq. 13's delta; NaN where that does not exist."""
    values = [[_at(config, clip, p) for p in config.participation] for clip in config.clips]
    coordinates = {"clip": list(config.clips), "p": list(config.participation), "curve": list(CURVES)}
    return xr.Dataset({"eps": (tuple(coordinates), values)}, coordinates)


def _at(config: Config, clip: float, p: float) -> list[float]:
    k = config.num_users
    small = delta_prime(np.full(k, p))
    setting = theory.Round(k, p, clip, config.noise_variance, RECEIVER_NOISE)
    if small >= 1 or (delta := theory.central_delta(setting, DELTA_LOCAL, small)) >= 1:
        return [np.nan] * len(CURVES)
    return [
        float(theory.central_epsilon(setting, DELTA_LOCAL, small)),
        float(theory.central_epsilon_analytic(setting, DELTA_LOCAL, small)),
        float(theory.rigorous_epsilon(setting, delta)),
        float(theory.rigorous_epsilon(setting, delta, adjacency="removal")),
        float(theory.known_set_epsilon(setting, delta)),
    ]


def by_users(config: Config) -> xr.Dataset:
    """`scaled` eps by `K` and `line`: of p*, at eq. 14's delta_c, and of all users at the same."""
    exact = theory.rigorous_epsilon, theory.known_set_epsilon, theory.rigorous_unsampled_epsilon
    sampled = [sampled_round(k, Noise()) for k in config.sizes]
    rows = [[eps, *(kind(setting, delta) for kind in exact)] for setting, eps, delta in sampled]
    coordinates = {"K": list(config.sizes), "line": ["paper", "replacement", "known", "all"]}
    return xr.Dataset({"scaled": (tuple(coordinates), np.array(rows, float))}, coordinates)


def by_rounds(config: Config) -> xr.Dataset:
    """`total` eps_T of eqs. 18-20, `total_delta`, and `total_exact` at that delta, by replacement; by `T`."""
    k, p, clip = config.num_users, config.uniform, config.clips[-1]
    small = delta_prime(np.full(k, p))
    setting = theory.Round(k, p, clip, config.noise_variance, RECEIVER_NOISE)
    eps = theory.central_epsilon(setting, DELTA_LOCAL, small)
    delta = theory.central_delta(setting, DELTA_LOCAL, small)
    rows = []
    for t in config.iterations:
        total = theory.compose_heterogeneous(np.full(t, eps), delta, config.slack)
        rows.append((total.epsilon, total.delta, theory.rigorous_epsilon(setting, total.delta, rounds=t)))
    columns = zip(("total", "total_delta", "total_exact"), np.array(rows, float).T, strict=True)
    return xr.Dataset({name: ("T", values) for name, values in columns}, {"T": list(config.iterations)})


def audited(config: Config) -> xr.Dataset:
    """Measured `pair` and `removed` with the ends of their intervals, and what theory says at the same eps."""
    spec = config.pair
    pair = _interval("pair", "pair_eps", audit.replacement(spec, EPSILONS, config.seed))
    pair["pair_exact"] = "pair_eps", [float(theory.rigorous_delta(spec.setting, eps)) for eps in EPSILONS]
    claims = [_claimed(config.removed, clip) for clip in config.removed_clips]
    eps = np.array([claim.epsilon for claim, _ in claims])
    removed = _interval("removed", "removed_clip", audit.removal(config.removed, eps, config.seed))
    columns = {"eps": eps, "rigorous": [bound for _, bound in claims]} | {
        name: [float(getattr(claim, name)) for claim, _ in claims] for name in ("claimed", "exact")
    }
    removed |= {f"removed_{name}": ("removed_clip", values) for name, values in columns.items()}
    coordinates = {"pair_eps": EPSILONS, "removed_clip": list(config.removed_clips)}
    return xr.Dataset(pair | removed, coordinates)


def _interval(name: str, dim: str, found: audit.Measured) -> dict:
    parts = {"": found.found, "_low": found.low, "_high": found.high}
    return {name + part: (dim, values) for part, values in parts.items()}


def _claimed(spec: audit.Trials, clip: float) -> tuple[theory.Counterexample, float]:
    """Theorem 1's claim for this L and the exact delta without R; and delta for removal if R is revealed."""
    setting = spec.setting._replace(clip=clip)
    small = delta_prime(np.full(int(setting.num_users), setting.participation))
    claim = theory.removal_counterexample(setting, spec.num_params, DELTA_LOCAL, small)
    return claim, float(theory.rigorous_delta(setting, claim.epsilon, adjacency="removal"))
