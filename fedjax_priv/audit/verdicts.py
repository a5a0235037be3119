"""What an audit says of one entry of a ledger, and the verdict in words."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedjax_priv.audit.bounds import Comparison, compare, two_worlds
from fedjax_priv.audit.bounds.many_runs import NEVER
from fedjax_priv.audit.worlds import Worlds
from fedjax_priv.ledger import Entry, worst

Claim = list[tuple[float, float]]
"""Pairs (eps, delta) that are all said to hold; the first one is the figure that is printed."""
_WORDS = {"claimed": "what is claimed", "proved": "what is proved", "held": "the eps it is held to"}


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
    stands: list[str]
    untestable: dict[str, int]  # what no result of so few trials could contradict, and how many trials it needs
    view: str = "server"  # as in `Entry`
    gaussian: bool = False  # as in `Entry`; `at_least` and `limit` are then of a Gaussian mechanism
    unproved: str = ""  # why there is no proved figure


def finding(
    entry: Entry,
    claims: Mapping[str, Claim],
    seen: Sequence[tuple[str, Worlds]],
    *,
    delta: float,
    confidence: float,
    who: str,
) -> Finding:
    """Compares an entry's claims with the scores of all looks, `(name, scores)`.

    Looks, and the two tests of a claim that is a curve, share the probability of error: a true claim is contradicted
    with probability `1 - confidence` at most, and the bound is wrong with as much.
    """
    tests = 2 if not entry.gaussian and any(len(claim) > 1 for claim in claims.values()) else 1
    how = {"confidence": 1 - (1 - confidence) / (len(seen) * tests), "gaussian": entry.gaussian}
    bounds = [(name, two_worlds(*worlds, delta=delta, **how)) for name, worlds in seen]
    look, bound = max(bounds, key=lambda one: one[1].epsilon)
    compared = {name: _compare(claim, [worlds for _, worlds in seen], **how) for name, claim in claims.items()}
    return Finding(
        who, entry.adjacent, look, worst(entry.claimed), worst(entry.proved), bound.epsilon, delta, confidence,
        bound.limit, bound.why, [name for name, one in compared.items() if one.contradicted],
        [name for name, one in compared.items() if not (one.contradicted or one.needed)],
        {name: one.needed for name, one in compared.items() if one.needed}, entry.view, entry.gaussian,
        entry.proved.why if entry.proved.epsilon is None else "",
    )  # fmt: skip


def claims_of(entry: Entry, elsewhere: Sequence[Entry], held: tuple[float, float] | None) -> dict[str, Claim]:
    """The figures of an entry, each with those of the same entry at other deltas."""
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


def _compare(claim: Claim, seen: Sequence[Worlds], *, confidence: float, gaussian: bool) -> Comparison:
    """The figure alone and the whole claim; of a Gaussian mechanism both are one test.

    A test of the curve may contradict the claim. It does not make the printed figure testable, and nothing does if that
    is at a delta of 1 or more.
    """
    whole = [(eps, delta) for eps, delta in claim if delta < 1]
    if not whole:
        return Comparison(False, NEVER)
    vacuous = whole[0] != claim[0]
    tests = [whole] if gaussian or vacuous or len(whole) == 1 else [whole[:1], whole]
    figure, *curve = (
        [compare(*worlds, test, confidence=confidence, gaussian=gaussian) for worlds in seen] for test in tests
    )
    contradicted = any(one.contradicted for each in (figure, *curve) for one in each)
    return Comparison(contradicted, NEVER if vacuous else min(one.needed for one in figure))
