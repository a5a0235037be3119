"""`results/README.md`: every card, and every claim of its committed results, as one table.

python -m experiments.table
"""

import pathlib
import re
from collections import Counter
from collections.abc import Iterator

from experiments.cards import HERE, NOT_MADE, SCALES, Card, Result, cards, paper_title, result
from experiments.claims import NOT_TESTED

RESULTS = HERE / "results"
_HEAD = """\
# Results of the papers' experiments

Written by `python -m experiments.table` from the results beside it; not to be edited. Every figure and table of the
papers has a card: a line in bold, then a line for each claim, with what the paper prints, what came out, and a verdict
computed from the data by the rule in `verdicts.json`. The card's verdict is that of the paper's claims that were
tested, or of all where none is the paper's. `fedjax-priv reproduce PAPER FIGURE --scale SCALE` makes a card.

At scale `quick` the data are scikit-learn's digits; at `cpu` models, users or rounds are often fewer than the paper's,
as the README of each paper's scripts says: a verdict there speaks of what was run. Cards without "Fig." or "Table" are
ours, beside the paper. Seconds are those of the experiment, on the machine in the manifest, with whatever else ran
there; older results lack them.

"""
_COLUMNS = ("figure or claim", "paper", "ours", "verdict", "scale", "seconds", "results")


def table() -> str:
    """The file's text."""
    found = {card: [made for scale in reversed(SCALES) if (made := result(card, scale, RESULTS))] for card in cards()}
    papers = dict.fromkeys(card.paper for card in found)
    lines = [_line(*_COLUMNS), _line(*["---"] * len(_COLUMNS))]
    for paper in papers:
        lines.append(_line(f"**{paper_title(paper)}** (`{paper}`)"))
        for card, results in found.items():
            if card.paper == paper:
                lines += _of_card(card, results)
        lines += [_line(f"**{name}**", verdict="not made: a drawing, no results") for name in NOT_MADE.get(paper, ())]
    return _HEAD + _summary(found) + "\n" + "\n".join(lines) + "\n"


def write(file: pathlib.Path = RESULTS / "README.md") -> None:
    """Put the table where it belongs."""
    file.write_text(table())


def _summary(found: dict[Card, list[Result]]) -> str:
    largest = Counter(results[0].scale if results else "none" for results in found.values())
    scales = ", ".join(f"{largest[scale]} at `{scale}`" for scale in reversed(SCALES))
    verdicts = Counter(
        _said(claim["verdict"]) for results in found.values() for made in results[:1] for claim in made.claims
    )
    claims = ", ".join(f"{verdicts[said]} {said}" for said in ("holds", "does not hold", NOT_TESTED))
    return (
        f"{len(found)} cards, by the largest scale that has been run: {scales}, {largest['none']} not yet. "
        f"{sum(verdicts.values())} claims at those scales: {claims}.\n"
    )


def _of_card(card: Card, results: list[Result]) -> Iterator[str]:
    """The largest scale first."""
    if not results:
        yield _line(f"**{_plain(card.title)}**", verdict="not run", scale="none yet")
    for made in results:
        yield _of_result(made, largest=made is results[0])
        for claim in made.claims:
            yield _line(*(_plain(claim[key]) for key in ("claim", "paper", "ours")), verdict=_said(claim["verdict"]))


def _of_result(made: Result, largest: bool) -> str:
    held, tested = made.counts
    name, folder = made.card.name, made.folder.relative_to(RESULTS).as_posix()
    links = {"figure": f"{name}.png", "data": f"{name}.nc", "verdicts": "verdicts.json", "manifest": "manifest.json"}
    return _line(
        f"**{_plain(made.card.title)}**",
        verdict=f"**{made.verdict}**" + (f", {held} of {tested}" if tested else ""),
        scale=made.scale + ("; `paper` not run" if largest and made.scale != "paper" else ""),
        seconds=str(made.manifest.get("seconds", "-")),
        results=", ".join(f"[{said}]({folder}/{file})" for said, file in links.items()),
    )


def _said(verdict: bool | str) -> str:
    return verdict if isinstance(verdict, str) else "holds" if verdict else "does not hold"


def _line(claim="", paper="", ours="", verdict="", scale="", seconds="", results="") -> str:
    cells = (claim, paper, ours, verdict, scale, seconds, results)
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return re.sub(r"([\\|*_<~\[])", r"\\\1", text)


if __name__ == "__main__":
    write()
