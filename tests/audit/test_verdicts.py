"""What an audit says of the figures of an entry: contradicted, standing, or out of reach of its trials."""

import numpy as np
import pytest

from fedjax_priv.audit import Finding, Worlds, verdict
from fedjax_priv.audit.bounds.many_runs import NEVER
from fedjax_priv.audit.verdicts import Tried, claims_of, finding
from fedjax_priv.ledger import Entry
from fedjax_priv.ledger.entry import Figure, none
from fedjax_priv.theory import gaussian

DELTA = 1e-4


def entry(claimed=None, proved=None, delta=DELTA, kind=False):
    figure = lambda eps: none("") if eps is None else Figure(eps, delta, "")
    return Entry("the server", "one sample", figure(claimed), figure(proved), gaussian=kind)


def said(entry, mu, trials, elsewhere=(), held=None, looks=1):
    """Of scores that tell the inputs apart by mu standard deviations."""
    noise = np.random.default_rng(0).normal(size=(2, trials))
    noise[0] += mu
    claims = claims_of(entry, elsewhere, held)
    return finding(
        entry, claims, [Tried("score", Worlds(*noise))] * looks, delta=DELTA, confidence=0.95, who="the server"
    )


def test_a_figure_is_contradicted_stands_or_is_out_of_reach():
    """400 runs on each input, of which half count, can show an eps of 4 at most, and show 2.6."""
    found = said(entry(1.0, 3.5), 3.0, 400, held=(50.0, DELTA))
    assert 1.0 < found.at_least < 3.5 < found.limit < 50
    assert (found.contradicts, found.stands, found.untestable) == (["claimed"], ["proved"], {"held": NEVER})


def test_nothing_below_the_limit_is_said_to_stand():
    """The verdict says how many trials could have contradicted it, and so many can."""
    one = entry(proved=6.0)
    found = said(one, 0.0, 1000)
    assert found.limit < 6.0 and found.stands == [] and found.contradicts == []
    needed = found.untestable["proved"]
    assert needed > 1000 and said(one, 0.0, needed).stands == ["proved"]
    assert said(one, 0.0, needed // 2).stands == []
    assert said(one, 20.0, needed).contradicts == ["proved"]


def test_trials_that_a_look_is_about_may_be_too_few():
    """Here 2 and 30 of 1,000: no figure stands, even if a look at all trials that reads no update is there."""
    few, all_trials = Worlds(np.zeros((2, 1)), np.zeros((30, 1))), Worlds(np.zeros(1000), np.zeros(1000))
    tried, one = [Tried("in it", few), Tried("counted", all_trials, reads_updates=False)], entry(proved=1.0)
    found = finding(one, claims_of(one, [], None), tried, delta=DELTA, confidence=0.95, who="", trials=1000)
    assert (found.at_least, found.limit, found.counted) == (0.0, 0.0, "30 and 2 runs are too few")
    assert found.stands == [] and found.untestable["proved"] > 1000 / 2 * 4
    one = entry(proved=0.1)  # which 4 trials that are told apart could contradict at so low a confidence
    found = finding(one, claims_of(one, [], None), tried[:1], delta=DELTA, confidence=0.1, who="", trials=1000)
    assert found.stands == [] and found.untestable == {"proved": 2000}


def test_a_curve_is_tested_where_its_figure_cannot_be():
    mu = 1.0
    at = lambda delta: entry(proved=float(gaussian.epsilon(delta, mu)), delta=delta)
    elsewhere = [at(delta) for delta in (1e-3, 0.01, 0.1, 0.2, 0.3)]
    alone, whole = said(at(DELTA), 2.5, 300), said(at(DELTA), 2.5, 300, elsewhere)
    assert alone.untestable == {"proved": 336} and not alone.contradicts
    assert whole.contradicts == ["proved"] and whole.at_least < alone.at_least  # two tests share the error
    honest = said(at(DELTA), mu, 300, elsewhere)  # a curve that stands does not make its figure testable
    assert honest.stands == [] and honest.untestable["proved"] > 300 and not honest.contradicts
    assert said(at(DELTA), mu, 1000, elsewhere).stands == ["proved"]


def test_a_gaussian_mechanism_has_a_bound_on_mu():
    plain, whole = (said(entry(proved=14.0, kind=kind), 2.5, 1000) for kind in (False, True))
    assert plain.at_least < 4 < 8 < whole.at_least < gaussian.epsilon(DELTA, 2.5)
    assert not plain.gaussian and whole.gaussian and whole.limit > 3 * plain.limit
    assert plain.untestable and whole.stands == ["proved"]


@pytest.mark.parametrize(
    ("mu", "factor", "trials", "verdict"),
    [
        (1.0, 2, 1000, "contradicts"), (0.2, 2, 1000, "stands"), (0.2, 2, 16_000, "contradicts"),
        (0.2, 4, 1000, "contradicts"), (1.0, 1, 16_000, "stands"),
    ],
)  # fmt: skip
def test_half_of_the_noise_is_seen_where_eps_is_not_small(mu, factor, trials, verdict):
    """As the guide says: what passes as a figure that stands, and that more trials see it."""
    one = said(entry(proved=float(gaussian.epsilon(DELTA, mu)), kind=True), factor * mu, trials, looks=6)
    assert getattr(one, verdict) == ["proved"]


def test_looks_share_the_error():
    one, many = said(entry(proved=3.0), 4.0, 1000), said(entry(proved=3.0), 4.0, 1000, looks=50)
    assert many.at_least < one.at_least and many.limit < one.limit


def test_a_figure_that_is_none_elsewhere_is_tested_where_it_is_not():
    claims = claims_of(entry(2.0), [entry(None, delta=0.1), entry(1.0, delta=0.2)], (3.0, DELTA))
    assert claims == {"claimed": [(2.0, DELTA), (1.0, 0.2)], "held": [(3.0, DELTA)]}
    assert claims_of(entry(), [], None) == {}
    vacuous = said(entry(2.0, delta=1.0), 4.0, 400)
    assert vacuous.untestable == {"claimed": NEVER}
    for eps, contradicts in ((1.0, ["claimed"]), (50.0, [])):  # a curve does not make a vacuous figure testable
        found = said(entry(2.0, delta=1.0), 4.0, 400, [entry(eps, delta=0.01)])
        assert found.contradicts == contradicts and found.untestable == {"claimed": NEVER} and not found.stands
    found = said(entry(2.0, delta=1.0), 4.0, 400, [entry(2.9, delta=0.01)])
    assert found.limit > 2.9 and found.untestable == {"claimed": NEVER} and not found.stands


@pytest.mark.parametrize(
    ("contradicts", "stands", "untestable", "words"),
    [
        (["claimed", "proved"], [], {}, "contradicts what is claimed and what is proved"),
        ([], ["claimed", "proved"], {}, "stands"),
        (["claimed"], ["proved"], {}, "contradicts what is claimed; what is proved stands"),
        ([], [], {"proved": 12345}, "not testable: what is proved needs 12,345 trials"),
        ([], ["claimed"], {"proved": NEVER, "held": 99},
         "not testable: what is proved needs more trials than there can be, the eps it is held to needs 99 trials; "
         "what is claimed stands"),
        ([], [], {}, "no guarantee to contradict"),
    ],
)  # fmt: skip
def test_verdicts_in_words(contradicts, stands, untestable, words):
    one = Finding("who", "what", "label", 1.0, 2.0, 3.0, 1e-3, 0.95, 5.0, "", contradicts, stands, untestable)
    assert verdict(one) == words
