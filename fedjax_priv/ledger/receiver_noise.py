"""The receiver's noise over the air: levels of a run, what is public of who sends, figures of this noise alone."""

import itertools
from typing import Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from fedjax_priv.layers.fixed_point import MAX_FIXED_POINT
from fedjax_priv.layers.receive_level import Level, Levels, level_of
from fedjax_priv.ledger.entry import Figure, Question
from fedjax_priv.ledger.gaussian_uploads import gaussian_uploads, of_clients
from fedjax_priv.ledger.local_noise import FAR
from fedjax_priv.systems.releases import BlindUploads, OverTheAir
from fedjax_priv.theory import _by_user, sampled_gaussian, wireless
from fedjax_priv.theory._validate import Change
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


def receiver_alone(release: OverTheAir | BlindUploads) -> bool:
    """Whether users add no noise, so that the receiver's is all there is."""
    return not np.any(np.asarray(release.noise_variance))


def variances(release: OverTheAir | BlindUploads, question: Question) -> np.ndarray:
    """sigma^2 of the own noise of each place of the cohorts, `[T, K]`."""
    each = np.broadcast_to(np.asarray(release.noise_variance, np.float64), question.count.size)
    return each[question.run.client_id.values]


SAT_OUT = "clients sat out who would have added noise, and the accountant counts on those that join"
TOO_LOUD = (
    "an update may arrive so strong that it fails the round, which tells of it alone: give a lower level and less noise"
)
GAIN_MISSING = "a gain is not finite, and the power limit asks for it"
ABSENT = "a client that joins for sure did not send, and the accountant counts on its noise"


def sat_out(run: xr.Dataset) -> bool:
    """Whether a client was drawn and refused to train, so that its noise is missing too."""
    return "sat_out" in run and bool(run["sat_out"].any())


def is_too_loud(release: OverTheAir | BlindUploads, amplitude: np.ndarray) -> bool:
    """Whether an update with its own noise, received at one of these amplitudes, may leave the range of the sum.

    Its sender then says so, and the round fails (`layers.waveform`).
    """
    longest = float(release.clip) + FAR * float(np.sqrt(np.max(np.asarray(release.noise_variance, np.float64))))
    return bool((amplitude * longest >= MAX_FIXED_POINT).any())


def is_absent(run: xr.Dataset, p: np.ndarray) -> bool:
    """Whether one of the first K users, of probabilities `[T, K]`, did not send in a round for which its p_k is 1."""
    missing = ~run["counted"].values[:, : p.shape[1]] & (run["status"].values == 0)[:, None]
    return bool((missing & (p == 1)).any())


def probabilities(run: xr.Dataset) -> np.ndarray:
    """p_k of each place of the cohorts, float64 `[T, K]`."""
    return run["join_probability"].values.astype(np.float64)


def _power(release: OverTheAir, question: Question) -> np.ndarray:
    """P_k, energy of a round, of each place of the cohorts, `[T, K]`; there is a limit."""
    each = np.broadcast_to(np.asarray(release.power, np.float64), question.count.size)
    return each[question.run.client_id.values] * question.run.attrs["num_params"]


def is_gain_missing(release: OverTheAir, run: xr.Dataset) -> bool:
    """Whether power limits what arrives, and the gain of a user that may send is not known."""
    return release.power is not None and not np.isfinite(run.gain.values[probabilities(run) > 0]).all()


def received(release: OverTheAir, question: Question, about: wireless.Round, c: np.ndarray) -> np.ndarray:
    """What arrives of a user's update over c_t L at most, `[T, K]`; under "gradient", where users add no noise."""
    run, alone = question.run, receiver_alone(release)
    gain = np.where(probabilities(run) > 0, run.gain.values.astype(np.float64), 0)
    if release.power is None:
        return np.ones_like(gain)
    power = _power(release, question) / c[:, None] ** 2
    if not alone and release.control == "bound":
        return np.asarray(wireless.limited_amplitudes(about, gain, power, run.attrs["num_params"]))
    left = gain**2 * power
    if not alone:  # float32 rounds the difference up by at most as much as this
        noise = run.attrs["num_params"] * np.asarray(about.noise_variance)
        left = np.maximum((1 + 2.0**-20) * left - noise, 0)
    return np.asarray(wireless.received_at_most(about._replace(noise_variance=0.0), gain=1.0, power=left))


