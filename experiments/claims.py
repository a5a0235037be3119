"""A claim: what a paper says of a figure, or what we add to it, and what came out."""

import enum
from typing import NamedTuple


class Source(enum.StrEnum):
    """Who makes a claim."""

    PAPER = "paper"
    OURS = "ours"  # the paper says nothing of it


class Claim(NamedTuple):
    """A statement, what it predicts, what was found, and a verdict computed from the data.

    `verdicts.json` has a list of these, with the fields below as keys.
    """

    id: str  # unique within a card, the same at every scale
    text: str
    expected: str  # the value that is claimed, as the paper prints it; may be empty if the claim is ours
    found: str
    verdict: bool | None  # None: not tested at this scale
    rule: str = ""  # when the verdict is true
    note: str = ""
    source: Source = Source.PAPER


def said(verdict: bool | None) -> str:
    """A verdict in words."""
    return {True: "holds", False: "does not hold", None: "not tested at this scale"}[verdict]
