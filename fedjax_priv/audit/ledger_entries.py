"""An audit of every entry of a system's privacy ledger: adjacent inputs, as the entry's adversary sees them."""

from collections.abc import Sequence
from typing import NamedTuple

import jax

from fedjax_priv.audit.bounds import two_worlds
from fedjax_priv.audit.by_release import Kind, Subject, num_params
from fedjax_priv.audit.learned_score import with_learned
from fedjax_priv.audit.looks import looks
from fedjax_priv.audit.worlds import Look, Score, Worlds, scores
from fedjax_priv.base import Key
from fedjax_priv.keys import named
from fedjax_priv.ledger import Entry, Figure, worst

_AT_ONCE, _WORK = 1000, 2**21
"""Most rounds computed side by side, and numbers of their updates."""


class Finding(NamedTuple):
    """The result of an audit of one ledger entry."""

    adversary: str
    adjacent: str
    look: str  # that showed the most
    claimed: float | None  # eps, None where there is no guarantee
    proved: float | None
    at_least: float  # eps, at this delta and confidence
    delta: float
    confidence: float
    limit: float  # the largest eps that so many trials could have shown
    counted: str
    contradicts: list[str]  # "claimed", "proved", "held"
    view: str = "server"  # as in `Entry`


def findings(
    subject: Subject,
    entries: Sequence[Entry],
    key: Key,
    *,
    trials: int,
    rounds: int = 1,
    delta: float,
    confidence: float = 0.95,
    kind: Kind | None = None,
    colluding: int = 0,
    outsider: bool = False,
    held: float | None = None,
) -> list[Finding]:
    """Audits each entry with runs on two adjacent inputs.

    Of all that its adversary tries, what shows the most counts: its looks share the probability of error.

    Args:
      subject: the system, of which `entries` is the ledger for as many rounds.
      entries: at `delta`.
      key: of all runs.
      trials: runs on each input.
      rounds: of a run.
      delta: of the bound that is reported; a figure at another delta is compared with a bound at that one.
      confidence: of each comparison.
      kind: of the canary: an update in a random direction in place of local training, or a sample, or a sample with
        another label, and true local training. "label" where the system's noise is in local training, "direction"
        elsewhere, if not given.
      colluding: as in `ledger`.
      outsider: look through the eyes of who sees the released models only, whoever the entry is about.
      held: an eps to test, in addition to the figures of the ledger.

    Raises:
      ValueError: an argument outside its range, or a canary without local training where the noise is in it.
    """
    about = {"kind": kind, "rounds": rounds, "colluding": colluding, "outsider": outsider, "held": held}
    tried = looks(subject, entries, named(key, "canary"), **about)
    seen = _seen(subject, [look for mine in tried for look in mine], key, trials, rounds)
    result = []
    for entry, mine in zip(entries, tried, strict=True):
        share = 1 - (1 - confidence) / len(mine)
        own = [seen.pop(0) for _ in mine]
        result.append(_finding(entry, mine, own, delta, confidence, share, held, outsider))
    return result


def _seen(subject: Subject, tried: Sequence[Look], key: Key, trials: int, rounds: int) -> list[Worlds]:
    """Scores of each look; those with the same canary share their runs."""
    size, make = int(subject.data.count.size) * num_params(subject), subject.unmasked or subject.make
    found: list[Worlds] = [Worlds(None, None)] * len(tried)
    for number, canary in enumerate({id(look.canary): look.canary for look in tried}.values()):
        mine = [i for i, look in enumerate(tried) if look.canary is canary]
        worlds = scores(
            make, canary, _together([tried[i].score for i in mine]), jax.random.fold_in(key, number),
            params=subject.params, trials=trials, rounds=rounds, at_once=max(1, min(_AT_ONCE, _WORK // size)),
        )  # fmt: skip
        for i, *own in zip(mine, *worlds, strict=True):
            found[i] = with_learned(Worlds(*own))
    return found


def _together(several: Sequence[Score]) -> Score:
    return lambda seen: tuple(score(seen) for score in several)


def _finding(
    entry: Entry,
    tried: Sequence[Look],
    seen: Sequence[Worlds],
    delta: float,
    confidence: float,
    share: float,
    held: float | None,
    outsider: bool,
) -> Finding:
    """`share`: confidence of each look, so that all of them hold with `confidence`."""
    bounds = [two_worlds(*worlds, delta=delta, confidence=share) for worlds in seen]
    best = max(range(len(tried)), key=lambda i: bounds[i].epsilon)
    bound = bounds[best]
    contradicts = [name for name in ("claimed", "proved") if _contradicted(getattr(entry, name), seen, share)]
    if held is not None and bound.epsilon > held:
        contradicts.append("held")
    who = f"an outsider, who sees less than {entry.adversary}" if outsider else entry.adversary
    return Finding(
        who, entry.adjacent, tried[best].name, worst(entry.claimed), worst(entry.proved), bound.epsilon, delta,
        confidence, bound.limit, bound.why, contradicts, entry.view,
    )  # fmt: skip


def _contradicted(figure: Figure, seen: Sequence[Worlds], share: float) -> bool:
    epsilon, delta = worst(figure), figure.delta
    if epsilon is None or delta is None or delta >= 1:
        return False
    return any(two_worlds(*worlds, delta=delta, confidence=share).epsilon > epsilon for worlds in seen)
