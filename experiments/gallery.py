"""A page of results for each paper: every picture, the claims next to it, what was run and what was not."""

import pathlib
from collections.abc import Iterator

import xarray as xr

from experiments.cards import PAPERS, SCALES, Card, Result, cards, experiments, result
from experiments.claims import Source
from experiments.table import RESULTS, plain

_HEAD = """\
Verdicts are computed from the data of each run. At the paper's setting a claim *holds* or *does not hold*, and a
printed value is *reproduced* or *differs*; at another one a run *agrees in trend* or *differs in trend*, which says
nothing against the paper. Claims marked "(ours)" are not
the paper's.
"""


def page(paper: str) -> str:
    """The page, in Markdown; pictures are `PAPER/CARD-SCALE.png`."""
    made = {card: largest(card) for card in cards() if card.paper == paper}
    missing = [card.label for card, results in made.items() if not results]
    lines = [f"# {PAPERS[paper].title}", "", _HEAD, f"Made by `fedjax-priv reproduce {paper} CARD --scale SCALE`.", ""]
    lines += [line for results in made.values() for one in results for line in _of_result(one)]
    if missing:
        lines += ["## Not run yet", "", ", ".join(missing), ""]
    return "\n".join(lines)


def largest(card: Card) -> list[Result]:
    """The results of a card at the largest scale that was run; none if it was not."""
    found = (result(card, scale, RESULTS) for scale in reversed(SCALES))
    return [made for made in found if made][:1]


def pictures(paper: str) -> dict[str, pathlib.Path]:
    """The files of the pictures that a page shows, by the names it has for them."""
    made = [one for card in cards() if card.paper == paper for one in largest(card)]
    return {_picture(one): one.folder / f"{one.card.name}.png" for one in made}


def _picture(made: Result) -> str:
    return f"{made.card.paper}/{made.folder.name}.png"


def _of_result(made: Result) -> Iterator[str]:
    about = made.manifest
    yield from (f"## {plain(made.card.heading)}", "", f"![{made.card.title}]({_picture(made)})", "")
    if (text := made.folder / f"{made.card.name}.md").exists():
        yield from (*text.read_text().splitlines(), "")
    yield f"**{made.verdict}**. Scale `{made.scale}`; `{about['command']}`, {about['date'][:10]}."
    yield from ("", *(f"- {plain(said)}" for said in about.get("caveats", "").split("; ") if said), "")
    yield from ("| claim | claimed | found | verdict |", "|---|---|---|---|")
    for claim in made.claims:
        ours = "(ours) " if claim.source == Source.OURS else ""
        cells = (ours + plain(claim.text), plain(claim.expected), plain(claim.found), claim.said)
        yield f"| {' | '.join(cells)} |"
    yield ""
    if (table := experiments(made.card.paper)[made.card.name].table) is not None:
        with xr.open_dataset(made.folder / f"{made.card.name}.nc", engine="h5netcdf") as data:
            yield from ("", table(data.load()), "")
