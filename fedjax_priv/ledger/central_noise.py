"""DP-FedAvg: Gaussian noise of the server on sums of clipped updates.

The server adds the noise, so nothing protects a client from the server. Everybody else sees one Gaussian mechanism per
round, of multiplier z, adaptive clipping included (Andrew, Thakkar, McMahan and Ramaswamy 2021, Theorem 1). Sampling
amplifies privacy only against adversaries that do not see who takes part. It does so only if clients keep no state,
because later updates that depend on this state show that the client took part. A lost update counts as that of a client
that was not sampled. Every attempt at a round counts, but to those who see who takes part one with too few uploads to
open a secure sum.
"""

import functools
from collections.abc import Callable

import numpy as np
import xarray as xr

from fedjax_priv.ledger import correlated_noise
from fedjax_priv.ledger.by_client import came, rounds_apart, spent_by_client
from fedjax_priv.ledger.entry import FORGETTING, Entry, Figure, Question, no_guarantee, none, worst
from fedjax_priv.ledger.prefixes import by_prefix
from fedjax_priv.ledger.sampled_rounds import hidden_by_coins, round_of
from fedjax_priv.systems.releases import CentralNoise, Participation
from fedjax_priv.theory import gaussian, sampled_gaussian
from fedjax_priv.theory.neighbours import ANY_DISTANCE
from fedjax_priv.theory.sampled_gaussian import Neighbours, Round

ADJACENT: dict[Neighbours, str] = {
    "add/remove": "add/remove: a client is in the population or not",
    "zero-out": "zero-out: what a client sends is 0 or not",
    "replacement": "replacement: all that a client holds is anything else",
}
HERE = "proved in theory.sampled_gaussian.rounds; no proof in print that we know of"
ROW: dict[tuple[str, Neighbours], str] = {
    ("poisson", "add/remove"): "Theorem 11 of Zhu, Dong and Wang 2022",
    ("poisson", "zero-out"): "Theorem 11 of Zhu, Dong and Wang 2022",
    ("poisson", "replacement"): HERE,
    ("fixed size", "add/remove"): "Theorem 11 of Zhu, Dong and Wang 2022",
    ("fixed size", "replacement"): "Zhu, Dong and Wang 2022, both orders at each eps",
    ("fixed size", "zero-out"): HERE,
}
"""Where each row is proved."""
EXACT = "Gaussian mechanisms, exact (Balle and Wang 2018)"
OUTSIDER = "an outsider, who sees all models and not who takes part"
CLIENT = "a client of the round, or anybody else who sees who takes part"


_Seen = Callable[[Neighbours], Figure]
"""What an adversary sees of all rounds."""


def entries(release: CentralNoise, question: Question) -> list[Entry]:
    """Entries for an outsider, for a client of the round, and for the server; one for each kind of adjacent inputs."""
    z = float(release.noise_multiplier)
    if not z:
        return [no_guarantee("anybody", ADJACENT["replacement"], "updates are clipped and no noise is added")]
    apart, least = rounds_apart(question.run), release.participation.separation
    if apart < least:
        why = f"a client came again after {apart:.0f} rounds, and the accountant counts on {least}"
        return [no_guarantee("anybody", ADJACENT["replacement"], why)]
    same_cohort: list[Neighbours] = ["zero-out", "replacement"]
    known = _known(release, question) if release.correlation is None else _correlated(release, question, hidden=False)
    hidden = _outside(release, question)
    outside = (known, same_cohort) if hidden is None else (hidden, _neighbours(release))
    whole = lambda each: _gaussian_for(release, each, hidden=hidden is not None)
    return [
        *(_entry("outsider", OUTSIDER, outside[0](each), each, whole(each)) for each in outside[1]),
        *(
            _entry("device", CLIENT, known(each), each, _gaussian_for(release, each, hidden=False))
            for each in same_cohort
        ),
        seen_by_server("the exact sum" if release.secure else "every update"),
    ]


def _entry(view: str, who: str, proved: Figure, neighbours: Neighbours, whole: bool) -> Entry:
    claim = none("no figure of the paper is for this run")
    gaussian = whole and proved.epsilon is not None
    return Entry(who, ADJACENT[neighbours], claim, proved, view=view, gaussian=gaussian, neighbours=neighbours)


