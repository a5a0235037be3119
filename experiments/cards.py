"""Paper cards: every figure and table that can be made, and what its results came to.

Each paper's folder has a module `figures` with a table `FIGURES`: experiments by name, in the paper's order.
"""

import importlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from experiments.claims import Claim, Open, Source
from experiments.harness import Experiment, read_claim

HERE = pathlib.Path(__file__).resolve().parent
SCALES = ("quick", "cpu", "short", "paper")
"""`short`, which some experiments have, is the paper's data and models for few epochs, or a part of `cpu`."""
_REASONS = (Open.UNTESTABLE, Open.BETTER, Open.UNDECIDED)
"""Why a card has no verdict: the first of these that a claim gives."""


class Paper(NamedTuple):
    """A folder of experiments."""

    title: str
    not_made: tuple[str, ...] = ()  # figures without results: drawings of the system


PAPERS = {
    "anchors": Paper("Published by others"),
    "asynchronous": Paper("Asynchronous rounds"),
    "atlas": Paper("What composes"),
    "audit": Paper("Audits"),
    "cdp_fl": Paper("CDP-FL", ("Fig. 1", "Fig. 2")),
    "correlated_noise": Paper("Correlated noise"),
    "distributed_noise": Paper("Distributed noise"),
    "fedrep": Paper("FedREP"),
    "input_validation": Paper("Input validation"),
    "lying_server": Paper("A server that lies"),
    "private_training": Paper("Private training"),
    "sparse_secagg": Paper("SparseSecAgg", ("Fig. 1",)),
    "wireless": Paper("Private wireless FedSGD", ("Fig. 1",)),
}


class Card(NamedTuple):
    """An experiment of a paper, by name."""

    paper: str  # its folder
    name: str
    makes: str  # figures and tables of the paper; empty: a result of ours
    title: str

    @property
    def heading(self) -> str:
        """What is made, and the title."""
        return f"{self.makes}: {self.title}" if self.makes else self.title

    @property
    def label(self) -> str:
        """The name, and what is made."""
        return f"{self.name} ({self.makes})" if self.makes else self.name


class Result(NamedTuple):
    """What an experiment wrote at a scale."""

    card: Card
    scale: str
    folder: pathlib.Path
    claims: list[Claim]
    manifest: dict[str, Any]

    @property
    def counted(self) -> list[Claim]:
        """The claims of which the card's verdict speaks.

        The paper's at its own setting, if one has a verdict there; else the paper's at another setting; all if none
        is the paper's.
        """
        of_paper = [claim for claim in self.claims if claim.source == Source.PAPER]
        own = [claim for claim in of_paper if not claim.elsewhere]
        return own if any(claim.verdict is not None for claim in own) else of_paper or self.claims

    @property
    def counts(self) -> tuple[int, int]:
        """Of the counted claims, those that hold (elsewhere: agree in trend), and those that have a verdict."""
        verdicts = [claim.verdict for claim in self.counted if claim.verdict is not None]
        return sum(verdicts), len(verdicts)

    @property
    def verdict(self) -> str:
        """The verdict of the claims that count; why there is none, if none of them has one."""
        alike = {"reproduced": "holds", "differs": "does not hold"}
        words = {alike.get(claim.said, claim.said) for claim in self.counted if claim.verdict is not None}
        better = sum(claim.verdict is None and claim.why == Open.BETTER for claim in self.counted)
        more = f"; {better} better than printed" if better and words else ""
        if len(words) > 1:
            return ("agrees in part" if "agrees in trend" in words else "holds in part") + more
        open_words = [why.value for why in _REASONS if why in {c.why for c in self.counted}]
        return next(iter([*words, *open_words, Open.NOT_RUN.value])) + more


def experiments(paper: str) -> Mapping[str, Experiment]:
    """A paper's experiments by name."""
    return importlib.import_module(f"experiments.{paper}.figures").FIGURES


def cards(paper: str | None = None) -> list[Card]:
    """The cards of a paper, or every card, paper by paper."""
    papers = PAPERS if paper is None else (paper,)  # to import what the others need takes a second or two
    return [Card(each, name, of.makes, of.title) for each in papers for name, of in experiments(each).items()]


def chosen(paper: str | None, figure: str | None, scale: str = "paper") -> list[Card]:
    """The cards of a paper, or one of them; all if neither is given; only those that have the scale.

    Raises:
      ValueError: there is no such paper or figure, or none of them has the scale.
    """
    if paper is not None and paper not in PAPERS:
        raise ValueError(f"paper must be one of {', '.join(PAPERS)}; got {paper}")
    of_paper = cards(paper)
    found = [card for card in of_paper if figure in (None, card.name)]
    if not found:
        allowed = ", ".join(card.label for card in of_paper)
        raise ValueError(f"figure must be one of {allowed} for {paper}; got {figure}")
    with_scale = [card for card in found if scale in experiment_of(card).scales]
    if not with_scale:
        scales = dict.fromkeys(name for card in found for name in experiment_of(card).scales)
        about = figure or paper or "all papers"
        raise ValueError(f"scale must be one of {', '.join(scales)} for {about}; got {scale}")
    return with_scale


def experiment_of(card: Card) -> Experiment:
    return experiments(card.paper)[card.name]


def folder_of(card: Card, scale: str, root: pathlib.Path) -> pathlib.Path:
    return root / card.paper / f"{card.name}-{scale}"


def result(card: Card, scale: str, root: pathlib.Path) -> Result | None:
    """The results of a card below `root`; None if its experiment has not finished.

    Raises:
      OSError: a file cannot be read.
      ValueError: a file is not JSON, or a claim lacks a field.
    """
    folder = folder_of(card, scale, root)
    if not (folder / "verdicts.json").exists():
        return None
    try:
        claims = [read_claim(**fields) for fields in _read(folder / "verdicts.json")]
    except TypeError as error:
        raise ValueError(f"{folder / 'verdicts.json'}: {error}") from None
    manifest = _read(folder / "manifest.json")
    if not isinstance(manifest, dict):
        raise ValueError(f"{folder / 'manifest.json'} holds no object")
    return Result(card, scale, folder, claims, manifest)


def _read(file: pathlib.Path) -> Any:
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
