"""Users that do not know their gains: they arrive with complex coefficients u, and the server has the complex signal.

The server may learn u and rotate the signal by it, so |u| counts, which may be above 1. The noise of a user lies along
its u if a complex use carries one coordinate, and in all directions if it carries two. No figure assumes that users
know their gains.
"""

import functools

import numpy as np

from fedjax_priv.channels.knowledge import Pilots
from fedjax_priv.layers.receive_level import Levels
from fedjax_priv.ledger.by_client import spent_by_client
from fedjax_priv.ledger.entry import Entry, Figure, Question, none
from fedjax_priv.ledger.receiver_noise import (
    ABSENT,
    GAIN_MISSING,
    SAT_OUT,
    TOO_LOUD,
    coordinates_per_use,
    gaussian_of_clients,
    is_absent,
    is_gain_missing,
    is_too_loud,
    levels,
    probabilities,
    received,
    receiver_alone,
    sat_out,
    variances,
)
from fedjax_priv.systems.releases import OverTheAir
from fedjax_priv.theory import wireless

ADJACENT = "all that one user holds is replaced, and its loss and update stay finite"
STAYS = "one user stays and sends 0 in place of its update"
WHO = "the server, which has the complex signal, and may know true and estimated gains"
_UNCLAIMED = none("the paper's eps is about gains that are known")


def entries(release: OverTheAir, question: Question) -> list[Entry]:
    """Entries for the server, alone and with the last colluding users."""
    seen = [("server", WHO, question.run.sizes["client"])]
    if question.colluding:
        who = f"{WHO}, and the last {question.colluding} users, whose noise it knows"
        seen.append(("coalition", who, question.run.sizes["client"] - question.colluding))
    kinds = [("replacement", ADJACENT, 1.0), *([("zero-out", STAYS, 0.5)] if receiver_alone(release) else [])]
    return [
        Entry(who, adjacent, _UNCLAIMED, _proved(release, question, size, factor), view=view, neighbours=neighbours)
        for view, who, size in seen
        for neighbours, adjacent, factor in kinds
    ]


def _proved(release: OverTheAir, question: Question, size: int, factor: float) -> Figure:
    """Of the first `size` users; `factor` 1/2 of the shift where a user sends 0."""
    p = probabilities(question.run)
    if why := _missing(release, question, p[:, :size]):
        return none(why)
    c = levels(release, question.run)
    if not ((c > 0) & (c < np.inf)).all():
        return none("a level is not a finite number above 0")
    if is_too_loud(release, c[:, None] * np.fmax(1, np.abs(_coefficients(question)))):
        return none(TOO_LOUD)
    if _is_averaged(release):
        return _averaged(release, question, p > 0, float(c[0]) * factor)
    return _of_this_run(release, question, p > 0, size, c, factor)


def _missing(release: OverTheAir, question: Question, p: np.ndarray) -> str:
    """Why there is no guarantee; empty if there is one."""
    if not np.isin(p, (0, 1)).all():
        return "users toss coins and do not know their gains: no accountant"
    if not float(np.asarray(release.receiver_noise)) > 0:
        return "without noise of the receiver, whose noise lies along which u decides all"
    if release.power is not None and not receiver_alone(release) and release.control != "signal":
        return "the power limit scales the noise of users that do not know their gains: no accountant"
    if receiver_alone(release):
        return ""
    return SAT_OUT if sat_out(question.run) else ABSENT if is_absent(question.run, p) else ""


def _is_averaged(release: OverTheAir) -> bool:
    """Whether the law of |u| is known, and the same in every round.

    A level that may follow the gains tells of them, and of a weak gain u errs more.
    """
    known, least = release.knowledge, release.truncation
    if callable(release.level) or isinstance(release.level, Levels):
        return False
    alike = isinstance(known, Pilots) and known.rayleigh and receiver_alone(release)
    return alike and least is not None and np.ndim(least) == 0 and float(np.asarray(least)) > 0


def _averaged(release: OverTheAir, question: Question, sends: np.ndarray, level: float) -> Figure:
    """Least squares at g is MMSE at g / (1 + v)^2, over 1 + v."""
    known, v = release.knowledge, float(np.asarray(release.knowledge.error, np.float64))
    shrunk = 1.0 if known.estimator == "mmse" else 1 + v
    s = 2 * level * float(release.clip) / np.sqrt(float(release.receiver_noise)) / shrunk
    g = float(np.asarray(release.truncation)) / shrunk**2
    most = int(spent_by_client(sends, question.run.client_id.values, question.count.size)[0].max())
    of = functools.partial(wireless.estimated_channel_epsilon, question.delta, s, error=v, threshold=g)
    eps = of(rounds=most) if most else 0.0
    why = f"averaged over the errors of estimates, of the user that sends most, {most} times"
    return Figure(float(eps), question.delta, why)


def _coefficients(question: Question) -> np.ndarray:
    """u of each place of the cohorts, `[T, K]`."""
    part = lambda name: question.run[name].values.astype(np.float64)
    return part("coefficient_real") + 1j * part("coefficient_imaginary")


def _of_this_run(
    release: OverTheAir, question: Question, sends: np.ndarray, size: int, c: np.ndarray, factor: float
) -> Figure:
    """One Gaussian mechanism for each user, at the coefficients of this run; noise of those from `size` on is known."""
    u = _coefficients(question)
    if not np.isfinite(u[sends]).all():
        return none("a coefficient is not finite")
    if is_gain_missing(release, question.run):
        return none(GAIN_MISSING)
    clip, receiver_noise = np.array([release.clip, release.receiver_noise], np.float64).tolist()
    own = variances(release, question)
    about = wireless.Round(sends.shape[1], 1.0, clip, own, receiver_noise)
    per_use = coordinates_per_use(release, question.run)

    def of(t: int, places: np.ndarray) -> np.ndarray:
        one = about._replace(noise_variance=own[t, places])
        return wireless.known_coefficients_sensitivity(
            one, u[t, places], level=float(c[t]), coordinates_per_use=per_use
        )

    moved, honest = np.zeros(u.shape), np.arange(sends.shape[1]) < size
    for t, there in enumerate(sends):
        heard = np.flatnonzero(there & honest)
        if heard.size:
            moved[t, heard] = of(t, heard)
        for place in np.flatnonzero(there & ~honest):  # as if it did not collude, but the others do
            moved[t, place] = of(t, np.append(heard, place))[-1]
    why = "at the true and estimated gains of this run: one Gaussian mechanism for each user, in the complex signal"
    return gaussian_of_clients(question, factor * received(release, question, about, c) * moved, size, why)