def _gaussian_for(release: CentralNoise, neighbours: Neighbours, *, hidden: bool) -> bool:
    """Whether the figure of all rounds is that of one Gaussian mechanism, whoever takes part."""
    if release.correlation is not None:
        return not (hidden and correlated_noise.amplified(release))
    return release.participation.sampling == "everyone" or (hidden and release.participation.sampling == "separated")


def turns(how: Participation, rounds: np.ndarray | int) -> np.ndarray:
    """In how many of so many rounds a client can take part."""
    return -(-np.asarray(rounds) // how.separation)


def _neighbours(release: CentralNoise) -> list[Neighbours]:
    """Those that mean something: who comes decides if a secure sum is opened, and who else can come after a client."""
    if release.secure or release.participation.sampling == "separated":
        return ["zero-out", "replacement"]
    fixed = release.participation.sampling == "fixed_size"
    return ["add/remove", *(["zero-out"] if fixed else []), "replacement"]


def _outside(release: CentralNoise, question: Question) -> _Seen | None:
    """None where the cohort counts as known."""
    how = release.participation
    if how.sampling not in ("everyone", "separated") and (
        question.steps is None or question.steps.form not in FORGETTING or not hidden_by_coins(release)
    ):
        return None
    if release.correlation is not None:
        return _correlated(release, question, hidden=True)
    z, rounds = float(release.noise_multiplier), turns(how, np.arange(1, question.run.sizes["round"] + 1))
    if how.sampling in ("everyone", "separated"):
        return _gaussian(question.delta, z, rounds, f"in at most {rounds[-1]} of {rounds.size} rounds")
    return functools.partial(_sampled, round_of(release), rounds, question.delta)


def _sampled(one: Round, turns: np.ndarray, delta: float, neighbours: Neighbours) -> Figure:
    rounds = [(one, int(turns[-1]))]
    source = ROW[one.sampling, neighbours] if one.capacity is None is one.quorum else HERE
    why = f"{one.sampling} sampling of {one.rate:.4g}, unseen: {source}"
    by_round = lambda: sampled_gaussian.epsilon_by_round(delta, rounds, neighbours)[turns - 1]
    return Figure(float(sampled_gaussian.epsilon(delta, rounds, neighbours)), delta, why, by_round)


def _correlated(release: CentralNoise, question: Question, *, hidden: bool) -> _Seen:
    delta, total = question.delta, question.run.sizes["round"]

    def seen(neighbours: Neighbours) -> Figure:
        after = lambda rounds: correlated_noise.figure(release, rounds, delta, neighbours, hidden=hidden)
        return after(total)._replace(by_round=lambda: by_prefix(total, lambda rounds: worst(after(rounds))))

    return seen


def _known(release: CentralNoise, question: Question) -> _Seen:
    """A Gaussian mechanism in each round in which the client takes part."""
    fewest = 1 if release.masks is None else release.masks.quorum.threshold
    taken, most = _taken(question.run, question.count.size, fewest)
    return _gaussian(question.delta, float(release.noise_multiplier), most, "no amplification by sampling", taken)


def _taken(run: xr.Dataset, num_clients: int, fewest: int) -> tuple[np.ndarray, np.ndarray]:
    """Rounds in which each client's upload arrived, `[n]`, and the most of any client after each round, `[rounds]`.

    Where fewer than `fewest` arrive, no sum is opened and noise alone is released.
    """
    there = came(run)
    return spent_by_client(there & (there.sum(1, keepdims=True) >= fewest), run.client_id.values, num_clients)


def _gaussian(delta: float, z: float, most: np.ndarray, why: str, taken: np.ndarray | None = None) -> _Seen:
    """Of `most` rounds of a client so far, `[rounds]`, and all rounds of each, `[n]`, where they differ."""

    def at(rounds: np.ndarray, neighbours: Neighbours) -> np.ndarray:
        number, which = np.unique(rounds, return_inverse=True)
        return np.atleast_1d(gaussian.epsilon(delta, ANY_DISTANCE[neighbours] * np.sqrt(number) / z))[which]

    def seen(neighbours: Neighbours) -> Figure:
        eps, about = at(most[-1:] if taken is None else taken, neighbours), f"{EXACT}; {why}"
        return Figure(eps, delta, about, functools.partial(at, most, neighbours))

    return seen


def seen_by_server(what: str) -> Entry:
    """Nothing protects from the server, which sees this before its noise."""
    return no_guarantee("the server, which adds the noise", ADJACENT["replacement"], f"it sees {what}")
