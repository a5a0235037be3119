"""Rules of verdicts: what runs with several seeds decide, and how a verdict speaks of the setting of its run."""

import pathlib
from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr

from experiments.cards import Card, Result
from experiments.checks import _of_claims
from experiments.claims import Claim, Source, undecided, untestable
from experiments.comparison import MARGIN, SMALL, Gap, better_somewhere, decided, gap, over_seeds
from experiments.fedrep.figures import FIGURES
from experiments.harness import plain_claim, read_claim
from experiments.setting import differences

YES, NO, NOT_DECIDED = 1, -1, 0


def of(mean, noise):
    return Gap(xr.DataArray(mean), xr.DataArray(noise))


@pytest.mark.parametrize(
    ("mean", "noise", "above", "clear", "small", "at_least"),
    [
        (0.05, 0.01, YES, YES, NO, YES),
        (0.05, 0.06, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED, YES),
        (0.008, 0.001, YES, NO, YES, YES),  # better, but not by a point
        (0.008, 0.004, YES, NOT_DECIDED, YES, YES),
        (0.0, 0.002, NO, NO, YES, YES),  # a tie: not better, and at least as good
        (0.0, 0.03, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED),
        (-0.05, 0.01, NO, NO, NO, NO),
        (-0.05, 0.2, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED),
        (0.05, np.inf, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED),  # one seed
        (np.nan, 0.01, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED, NOT_DECIDED),
    ],
)
def test_what_an_interval_decides(mean, noise, above, clear, small, at_least):
    found = of(mean, noise)
    answers = found.above(), found.clear(), found.small(), found.at_least()
    assert [int(one) for one in answers] == [above, clear, small, at_least]
    assert decided(found.above()) == {YES: True, NO: False, NOT_DECIDED: None}[above]


def test_limits_are_where_they_are_said_to_be():
    assert int(of(0.0, MARGIN * 1.01).above()) == NOT_DECIDED and int(of(0.0, MARGIN * 0.99).above()) == NO
    assert int(of(SMALL, SMALL).small()) == YES and int(of(SMALL * 1.01, 0.001).small()) == NO
    assert int(of(-0.01, 0.0099).at_least(0.02)) == YES and int(of(-0.01, 0.0101).at_least(0.02)) == NOT_DECIDED


def test_the_best_of_many_equal_places_is_not_better():
    """Eight ties with three seeds: at 95% each, some place is above 0 by chance in one of six data sets."""
    said = lambda values: decided(better_somewhere(values, 0.005, "x"))
    of = lambda rows: xr.DataArray(rows, dims=("x", "seed"))
    ties = [said(of(0.001 * np.random.default_rng(seed).normal(size=(8, 3)))) for seed in range(200)]
    assert np.mean([tie is True for tie in ties]) < 0.06
    flat = np.array([0.0, 1e-4, -1e-4])
    assert said(of([flat, flat + 0.02])) is True and said(of([flat, flat - 0.02])) is False
    assert said(of([flat, flat])) is False, "equal everywhere, as sure as that"
    assert said(of([100 * flat, flat + 0.02])) is None, "it may be worse"
    assert said(of([flat, 150 * flat + 0.004])) is None, "nothing is above yet"


def test_one_no_is_a_no_and_one_that_is_open_leaves_all_open():
    several = of([0.05, 0.0, -0.05], [0.01, 0.03, 0.01]).above()
    assert several.values.tolist() == [YES, NOT_DECIDED, NO]
    assert decided(several) is False and decided(several[:2]) is None and decided(several[:1]) is True


def test_noise_is_student_s_and_differences_are_paired():
    values = xr.DataArray([[0.50, 0.52, 0.54], [0.60, 0.62, 0.64]], dims=("curve", "seed"))
    np.testing.assert_allclose(over_seeds(values).noise, 4.303 * 0.02 / 3**0.5, rtol=1e-3)
    apart = gap(values[1], values[0])
    assert apart.text() == "+10 +- 0" or float(apart.noise) < 1e-12
    assert gap(values[1, :1], values[0, :1]).text() == "+10 (one seed)"


