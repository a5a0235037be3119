"""Cards: every figure and table has one, verdicts follow from claims, and the committed table is current."""

import pathlib

import pytest

from experiments import cards, table
from experiments.cards import Card, Result
from experiments.checks import problems
from experiments.claims import Claim, Open, Source
from experiments.expected import AT_QUICK

RESULTS = cards.HERE / "results"
OF_THE_PAPERS = {  # those with results
    "cdp_fl": ["Fig. 3", "Fig. 4", "Fig. 5", "Fig. 6", "Fig. 7", "Fig. 8"],
    "fedrep": [*(f"Fig. {number}" for number in range(1, 8)), "Fig. 8 to 11", "Fig. 12", "Table 1"],
    "sparse_secagg": ["Fig. 2", "Fig. 3", "Fig. 4", "Fig. 5", "Fig. 6", "Table I"],
    "wireless": ["Fig. 2 and Table I", "Fig. 3", "Fig. 4 and Table II", "Fig. 5 and Table III", "Fig. 6", "Fig. 7"],
}  # fmt: skip


@pytest.mark.parametrize("paper", OF_THE_PAPERS)
def test_every_figure_and_table_has_a_card(paper):
    assert [card.makes for card in cards.cards(paper) if card.makes] == OF_THE_PAPERS[paper]


def test_every_folder_with_a_table_is_a_paper_and_every_experiment_has_all_scales():
    assert {file.parent.name for file in cards.HERE.glob("*/figures.py")} == cards.PAPERS.keys()
    for paper in cards.PAPERS:
        for name, experiment in cards.experiments(paper).items():
            assert {*cards.SCALES} - {"short"} <= experiment.scales.keys() <= {*cards.SCALES}, f"{paper} {name}"


def test_expected_verdicts_are_of_cards_and_claims_that_exist():
    """Scale `short` may be a part of a card, without some of its claims."""
    assert AT_QUICK.keys() <= {f"{card.paper}.{card.name}" for card in cards.cards()}
    for card in cards.cards():
        whole = (scale for scale in cards.SCALES if scale != "short")
        made = [made for scale in whole if (made := cards.result(card, scale, RESULTS))]
        if made:
            ids = {claim.id for result in made for claim in result.claims}
            assert AT_QUICK.get(f"{card.paper}.{card.name}", {}).keys() <= ids


def test_cards_are_chosen_by_name():
    assert cards.chosen(None, None) == cards.cards()
    assert {card.paper for card in cards.chosen("wireless", None)} == {"wireless"}
    (card,) = cards.chosen("fedrep", "fig8")
    assert card.heading.startswith("Fig. 8 to 11: FedREP")
    with pytest.raises(ValueError, match=r"paper must be one of .*cdp_fl, .*fedrep, .*; got nobody"):
        cards.chosen("nobody", None)
    with pytest.raises(ValueError, match=r"figure must be one of fig3 \(Fig. 3\), fig4 .* for cdp_fl; got fig1"):
        cards.chosen("cdp_fl", "fig1")
    assert {card.name for card in cards.chosen("fedrep", None, "short")} == {"fig1", "fig6"}
    with pytest.raises(ValueError, match="scale must be one of quick, cpu, paper for fig2; got short"):
        cards.chosen("fedrep", "fig2", "short")
    with pytest.raises(ValueError, match="scale must be one of quick, cpu, paper for wireless; got short"):
        cards.chosen("wireless", None, "short")
    with pytest.raises(ValueError, match="scale must be one of .* for all papers; got long"):
        cards.chosen(None, None, "long")
    with pytest.raises(ValueError, match=r"fig8 \(Fig. 8 to 11\), .*, table1 \(Table 1\), grid for fedrep; got fig9"):
        cards.chosen("fedrep", "fig9")


def claim(verdict, source=Source.PAPER):
    return Claim("reaches", "reaches 97%", "97%", "96%", verdict, source=source)


BETTER = claim(None)._replace(why=Open.BETTER)


@pytest.mark.parametrize(
    ("claims", "verdict", "counts"),
    [
        ([claim(True), claim(True), claim(None)], "holds", (2, 2)),
        ([claim(True), claim(False)], "holds in part", (1, 2)),
        ([claim(False)], "does not hold", (0, 1)),
        ([claim(True), BETTER, BETTER], "holds; 2 better than printed", (1, 1)),
        ([claim(True), claim(False), BETTER], "holds in part; 1 better than printed", (1, 2)),
        ([BETTER], "better than printed", (0, 0)),
        ([claim(None)], "not tested at this scale", (0, 0)),
        ([claim(True), claim(False, Source.OURS)], "holds", (1, 1)),
        ([claim(False, Source.OURS), claim(True, Source.OURS)], "holds in part", (1, 2)),
    ],
)
def test_a_card_s_verdict_is_that_of_the_paper_s_claims(claims, verdict, counts):
    made = Result(Card("paper", "fig1", "Fig. 1", "x"), "quick", pathlib.Path(), claims, {})
    assert (made.verdict, made.counts) == (verdict, counts)


def test_the_committed_table_is_that_of_the_committed_results():
    assert (RESULTS / "README.md").read_text() == table.table(), "run: python -m experiments.table"


def test_the_table_leaves_nothing_out():
    text = table.table()
    folders = {file.parent for card in cards.cards() for file in (RESULTS / card.paper).glob("*/*")}
    assert folders and all(f"]({folder.relative_to(RESULTS).as_posix()}/verdicts.json)" in text for folder in folders)
    assert all(f"**{table.plain(card.heading)}**" in text for card in cards.cards())
    papers = {folder.parent.name for folder in RESULTS.glob("*/*-*") if folder.is_dir()}
    assert papers <= {card.paper for card in cards.cards()}


@pytest.mark.parametrize("card", cards.cards(), ids=lambda card: f"{card.paper}.{card.name}")
def test_committed_results_are_whole(card):
    for scale in cards.SCALES:
        made = cards.result(card, scale, RESULTS)
        assert made is None or set(problems(made)) <= {"manifest.json lacks seconds"}  # which older ones do
        assert made is None or all(claim.rule for claim in made.claims)


def test_text_stays_text_in_the_table():
    assert table.plain("E[F(w_J)] - F* <= |x|") == r"E\[F(w\_J)] - F\* \<= \|x\|"
