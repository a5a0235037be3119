"""An audit of every entry of a system's privacy ledger: adjacent inputs, as the entry's adversary sees them."""

from collections.abc import Callable, Sequence

import jax

from fedjax_priv.audit.by_release import Kind, Subject, num_params
from fedjax_priv.audit.learned_score import with_learned
from fedjax_priv.audit.looks import looks
from fedjax_priv.audit.verdicts import Finding, Tried, claims_of, finding
from fedjax_priv.audit.who_came import of_one_round
from fedjax_priv.audit.worlds import Look, Score, Worlds, scores
from fedjax_priv.base import Key
from fedjax_priv.keys import named
from fedjax_priv.ledger import Entry

DELTAS = (1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7)
"""Where a curve is tested: in the tails, and where errors of both kinds are common."""
_AT_ONCE, _WORK = 1000, 2**21
"""Most rounds computed side by side, and numbers of their updates."""


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

    Of all that its adversary tries, what shows the most counts: its looks share the probability of error.

    Args:
      subject: the system, of which `entries` is the ledger for as many rounds. Figures at the gains of a run need
        trials with these gains: see `gains_of_run`. Canaries are client 0's: if only other clients leave their
        noise out, a look shows no more of it than what a sum lacks.
      entries: at `delta`. Where `kind` is "sample" or "label", those about other neighbours than replacement are left
        out: such a canary replaces what a client sends, and a figure of a client that sends or not is no bound for it.
      key: of all runs.
      trials: runs on each input of every canary.
      rounds: of a run; 1 where it is drawn who takes part or arrives, if figures count the rounds of those who came.
      delta: of the bound that is reported; a figure at another delta is compared with a bound at that one.
      confidence: of the bound, and of the comparison with each figure.
      kind: of the canary: an update in a random direction in place of local training, or a sample, or a sample with
        another label, and true local training. If not given, "label" where the system's noise is in local training
        and "direction" elsewhere, and crafted ones in addition.
      colluding: as in `ledger`.
      outsider: look through the eyes of who sees the released models only, whoever the entry is about.
      held: an eps to test, in addition to the figures of the ledger.
      at: the same entries at another delta. A figure is then a curve, and is tested at many deltas at once.

    Raises:
      ValueError: an argument outside its range, a canary without local training where the noise is in it, or one that
        none of the entries is about.
    """
    entries = _tried_by(kind, entries)
    entries = entries if outsider else [of_one_round(entry, subject.release, rounds) for entry in entries]
    about = {"kind": kind, "rounds": rounds, "colluding": colluding, "outsider": outsider, "held": held}
    tried = looks(subject, entries, named(key, "canary"), **about)
    seen = _seen(subject, [look for mine in tried for look in mine], key, trials, rounds)
    elsewhere = [_tried_by(kind, at(other)) for other in DELTAS] if at else []
    found = []
    for number, (entry, mine) in enumerate(zip(entries, tried, strict=True)):
        claims = claims_of(entry, [other[number] for other in elsewhere], None if held is None else (held, delta))
        who = f"an outsider, who sees less than {entry.adversary}" if outsider else entry.adversary
        own = [Tried(look.name, seen.pop(0), look.reads_updates) for look in mine]
        found.append(finding(entry, claims, own, delta=delta, confidence=confidence, who=who, trials=trials))
    return found


def _tried_by(kind: Kind | None, entries: Sequence[Entry]) -> list[Entry]:
    """Those that a canary of this kind is about."""
    tried = [entry for entry in entries if kind in (None, "direction") or entry.neighbours == "replacement"]
    if entries and not tried:
        raise ValueError(f"canary must be 'direction' where no entry is about replacement, got {kind!r}")
    return tried


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
            found[i] = with_learned(Worlds(*map(tried[i].finish, own)))
    return found


def _together(several: Sequence[Score]) -> Score:
    return lambda seen: tuple(score(seen) for score in several)
