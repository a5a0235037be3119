"""Noise of the server that is correlated over rounds: the figure of one adversary for all rounds together.

The whole run is one Gaussian mechanism, whose sensitivity depends on how often a client takes part and how far apart:
on what the draw enforces, never on what happened. A round that failed uses up a row of the noise and a turn of its
clients, so attempts are counted.
"""

import functools
from typing import Any

import numpy as np

from fedjax_priv.ledger.entry import Figure, none, worst
from fedjax_priv.ledger.sampled_rounds import round_of
from fedjax_priv.server_noise import correlations
from fedjax_priv.systems.releases import CentralNoise
from fedjax_priv.theory import correlated_noise, gaussian, sampled_gaussian
from fedjax_priv.theory.correlated_noise import Schedule
from fedjax_priv.theory.sampled_gaussian import Neighbours

SEPARATING = {"cyclic_poisson", "separated"}
"""Samplings that keep two rounds of a client apart."""
OF_FIXED_SIZE = {"fixed_size", "separated"}
_LARGEST = 1e140
"""Of a coefficient: the sum of its squares over all rounds is then a number in float64."""


def figure(release: CentralNoise, num_rounds: int, delta: float, neighbours: Neighbours, *, hidden: bool) -> Figure:
    """Eps of all rounds for an adversary that sees the noisy sums, or "none" and why.

    Args:
      release: of a system with `correlation`.
      num_rounds: attempts at rounds, failed ones included.
      delta: in (0, 1).
      neighbours: "add/remove", "zero-out" or "replacement" of a client.
      hidden: the adversary does not know who takes part: coins of groups in turn then amplify privacy.
    """
    if why := _uncovered(release):
        return none(why)
    schedule = Schedule(num_rounds, release.participation.separation)
    amplified = _by_coins(release, schedule, delta, neighbours) if hidden else None
    whole = _as_one_mechanism(release, schedule, delta, neighbours)
    if amplified is None or whole.epsilon is None:
        return amplified or whole
    return min(amplified, whole, key=lambda one: worst(one) or 0.0)


def _as_one_mechanism(release: CentralNoise, schedule: Schedule, delta: float, neighbours: Neighbours) -> Figure:
    """Without sampling, which holds whoever knows who takes part, as long as others do not take a client's place."""
    who, z = release.participation, float(np.asarray(release.noise_multiplier))
    if neighbours == "add/remove" and (who.sampling in OF_FIXED_SIZE or who.capacity is not None):
        return none("another client has the place of one that is not there: see zero-out")
    k, moved = -(-schedule.num_rounds // who.separation), sensitivity(release.correlation, schedule)
    if not np.isfinite(moved):
        return none(f"the sensitivity of {schedule.num_rounds} rounds is beyond float64: the inverse given is unstable")
    mu = float(correlated_noise.mu(z, moved, "replacement" if neighbours == "replacement" else "zero-out"))
    why = (
        f"one Gaussian mechanism for {schedule.num_rounds} rounds, mu = {mu:.4g}: sensitivity {moved:.5g} of {k} "
        f"rounds of a client at least {who.separation} apart, z = {z:.5g} (Denisov et al. 2022)"
    )
    return Figure(float(gaussian.epsilon(delta, mu)), delta, why)


def sensitivity(correlation: Any, schedule: Schedule) -> float:
    """Of the matrix that a process states; inf where float64 has no such number.

    Raises:
      ValueError: its type is not known.
    """
    if isinstance(correlation, correlations.Trees):
        return correlated_noise.tree_sensitivity(schedule, correlation.leaves)
    column = column_of(correlation, schedule.num_rounds)
    if not np.abs(column).max() < _LARGEST:
        return np.inf
    return correlated_noise.toeplitz_sensitivity(column, schedule)


def column_of(correlation: Any, num_rounds: int) -> np.ndarray:
    """The first column of a Toeplitz C, `[bands]` or `[n]`.

    Raises:
      ValueError: it is no type of such a matrix.
    """
    match correlation:
        case correlations.Banded(coefficients):
            return np.array(coefficients)
        case correlations.BandedInverse(coefficients):
            return correlated_noise.column_of_inverse(coefficients, num_rounds)
        case correlations.BufferedToeplitz(weights, decays):
            return correlated_noise.buffered_column(weights, decays, num_rounds)
        case _:
            raise ValueError(f"correlation must be a type of server_noise.correlations, got {correlation!r}")


def noise_rows(correlation: Any, num_rounds: int) -> np.ndarray:
    """The noise of each round in seeds, `[n, m]`, of the process that states this.

    Raises:
      ValueError: its type is not known.
    """
    if isinstance(correlation, correlations.Trees):
        return correlated_noise.tree_rows(num_rounds, *correlation)
    return correlated_noise.toeplitz_rows(column_of(correlation, num_rounds), num_rounds)


def _uncovered(release: CentralNoise) -> str:
    """Why no theorem covers the release; "" if one does."""
    who = release.participation
    if not np.all(np.asarray(release.noise_multiplier) > 0):
        return "no noise is added"
    if not isinstance(release.correlation, correlations.Correlation):
        return f"nothing is known of the noise's correlation, {type(release.correlation).__name__}"
    if who.separation > 1 and who.sampling not in SEPARATING:
        return f"{who.sampling} sampling does not keep two rounds of a client {who.separation} apart"
    return ""


def amplified(release: CentralNoise) -> bool:
    """Whether coins that nobody sees amplify privacy."""
    who, about = release.participation, release.correlation
    if who.sampling not in ("cyclic_poisson", "poisson"):
        return False
    return isinstance(about, correlations.Banded) and len(about.coefficients) <= who.separation


def _by_coins(release: CentralNoise, schedule: Schedule, delta: float, neighbours: Neighbours) -> Figure | None:
    """The figure of cyclic Poisson sampling, where it applies."""
    who, about = release.participation, release.correlation
    if not amplified(release):
        return None
    ((one, k),) = correlated_noise.by_coins(round_of(release), about.coefficients, schedule)
    proof = "; replacement: theory.sampled_gaussian.rounds" if neighbours == "replacement" else ""
    why = (
        f"{k} rounds by coins of rate {who.rate:g} in {who.separation} groups, z over the norm of a column "
        f"{one.noise_multiplier:.5g} (Choquette-Choo et al. 2023{proof})"
    )
    return Figure(_composed(one, k, delta, neighbours), delta, why)


@functools.lru_cache(maxsize=256)
def _composed(one: sampled_gaussian.Round, k: int, delta: float, neighbours: Neighbours) -> float:
    """Eps after k rounds; asked again for other numbers of rounds of the same k."""
    return float(sampled_gaussian.epsilon(delta, [(one, k)], neighbours))
