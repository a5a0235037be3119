"""Users that do not know their channels, and a server that has the signals of several antennas.

The server may use each signal alone, so combining them hides nobody. All users send, which is public. If users add
noise, the figure is for the gains of the run, which depend on no data. If they add none and gains are new in each
round, the figure is averaged over the law of the gains.
"""

import numpy as np
import xarray as xr

from fedjax_priv.ledger.entry import Entry, Figure, Question, none
from fedjax_priv.ledger.over_the_air import ADJACENT, STAYS
from fedjax_priv.ledger.receiver_noise import (
    SAT_OUT,
    TOO_LOUD,
    coordinates_per_use,
    is_too_loud,
    receiver_alone,
    sat_out,
    variances,
)
from fedjax_priv.systems.releases import BlindUploads
from fedjax_priv.theory import wireless
from fedjax_priv.theory.neighbours import DISTANCE
from fedjax_priv.theory.sampled_gaussian import Neighbours

WHO = "the server, which has what all antennas hear, and may know all gains"
_UNCLAIMED = none("the paper claims no privacy")


def entries(release: BlindUploads, question: Question) -> list[Entry]:
    """Entries for the server, alone and with the last colluding users."""
    size = question.run.sizes["client"]
    seen = [("server", WHO, size)]
    if question.colluding:
        who = f"{WHO}, and the last {question.colluding} users, whose noise it knows"
        seen.append(("coalition", who, size - question.colluding))
    kinds: list[tuple[Neighbours, str]] = [("replacement", ADJACENT)]
    if receiver_alone(release):
        kinds.append(("zero-out", STAYS))
    return [
        Entry(
            who, adjacent, _UNCLAIMED, _proved(release, question, users, neighbours), view=view,
            neighbours=neighbours, gaussian=not is_averaged(release),
        )
        for view, who, users in seen
        for neighbours, adjacent in kinds
    ]  # fmt: skip


def is_averaged(release: BlindUploads) -> bool:
    """Whether the figure is averaged over the law of gains, instead of taken at the gains of the run."""
    return receiver_alone(release) and release.anew


def _proved(release: BlindUploads, question: Question, users: int, neighbours: Neighbours) -> Figure:
    """Of the first `users`."""
    if not float(np.asarray(release.receiver_noise)) > 0:
        return none("without noise of the receiver, gains that differ separate users")
    if sat_out(question.run) and not receiver_alone(release):
        return none(SAT_OUT)
    d, b = question.run.attrs["num_params"], release.amplitude
    b = float(np.asarray(b(d) if callable(b) else b))
    if not 0 < b < np.inf:
        return none("the amplitude is not a finite number above 0")
    if is_too_loud(release, b * np.sqrt(release.antennas) * question.run.gain.values.astype(np.float64)):
        return none(TOO_LOUD)
    if is_averaged(release):
        return _averaged(release, question, b, neighbours)
    return _of_this_run(release, question, users, b, neighbours)


def _averaged(release: BlindUploads, question: Question, b: float, neighbours: Neighbours) -> Figure:
    """Of the user that is received best, in all rounds."""
    shift = DISTANCE[neighbours] * b * float(release.clip)
    strongest = np.sqrt(np.max(np.asarray(release.link_power, np.float64)) / float(release.receiver_noise))
    rounds = question.run.sizes["round"]
    eps = wireless.antennas_epsilon(question.delta, shift * float(strongest), release.antennas, rounds=rounds)
    return Figure(float(eps), question.delta, "averaged over gains of all antennas, new in each round")


def _of_this_run(release: BlindUploads, question: Question, users: int, b: float, neighbours: Neighbours) -> Figure:
    """One Gaussian mechanism for each user, at the gains of this run."""
    h = gains(release, question.run)[:, :users]
    if not np.isfinite(h).all():
        return none("a gain is not finite")
    clip, receiver_noise = np.array([release.clip, release.receiver_noise], np.float64).tolist()
    about = lambda own: wireless.Round(users, 1.0, clip, own, receiver_noise)
    fewest = coordinates_per_use(release, question.run)
    each = {"amplitude": b, "neighbours": neighbours, "coordinates_per_use": fewest}
    rounds = zip(variances(release, question)[:, :users], h, strict=True)
    moved = np.array([wireless.antennas_sensitivity(about(own), one, **each) for own, one in rounds])
    eps = wireless.public_set_epsilon(question.delta, moved)
    why = "at the gains of this run: one Gaussian mechanism for each user, heard by all antennas"
    return Figure(eps, question.delta, why, lambda: wireless.public_set_epsilon_by_round(question.delta, moved))


def gains(release: BlindUploads, run: xr.Dataset) -> np.ndarray:
    """Complex gains of a run, `[T, n, M]`; without noise of users only their norms count, and antennas are alike."""
    if receiver_alone(release):
        size = run.gain.transpose("round", "client").values[..., None].astype(np.float64)
        return np.repeat(size, release.antennas, axis=2)
    stacked = run.antenna_gains.transpose("round", "client", ...).values.astype(np.float64)
    real, imaginary = np.split(stacked, 2, axis=2)
    return real + 1j * imaginary