def test_a_seed_without_a_value_leaves_all_open():
    lost, whole = (xr.DataArray(values, dims="seed") for values in ([0.9, np.nan, 0.5], [0.2] * 3))
    apart = gap(lost, whole)
    answers = [apart.above(), apart.clear(), apart.small(), apart.at_least(), apart.bites(0.6), apart.bites(0.4)]
    assert [int(answer) for answer in answers] == [NOT_DECIDED] * 6
    assert apart.text() == "+nan +- nan"


CLAIM = Claim("x", "x", "1", "1", True, "rule", differs="")


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (CLAIM, "holds"),
        (CLAIM._replace(verdict=False), "does not hold"),
        (CLAIM._replace(differs="mnist"), "agrees in trend"),
        (CLAIM._replace(differs="mnist", verdict=False), "differs in trend"),
        (CLAIM._replace(differs="mnist", verdict=False, source=Source.OURS), "does not hold"),
        (CLAIM._replace(verdict=None), "not tested at this scale"),
        (undecided(CLAIM, "at the edge"), "not decided"),
        (untestable(CLAIM, "the mean loses 1.2 points"), "not testable here"),
    ],
)
def test_the_words_of_a_verdict_and_its_fields_in_a_file(claim, said):
    assert claim.said == said
    fields = plain_claim(claim)
    assert ("why" in fields) == (claim.verdict is None)
    assert read_claim(**fields).said == said
    assert {**fields, "why": 0} == {**plain_claim(read_claim(**fields)), "why": 0}


def result(*claims):
    return Result(Card("paper", "fig1", "Fig. 1", "x"), "cpu", pathlib.Path(), list(claims), {})


def test_a_card_counts_claims_of_one_kind():
    trend, ours = CLAIM._replace(differs="mnist", verdict=False), CLAIM._replace(source=Source.OURS, verdict=False)
    no_control = untestable(CLAIM, "the mean loses 1 point")
    for made, verdict, counts in [
        (result(CLAIM, trend, ours), "holds", (1, 1)),
        (result(trend, trend._replace(verdict=True), ours), "agrees in part", (1, 2)),
        (result(trend, ours), "differs in trend", (0, 1)),
        (result(trend, no_control._replace(differs="mnist")), "differs in trend", (0, 1)),
        (result(no_control, ours), "not testable here", (0, 0)),
        (result(undecided(CLAIM, "x"), CLAIM._replace(verdict=None)), "not decided", (0, 0)),
        (result(ours), "does not hold", (0, 1)),
    ]:
        assert (made.verdict, made.counts) == (verdict, counts)


def test_a_claim_must_say_its_setting_and_show_its_control():
    assert list(_of_claims(result(CLAIM, untestable(CLAIM._replace(id="y"), "mean: 1 point")))) == []
    (missing,) = _of_claims(result(CLAIM._replace(differs=None)))
    assert "does not say how its setting differs" in missing
    (missing,) = _of_claims(result(untestable(CLAIM, "")))
    assert "without a control" in missing


def test_differences_are_of_what_is_run():
    scales = FIGURES["fig3"].scales
    assert differences(scales["paper"], scales["paper"]) == ""
    fewer = scales["paper"]._replace(alphas=(0.0, 1.0), seed=3)
    assert differences(fewer._replace(setting=fewer.setting._replace(repeats=9, rates=(0.1,))), scales["paper"]) == ""
    assert differences(fewer._replace(alphas=(0.0, 0.7)), scales["paper"]).startswith("alphas 0.0 0.7 (paper: 0.0 0.2")
    found = differences(scales["quick"], scales["paper"])
    assert "dataset digits (paper: cifar10)" in found and "num_byzantine 1 (paper: 7)" in found
    one = fewer.setting._replace(num_clients=16)
    assert differences(fewer._replace(setting=one), scales["paper"]) == "num_clients 16 (paper: 32)"


def test_layers_of_a_network_are_no_axis():
    class Network(NamedTuple):
        hidden: tuple[int, ...]

    assert differences(Network((200,)), Network((200, 200))) == "hidden 200 (paper: 200 200)"
    assert differences(Network((200, 200)), Network((200, 100))) == "hidden 200 200 (paper: 200 100)"
