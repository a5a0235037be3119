"""Paper cards: which figures and tables each script makes, and what its results came to.

A script is found by its last line, `harness.main(__file__, ...)`; the first line of its docstring is the card's title,
and the heading of its folder's README names the paper.
"""

import ast
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from experiments.claims import NOT_TESTED, is_ours

HERE = pathlib.Path(__file__).resolve().parent
SCALES = ("quick", "cpu", "paper")
HOLDS, IN_PART, DOES_NOT = "holds", "holds in part", "does not hold"
NOT_MADE = {"sparse_secagg": ("Fig. 1",), "wireless": ("Fig. 1",), "cdp_fl": ("Fig. 1", "Fig. 2")}
"""Figures without results, by paper: drawings of the system."""


class Card(NamedTuple):
    """A script that makes figures or tables of a paper, or a result beside them."""

    paper: str  # its folder
    name: str
    title: str  # "Fig. 4 and Table II: ..."; without "Fig." and the like, a result beside the paper

    @property
    def of_the_paper(self) -> bool:
        """Whether it makes figures or tables that the paper has."""
        return self.title.startswith(("Fig. ", "Table "))


class Result(NamedTuple):
    """What a script left at a scale."""

    card: Card
    scale: str
    folder: pathlib.Path
    claims: Sequence[dict[str, Any]]  # as `harness.Claim`, verdicts included
    manifest: dict[str, Any]

    @property
    def counts(self) -> tuple[int, int]:
        """Claims that hold, and claims tested: the paper's, or all where it has none."""
        counted = [claim for claim in self.claims if not is_ours(claim)] or self.claims
        tested = [claim["verdict"] for claim in counted if claim["verdict"] != NOT_TESTED]
        return sum(tested), len(tested)

    @property
    def verdict(self) -> str:
        """That of the claims counted together."""
        held, tested = self.counts
        if not tested:
            return NOT_TESTED
        return HOLDS if held == tested else IN_PART if held else DOES_NOT


def cards() -> list[Card]:
    """Every card: those of the paper first, in its order."""
    scripts = [file for file in HERE.glob("*/*.py") if "\n    harness.main(__file__" in file.read_text()]
    found = [Card(file.parent.name, file.stem, _title(file)) for file in scripts]
    return sorted(found, key=lambda card: (card.paper, not card.of_the_paper, _natural(card.name)))


def chosen(paper: str | None, figure: str | None) -> list[Card]:
    """The cards of a paper, or one of them; all without either.

    Raises:
      ValueError: there are none of that name.
    """
    found = cards()
    if paper is not None:
        papers = {card.paper: None for card in found}
        if paper not in papers:
            raise ValueError(f"paper must be one of {', '.join(papers)}; got {paper}")
        found = [card for card in found if card.paper == paper]
    if figure is not None:
        allowed = ", ".join(map(_label, found))
        found = [card for card in found if card.name == figure]
        if not found:
            raise ValueError(f"figure must be one of {allowed} for {paper}; got {figure}")
    return found


def folder_of(card: Card, scale: str, root: pathlib.Path) -> pathlib.Path:
    return root / card.paper / f"{card.name}-{scale}"


def result(card: Card, scale: str, root: pathlib.Path) -> Result | None:
    """What a script left below `root`, if it came to its end.

    Raises:
      ValueError: a file is not JSON.
    """
    folder = folder_of(card, scale, root)
    if not (folder / "verdicts.json").exists():
        return None
    return Result(card, scale, folder, _read(folder / "verdicts.json"), _read(folder / "manifest.json"))


def paper_title(paper: str) -> str:
    """As the heading of its folder's README has it."""
    heading = (HERE / paper / "README.md").read_text().partition("\n")[0]
    return heading.removeprefix("# ").partition(":")[0]


def _read(file: pathlib.Path) -> Any:
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file.name} is not JSON: {error}") from None


def _title(script: pathlib.Path) -> str:
    docstring = ast.get_docstring(ast.parse(script.read_text())) or script.stem
    return docstring.partition("\n")[0].rstrip(".")


def _label(card: Card) -> str:
    """The script, and what it makes if that is more than its name says."""
    made = card.title.partition(":")[0]
    return f"{card.name} ({made})" if card.of_the_paper and {"and", "to"} & {*made.split()} else card.name


def _natural(name: str) -> list[tuple[int, str]]:
    """fig2 before fig10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
