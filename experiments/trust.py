"""The table of the page "Can I trust it?": what others print, and what this package gives, from committed results."""

import pathlib
from collections.abc import Iterator

from experiments.cards import SCALES, Card, Result, cards, result
from experiments.claims import Claim, Open, Source
from experiments.table import RESULTS, plain

SHOWN: dict[str, tuple[str, ...] | None] = {
    "anchors": None,
    "private_training": ("printed-epsilon", "accuracy"),
    "distributed_noise": ("anchor", "price"),
}
"""Folders whose cards are of results that others have published, and which of their claims; None: all."""
WITHOUT = ("private_training.equal_epsilon",)
"""Cards of these folders that nobody has printed."""
_HEAD = "| printed by | what | printed | here | margin | verdict | cost | what differs |"


def table(root: pathlib.Path = RESULTS) -> str:
    """A row for each claim at the largest scale that was run, then the cards that were not."""
    made = [(card, _largest(card, root)) for card in _cards()]
    lines = [_HEAD, "|---|---|---|---|---|---|---|---|"]
    lines += [_row(one, claim) for _, one in made if one for claim in _claims(one)]
    missing = [f"{plain(card.heading)} (`{card.paper} {card.name}`)" for card, one in made if one is None]
    if missing:
        lines += ["", "Cards without results yet: " + "; ".join(missing) + "."]
    return "\n".join(lines)


def summary(root: pathlib.Path = RESULTS) -> str:
    """How many rows have which verdict."""
    words = [claim.said for card in _cards() if (one := _largest(card, root)) for claim in _claims(one)]
    counted = ", ".join(f"{words.count(word)} *{word}*" for word in dict.fromkeys(sorted(words)))
    return f"{len(words)} printed values and statements have been tried: {counted}."


def _cards() -> list[Card]:
    return [card for card in cards() if card.paper in SHOWN and f"{card.paper}.{card.name}" not in WITHOUT]


def _largest(card: Card, root: pathlib.Path) -> Result | None:
    """Scale `quick` is a test of the script, not of a printed value."""
    found = (result(card, scale, root) for scale in reversed(SCALES) if scale != "quick")
    return next((made for made in found if made), None)


def _claims(made: Result) -> Iterator[Claim]:
    allowed = SHOWN[made.card.paper]
    yield from (claim for claim in made.claims if allowed is None or claim.id in allowed)


def _row(made: Result, claim: Claim) -> str:
    seconds = made.manifest.get("seconds")
    cost = f"`{made.scale}`" + (f", {seconds:,.0f} s" if seconds else "")
    printed = "(ours) " * (claim.source == Source.OURS) + plain(claim.expected)
    open_ = claim.why if claim.verdict is None else None
    reason = f" ({plain(claim.note)})" if open_ in (Open.UNDECIDED, Open.BETTER) and claim.note else ""
    cells = (
        plain(made.card.makes or made.card.title), plain(claim.text), printed, plain(claim.found),
        plain(claim.margin) or "as its rule says", f"**{claim.said}**{reason}", cost, plain(claim.differs or "nothing"),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"
