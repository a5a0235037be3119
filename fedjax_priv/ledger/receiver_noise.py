"""The receiver's noise over the air: at which level it hides users, where it is public who sends, and where alone."""

from typing import Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from fedjax_priv.layers.receive_level import Level, Levels, level_of
from fedjax_priv.ledger.entry import Figure, Question
from fedjax_priv.systems.releases import BlindUploads, OverTheAir
from fedjax_priv.theory import sampled_gaussian, wireless
from fedjax_priv.theory.sampled_gaussian import Neighbours


def levels(release: OverTheAir, run: xr.Dataset) -> np.ndarray:
    """c_t of each round, float64 `[T]`; NaN where a round could not be sent.

    Of `Levels` those that the run recorded count; where nobody could send the level does not matter, and is 1 here.
    """
    if isinstance(release.level, Levels):
        c = run["level"].transpose("round", "client").values[:, 0].astype(np.float64)
        nobody = (run["join_probability"].transpose("round", "client").values == 0).all(1)
        return np.where(nobody & ~np.isfinite(c), 1.0, c)
    if not callable(release.level):
        return np.full(run.sizes["round"], float(np.asarray(release.level, np.float64)))
    rounds = jnp.asarray(run["round"].values - 1, jnp.int32)
    each = [
        level_of(cast(Level, release.level), *of)
        for of in zip(rounds, jnp.asarray(run.gain.values, jnp.float32), strict=True)
    ]
    return np.asarray(jax.device_get(each), np.float64)


def coordinates_per_use(release: OverTheAir | BlindUploads, run: xr.Dataset) -> Literal[1, 2]:
    """Coordinates of every complex use at least, each with a user's noise: 1 where the last of an odd d is alone.

    Noise of users lies along their coefficients there, and an update may lie there alone too.
    """
    return 2 if release.coordinates_per_use == 2 and run.attrs["num_params"] % 2 == 0 else 1


def is_alone(release: OverTheAir) -> bool:
    """Whether users add no noise, so that the receiver's is all there is."""
    return not np.any(np.asarray(release.noise_variance))


SAT_OUT = "clients sat out who would have added noise, and the accountant counts on those that join"


def sat_out(run: xr.Dataset) -> bool:
    """Whether a client was drawn and refused to train, so that its noise is missing too."""
    return "sat_out" in run and bool(run["sat_out"].any())


def _power(release: OverTheAir, run: xr.Dataset, size: int) -> np.ndarray:
    """P_k, energy of a round, `[size]`; there is a limit."""
    return np.broadcast_to(np.asarray(release.power, np.float64), run.gain.shape[1])[:size] * run.attrs["num_params"]


def received(release: OverTheAir, run: xr.Dataset, size: int, about: wireless.Round, c: np.ndarray) -> np.ndarray:
    """What arrives of a user over c_t L at most, `[T, size]`, where power alone limits it and no noise is scaled."""
    gain, alone = run.gain.values[:, :size].astype(np.float64), is_alone(release)
    if release.power is None or not (alone or release.control == "bound"):
        return np.ones_like(gain)
    power = _power(release, run, size) / c[:, None] ** 2
    if alone:
        return np.asarray(wireless.received_at_most(about, gain=gain, power=power))
    return np.asarray(wireless.limited_amplitudes(about, gain, power, run.attrs["num_params"]))


def public_senders(
    release: OverTheAir, question: Question, p: np.ndarray, about: wireless.Round, c: np.ndarray, neighbours: Neighbours
) -> Figure:
    """Every p_k is 0 or 1: one Gaussian mechanism for each user."""
    a = received(release, question.run, p.shape[1], about, c)
    scaled = a if release.power is not None and release.control == "bound" else 1.0  # "signal" keeps noise whole
    moved = wireless.public_set_sensitivity(
        about, p == 1, level=c, amplitudes=a, noise_amplitudes=scaled, neighbours=neighbours
    )
    eps = wireless.public_set_epsilon(question.delta, moved)
    why = f"public who sends: one Gaussian mechanism for each user ({neighbours})"
    by_round = lambda: wireless.public_set_epsilon_by_round(question.delta, moved)
    return Figure(eps, question.delta, why, by_round)


def hidden_count(
    question: Question, p: np.ndarray, about: wireless.Round, least: np.ndarray, neighbours: Neighbours
) -> Figure:
    """Coins and their number unseen: the Poisson-sampled Gaussian mechanism, of the user that joins most.

    `least` is N0 over the square of the level at which the strongest user arrives, `[T]`.
    """
    multiplier = np.sqrt(least) / float(about.clip)
    kinds = [(sampled_gaussian.Round(z, q), 1) for z, q in zip(multiplier.tolist(), p.max(1).tolist(), strict=True)]
    merged = _merged(kinds)
    eps = sampled_gaussian.epsilon(question.delta, merged, neighbours)
    why = f"no noise of users, senders and their number unseen; all users send pilots ({neighbours})"
    by_round = lambda: sampled_gaussian.epsilon_by_round(question.delta, merged, neighbours)
    return Figure(float(eps), question.delta, why, by_round)


def _merged(kinds: list[tuple[sampled_gaussian.Round, int]]) -> list[tuple[sampled_gaussian.Round, int]]:
    """Rounds of one kind that follow one another, together."""
    found = kinds[:1]
    for one, _ in kinds[1:]:
        last, count = found[-1]
        found = [*found[:-1], (last, count + 1)] if one == last else [*found, (one, 1)]
    return found