def received_noise(release: OverTheAir, received: np.ndarray) -> np.ndarray:
    """What arrives of a user's noise over c_t, where so much arrives of its update: all of it under "signal"."""
    return np.ones_like(received) if release.control == "signal" and not receiver_alone(release) else received


def public_senders(
    release: OverTheAir, question: Question, size: int, about: wireless.Round, c: np.ndarray, neighbours: Change
) -> Figure:
    """Every p_k of the first `size` places is 0 or 1: one Gaussian mechanism for each user. Others add no noise."""
    a = received(release, question, about, c)
    moved = wireless.public_set_sensitivity(
        about, probabilities(question.run) > 0, level=c, amplitudes=a,
        noise_amplitudes=received_noise(release, a) * (np.arange(a.shape[1]) < size), neighbours=neighbours,
    )  # fmt: skip
    why = f"public who sends: one Gaussian mechanism for each user ({neighbours})"
    return gaussian_of_clients(question, moved, size, why)


def public_links(question: Question, size: int, about: wireless.Round, c: np.ndarray) -> Figure:
    """`public_senders` where the server sees each link: only a user's own noise and the receiver's hide its update."""
    noise = np.asarray(about.noise_variance) + about.receiver_noise / c[:, None] ** 2
    with np.errstate(divide="ignore"):
        moved = np.where(probabilities(question.run) > 0, 2 * about.clip / np.sqrt(noise), 0)
    return gaussian_of_clients(question, moved, size, "public who sends, each link seen alone (replacement)")


def gaussian_of_clients(question: Question, moved: np.ndarray, size: int, why: str) -> Figure:
    """One Gaussian mechanism for each user, which moves what arrives by `moved` `[T, K]` over the noise.

    Users in places from `size` on collude. Of a cohort that is all clients they are always the same and have no figure;
    else others are in these places in other rounds.
    """
    client = question.run.client_id.values
    if client.shape[1] == question.count.size:
        return of_clients(question, moved[:, :size], client[:, :size], size, why)
    return gaussian_uploads(question, moved, why)


def hidden_count(
    question: Question, p: np.ndarray, about: wireless.Round, reach: np.ndarray, neighbours: Neighbours
) -> Figure:
    """Coins and their number unseen: Poisson-sampled Gaussian mechanisms, of each user's own rounds.

    `p` is of users and `reach` is the amplitude over L at which they arrive, both `[T, K]`.
    """
    noise = float(np.sqrt(about.receiver_noise)) / float(about.clip)
    users = [_kinds(noise, *own) for own in _by_user.own_rounds(np.stack([p, reach]))]
    eps = max(float(sampled_gaussian.epsilon(question.delta, kinds, neighbours)) for kinds in users)
    why = f"no noise of users, senders and their number unseen; all users send pilots ({neighbours})"
    by_round = lambda kinds: sampled_gaussian.epsilon_by_round(question.delta, kinds, neighbours)
    return Figure(eps, question.delta, why, lambda: np.max(list(map(by_round, users)), axis=0))


def _kinds(noise: float, p: np.ndarray, reach: np.ndarray) -> list[tuple[sampled_gaussian.Round, int]]:
    """Rounds of a user; those of one kind that follow one another, together."""
    kinds = [
        sampled_gaussian.Round(noise / far, chance) if far > 0 and chance > 0 else sampled_gaussian.Round(rate=0.0)
        for chance, far in zip(p.tolist(), reach.tolist(), strict=True)
    ]
    return [(kind, len(list(alike))) for kind, alike in itertools.groupby(kinds)]
