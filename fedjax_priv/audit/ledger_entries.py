"""An audit of every entry of a system's privacy ledger: runs on adjacent inputs, read by the entry's adversary."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from fedjax_priv.audit.by_release import Kind, Subject, num_params
from fedjax_priv.audit.canary_families import families, in_one_form
from fedjax_priv.audit.learned_score import with_learned
from fedjax_priv.audit.looks import looks
from fedjax_priv.audit.verdicts import Finding, Tried, claims_of, finding
from fedjax_priv.audit.who_came import of_one_round
from fedjax_priv.audit.who_sent import check_sent, drawn, sent
from fedjax_priv.audit.worlds import Look, Score, Worlds, scores_of_draws, scores_of_family
from fedjax_priv.base import Key
from fedjax_priv.keys import named
from fedjax_priv.ledger import Entry

DELTAS = (1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7)
"""The deltas at which a curve is tested: in the tails, and where errors of both kinds are common."""
_AT_ONCE, _WORK = 1000, 2**21
"""At most so many trials are computed side by side, and so many numbers of their updates."""


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
    at: Callable[[float], Sequence[Entry]] | None = None,
) -> list[Finding]:
    """Audits each entry with runs on two adjacent inputs.

    An entry's adversary tries several looks. The finding reports the look that shows the most; all looks of an entry
    share the probability of error.

    Args:
      subject: the system; `entries` must be its ledger for the same number of rounds. Figures at the gains of a run
        need trials with these gains: see `gains_of_run`. Every canary belongs to client 0. If other clients leave out
        their noise, an audit notices it only by the noise that is missing in a sum.
      entries: of the ledger at `delta`. If `kind` is "sample" or "label", only entries about replacement are audited:
        such a canary replaces what a client sends, which no figure about a client that sends or not covers.
      key: root key of all runs.
      trials: runs on each input of every canary.
      rounds: of a run. Must be 1 if a figure counts the rounds in which a client took part or arrived, and this is
        random. If clients add the noise of a sum, as many uploads must arrive in every run.
      delta: of the reported bound. A figure at another delta is compared with a bound at that delta.
      confidence: of the bound, and of the comparison with each figure.
      kind: of the canary. "direction": a client sends an update in a random direction and does not train. "sample",
        "label": clients train, and a sample, or a sample's label, is replaced. By default "label" if the noise is in
        local training, else "direction", and crafted canaries in addition.
      colluding: as in `ledger`.
      outsider: the adversary of every entry sees the released models only.
      held: an eps to test, in addition to the figures of the ledger.
      at: function that gives the same entries at another delta. A figure is then a curve, tested at many deltas at
        once.

    Raises:
      ValueError: an argument outside its range, a canary without local training if the noise is in local training, a
        canary that none of the entries is about, or one whose client sends in no run; or runs in which so many rounds
        or uploads count, at random, as in a figure.
    """
    entries = _tried_by(kind, entries)
    entries = entries if outsider else [of_one_round(entry, subject.release, rounds) for entry in entries]
    about = {"kind": kind, "rounds": rounds, "colluding": colluding, "outsider": outsider, "held": held}
    tried = looks(subject, entries, named(key, "canary"), **about)
    check = functools.partial(check_sent, entries=entries, release=subject.release, rounds=rounds)
    seen = _seen(subject, [look for mine in tried for look in mine], key, trials, rounds, check)
    elsewhere = [_tried_by(kind, at(other)) for other in DELTAS] if at else []
    found = []
    for number, (entry, mine) in enumerate(zip(entries, tried, strict=True)):
        claims = claims_of(entry, [other[number] for other in elsewhere], None if held is None else (held, delta))
        who = f"an outsider, who sees less than {entry.adversary}" if outsider else entry.adversary
        own = [Tried(look.name, seen.pop(0), look.reads_updates) for look in mine]
        found.append(finding(entry, claims, own, delta=delta, confidence=confidence, who=who, trials=trials))
    return found


def _tried_by(kind: Kind | None, entries: Sequence[Entry]) -> list[Entry]:
    """The entries that a canary of this kind can test."""
    tried = [entry for entry in entries if kind in (None, "direction") or entry.neighbours == "replacement"]
    if entries and not tried:
        raise ValueError(f"canary must be 'direction' where no entry is about replacement, got {kind!r}")
    return tried


def _seen(
    subject: Subject, tried: Sequence[Look], key: Key, trials: int, rounds: int, check: Callable[[Worlds], None]
) -> list[Worlds]:
    """The scores of each look; looks with the same canary share their runs, whose cohorts and uploads are checked.

    Runs with canaries of one family are scored by the looks of all, so that they are one program.
    """
    size, make = int(subject.data.count.size) * num_params(subject), subject.unmasked or subject.make
    found: list[Worlds] = [Worlds(None, None)] * len(tried)
    canaries = [*{id(look.canary): look.canary for look in tried}.values()]
    about: Any = dict(params=subject.params, trials=trials, rounds=rounds, at_once=max(1, min(_AT_ONCE, _WORK // size)))
    check(scores_of_draws(make, canaries[0], drawn, jax.random.fold_in(key, 0), **about))
    for family in families(canaries):
        members = [canaries[number] for number in family]
        mine = [i for i, look in enumerate(tried) if any(look.canary is canary for canary in members)]
        every = scores_of_family(
            make, in_one_form(members), _together([*(tried[i].score for i in mine), sent]),
            [jax.random.fold_in(key, number) for number in family], **about,
        )  # fmt: skip
        for canary, worlds in zip(members, every, strict=True):
            check(Worlds(*(world[-1] for world in worlds)))
            for i, *own in zip(mine, *(world[:-1] for world in worlds), strict=True):
                if tried[i].canary is canary:
                    found[i] = with_learned(Worlds(*map(tried[i].finish, own)))
    return found


def _together(several: Sequence[Score]) -> Score:
    return lambda seen: tuple(score(seen) for score in several)
