"""An audit of every entry of a system's privacy ledger: adjacent inputs, as the entry's adversary sees them."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_priv.audit.bounds import LowerBound, two_worlds
from fedjax_priv.audit.by_release import Kind, Subject, canary_for, heard_by, kind_of, num_params, score_of
from fedjax_priv.audit.worlds import Score, Worlds, scores
from fedjax_priv.base import Key
from fedjax_priv.keys import named
from fedjax_priv.ledger import Entry, Figure, worst

_AT_ONCE, _WORK = 1000, 2**21
"""Most rounds computed side by side, and numbers of their updates."""


class Finding(NamedTuple):
    """The result of an audit of one ledger entry."""

    adversary: str
    adjacent: str
    canary: str
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
    alike = [(kind_of(subject, entry, kind, rounds), heard_by(subject, entry, colluding)) for entry in entries]
    size = int(subject.data.count.size) * num_params(subject)
    found: dict[int, Finding] = {}
    for number, (name, heard) in enumerate(dict.fromkeys(alike)):
        canary = canary_for(subject, name, heard, named(key, "canary"))
        mine = [i for i, each in enumerate(alike) if each == (name, heard)]
        looks = [score_of(subject, entries[i], canary, name, colluding, outsider) for i in mine]
        worlds = scores(
            subject.make, canary, _together(looks), jax.random.fold_in(key, number), params=subject.params,
            trials=trials, rounds=rounds, at_once=max(1, min(_AT_ONCE, _WORK // size)),
        )  # fmt: skip
        for column, i in enumerate(mine):
            own = Worlds(*(world[:, column] for world in worlds))
            bound = two_worlds(*own, delta=delta, confidence=confidence)
            found[i] = _finding(entries[i], name, own, bound, held, outsider)
    return [found[i] for i in range(len(entries))]


def _together(looks: Sequence[Score]) -> Score:
    return lambda seen: jnp.stack([look(seen) for look in looks])


def _finding(
    entry: Entry, canary: str, worlds: Worlds, bound: LowerBound, held: float | None, outsider: bool
) -> Finding:
    contradicts = [
        name for name in ("claimed", "proved") if _contradicted(getattr(entry, name), worlds, bound.confidence)
    ]
    if held is not None and bound.epsilon > held:
        contradicts.append("held")
    who = f"an outsider, who sees less than {entry.adversary}" if outsider else entry.adversary
    return Finding(
        who, entry.adjacent, canary, worst(entry.claimed), worst(entry.proved), bound.epsilon, bound.delta,
        bound.confidence, bound.limit, bound.why, contradicts, entry.view,
    )  # fmt: skip


def _contradicted(figure: Figure, worlds: Worlds, confidence: float) -> bool:
    epsilon = worst(figure)
    if epsilon is None or figure.delta is None or figure.delta >= 1:
        return False
    return two_worlds(*worlds, delta=figure.delta, confidence=confidence).epsilon > epsilon
