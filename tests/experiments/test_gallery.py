"""Pages of results: every picture that was made, and every claim with its verdict."""

import pytest

from experiments import gallery
from experiments.cards import PAPERS, cards


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_shows_every_picture_and_names_what_was_not_run(paper):
    page, pictures = gallery.page(paper), gallery.pictures(paper)
    for name, file in pictures.items():
        assert f"({name})" in page and file.read_bytes().startswith(b"\x89PNG")
    for card in cards():
        if card.paper == paper:
            shown = any(name.startswith(f"{paper}/{card.name}-") for name in pictures)
            assert shown or card.label in page.partition("## Not run yet")[2]


def test_a_claim_stands_with_its_verdict():
    page = gallery.page("correlated_noise")
    (made,) = gallery.largest(next(card for card in cards() if card.paper == "correlated_noise"))
    lines = page.splitlines()
    for claim in made.claims:
        (line,) = (line for line in lines if line.endswith(f"| {claim.said} |") and claim.text.split("*")[0] in line)
        assert gallery.plain(claim.found) in line
