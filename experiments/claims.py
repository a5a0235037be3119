"""A claim: what a paper says of a figure, or what we add to it, and what came out.

A verdict speaks of the setting of its run. There are three kinds: at the paper's setting a claim "holds" or "does not
hold"; elsewhere a run "agrees in trend" or "differs in trend", which says nothing against the paper; and where a
control shows that an effect is not there, nothing follows: "not testable here". A value that others print is
"reproduced" or "differs", by the rule in `published`.
"""

import enum
from typing import NamedTuple


class Source(enum.StrEnum):
    """Who makes a claim."""

    PAPER = "paper"
    OURS = "ours"  # the paper says nothing of it


class Open(enum.StrEnum):
    """Why a claim has no verdict."""

    NOT_RUN = "not tested at this scale"
    UNDECIDED = "not decided"  # the interval is too wide
    UNTESTABLE = "not testable here"  # a control failed
    REPORTED = "reported, not judged"  # a time: another machine's is no measure
    BETTER = "better than printed"  # by more than the margin; the cause is not known


class Claim(NamedTuple):
    """A statement, what it predicts, what was found, and a verdict computed from the data.

    `verdicts.json` has a list of these, with the fields below as keys.
    """

    id: str  # unique within a card, the same at every scale
    text: str
    expected: str  # the value that is claimed, as the paper prints it; may be empty if the claim is ours
    found: str
    verdict: bool | None  # None: neither, for the reason `why`
    rule: str = ""  # when the verdict is true
    note: str = ""
    source: Source = Source.PAPER
    why: Open = Open.NOT_RUN
    differs: str | None = None  # from the paper's setting; "": nothing that matters; None: what the card says
    control: str = ""  # what a control showed, if the claim needs one
    margin: str = ""  # of a printed value: what a reader would call the same, set before running

    @property
    def elsewhere(self) -> bool:
        """Whether a claim of the paper's was run at another setting than the paper's."""
        return self.source == Source.PAPER and bool(self.differs)

    @property
    def said(self) -> str:
        """The verdict in words."""
        if self.verdict is None:
            return self.why.value
        if self.elsewhere:
            return "agrees in trend" if self.verdict else "differs in trend"
        if self.margin:
            return "reproduced" if self.verdict else "differs"
        return "holds" if self.verdict else "does not hold"


def undecided(claim: Claim, missing: str) -> Claim:
    """Without a verdict, for want of what `missing` says."""
    return claim._replace(verdict=None, why=Open.UNDECIDED, note=joined(claim.note, missing))


def untestable(claim: Claim, control: str) -> Claim:
    """Without a verdict, since a control showed that the effect is not there."""
    return claim._replace(verdict=None, why=Open.UNTESTABLE, control=control)


def controlled(claim: Claim, bites: bool | None, control: str) -> Claim:
    """With what a control showed: as it is if the effect is there, not testable if not, else not decided."""
    if bites is None:
        return undecided(claim, "the control is not decided")._replace(control=control)
    return claim._replace(control=control) if bites else untestable(claim, control)


def told_apart(claim: Claim, rejected: bool, control: str) -> Claim:
    """A law next to another that must be rejected: if the data agree with both, they decide nothing."""
    claim = claim._replace(control=control)
    return undecided(claim, "the data agree with the control too") if claim.verdict and not rejected else claim


def joined(*notes: str) -> str:
    """Notes one after the other, without the empty ones."""
    return "; ".join(filter(None, notes))
