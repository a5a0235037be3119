"""The result of an audit of one ledger entry, and the verdict in words."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedjax_priv.audit.bounds import Comparison, LowerBound, compare, two_worlds
from fedjax_priv.audit.bounds.guessing import FEWEST
from fedjax_priv.audit.bounds.many_runs import NEVER
from fedjax_priv.audit.worlds import Worlds
from fedjax_priv.ledger import Entry, worst

Claim = list[tuple[float, float]]
"""Pairs (eps, delta) that are all claimed to hold; the first one is the printed figure."""
_WORDS = {"claimed": "what is claimed", "proved": "what is proved", "held": "the eps it is held to"}


class Tried(NamedTuple):
    """The scores of a look."""

    look: str  # its name
    worlds: Worlds  # of the trials that the look is about; it shows nothing if these are fewer than a bound needs
    reads_updates: bool = True  # False: it may contradict a figure, but cannot make one testable


class Finding(NamedTuple):
    """The result of an audit of one ledger entry."""

    adversary: str
    adjacent: str
    look: str  # the one that showed the most
    claimed: float | None  # eps; None: no guarantee
    proved: float | None
    at_least: float  # eps, at this delta and confidence
    delta: float
    confidence: float
    limit: float  # the largest eps that so many trials could have shown
    counted: str  # what was counted, in words
    contradicts: list[str]  # "claimed", "proved", "held"
    stands: list[str]
    untestable: dict[str, int]  # figures that no result of so few trials could contradict: how many trials each needs
    view: str = "server"  # as in `Entry`
    gaussian: bool = False  # as in `Entry`; `at_least` and `limit` are then of a Gaussian mechanism
    unproved: str = ""  # why there is no proved figure


def finding(
    entry: Entry,
    claims: Mapping[str, Claim],
    seen: Sequence[Tried],
    *,
    delta: float,
    confidence: float,
    who: str,
    trials: int | None = None,
) -> Finding:
    """Compares an entry's claims with the scores of all looks.

    All looks, and the two tests of a claim that is a curve, share the probability of error: with probability at most
    `1 - confidence` a true claim is contradicted, and with at most the same probability the bound is wrong. A look may
    be about some of the `trials` on each input only; None: every look is about all trials.
    """
    tests = 2 if not entry.gaussian and any(len(claim) > 1 for claim in claims.values()) else 1
    how = {"confidence": 1 - (1 - confidence) / (len(seen) * tests), "gaussian": entry.gaussian}
    bounds = [(one.look, _bound(one.worlds, delta=delta, **how)) for one in seen]
    look, bound = max(bounds, key=lambda one: one[1].epsilon)
    compared = {name: _compare(claim, seen, trials, **how) for name, claim in claims.items()}
    return Finding(
        who, entry.adjacent, look, worst(entry.claimed), worst(entry.proved), bound.epsilon, delta, confidence,
        bound.limit, bound.why, [name for name, one in compared.items() if one.contradicted],
        [name for name, one in compared.items() if not (one.contradicted or one.needed)],
        {name: one.needed for name, one in compared.items() if one.needed}, entry.view, entry.gaussian,
        entry.proved.why if entry.proved.epsilon is None else "",
    )  # fmt: skip


def claims_of(entry: Entry, elsewhere: Sequence[Entry], held: tuple[float, float] | None) -> dict[str, Claim]:
    """The claims of an entry: each figure, followed by the figures of the same entry at other deltas."""
    claims = {}
    for name in ("claimed", "proved"):
        figure, *others = (getattr(one, name) for one in (entry, *elsewhere))
        if figure.epsilon is not None:
            curve = [one for one in others if one.epsilon is not None and one.delta < 1]
            claims[name] = [(worst(one), one.delta) for one in (figure, *curve)]
    return claims if held is None else {**claims, "held": [held]}


def verdict(one: Finding) -> str:
    """The verdict in words."""
    listed = lambda names: " and ".join(_WORDS[name] for name in names)
    needs = lambda trials: f"{trials:,} trials" if trials < NEVER else "more trials than there can be"
    said = [f"contradicts {listed(one.contradicts)}"] if one.contradicts else []
    if one.untestable:
        said.append(
            "not testable: " + ", ".join(f"{_WORDS[name]} needs {needs(n)}" for name, n in one.untestable.items())
        )
    if one.stands:
        said.append(f"{listed(one.stands)} stands" if said else "stands")
    return "; ".join(said) or "no guarantee to contradict"


def _are_few(worlds: Worlds) -> bool:
    return min(map(len, worlds)) < FEWEST


def _bound(worlds: Worlds, *, delta: float, confidence: float, gaussian: bool) -> LowerBound:
    if _are_few(worlds):
        first, second = map(len, worlds)
        return LowerBound(0.0, delta, confidence, f"{second} and {first} runs are too few", 0.0)
    return two_worlds(*worlds, delta=delta, confidence=confidence, gaussian=gaussian)


def _compare(
    claim: Claim, seen: Sequence[Tried], trials: int | None, *, confidence: float, gaussian: bool
) -> Comparison:
    """Tests the printed figure alone and the whole curve; for a Gaussian mechanism one test does both.

    A test of the curve may contradict the claim, but does not make the printed figure testable. A printed figure at
    delta >= 1 is never testable.
    """
    whole = [(eps, delta) for eps, delta in claim if delta < 1]
    if not whole:
        return Comparison(False, NEVER)
    vacuous = whole[0] != claim[0]
    tests = [whole] if gaussian or vacuous or len(whole) == 1 else [whole[:1], whole]
    figure, *curve = (
        [_in_trials(one.worlds, trials, test, confidence=confidence, gaussian=gaussian) for one in seen]
        for test in tests
    )
    contradicted = any(one.contradicted for each in (figure, *curve) for one in each)
    able = [found.needed for one, found in zip(seen, figure, strict=True) if one.reads_updates]
    return Comparison(contradicted, NEVER if vacuous else min(able))


def _in_trials(worlds: Worlds, trials: int | None, claim: Claim, *, confidence: float, gaussian: bool) -> Comparison:
    """`compare` for the trials that a look is about; `needed` counts all trials, if the same fraction is looked at."""
    few = _are_few(worlds)
    enough = Worlds(np.zeros(FEWEST), np.zeros(FEWEST)) if few else worlds  # equal worlds contradict nothing
    found = compare(*enough, claim, confidence=confidence, gaussian=gaussian)
    rows = min(map(len, worlds))
    needed = max(found.needed, FEWEST) if few else found.needed
    if trials is None or not needed:
        return found._replace(needed=needed)
    return found._replace(needed=min(NEVER, math.ceil(needed * trials / max(rows, 1))))
