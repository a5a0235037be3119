"""The card of audits: which of its claims have a verdict, and whose they are."""

import jax
import numpy as np
import pytest

from experiments.audit.all_systems import WHO, of_row
from experiments.audit.cases import cases, subject
from experiments.audit.private_cases import again, sound, twins
from experiments.audit.private_training import caught
from experiments.claims import Open, Source
from fedjax_priv.audit import Worlds
from fedjax_priv.audit.verdicts import Tried, claims_of, finding
from fedjax_priv.ledger import Entry, Figure
from fedjax_priv.ledger.entry import none
from fedjax_priv.server_noise import tree


def found(apart, trials, claimed, proved):
    """What an audit says of one entry, after so many runs whose scores are apart by so much."""
    noise = np.random.default_rng(0).normal(size=(2, trials))
    figures = [none("") if eps is None else Figure(eps, 1e-4, "") for eps in (claimed, proved)]
    entry = Entry("the server", "one sample", *figures)
    about = {"delta": 1e-4, "confidence": 0.99, "who": entry.adversary}
    return finding(entry, claims_of(entry, [], None), [Tried("label", Worlds(noise[0] + apart, noise[1]))], **about)


def row(*given):
    """The claims of one entry."""
    one = found(*given)
    return {claim.id.split(": ")[1]: claim for claim in of_row("case", one)}


def test_a_figure_that_so_few_trials_cannot_contradict_is_not_testable():
    claims = row(20.0, 400, 88.0, 1.0)
    assert claims["claimed"].verdict is None and claims["claimed"].why == Open.UNTESTABLE
    assert "could have been shown: it takes" in claims["claimed"].control
    assert claims["proved"].verdict is False and claims["proved"].control == ""
    assert row(0.0, 400, 2.0, 1.0)["claimed"].verdict is True


@pytest.mark.parametrize(("eps_elsewhere", "verdict"), [(0.5, False), (20.0, None)])
def test_a_figure_contradicted_at_another_delta_is_no_figure_out_of_reach(eps_elsewhere, verdict):
    """At its own delta no 400 trials could contradict it; the table and the picture say what the curve showed."""
    noise = np.random.default_rng(0).normal(size=(2, 400))
    at = lambda eps, delta: Entry("the server", "one sample", none(""), Figure(eps, delta, ""))
    one = finding(
        at(88.0, 1e-4), claims_of(at(88.0, 1e-4), [at(eps_elsewhere, 0.1)], None),
        [Tried("label", Worlds(noise[0] + 3, noise[1]))], delta=1e-4, confidence=0.99, who="the server",
    )  # fmt: skip
    assert one.untestable and (one.contradicts == ["proved"]) is (verdict is False)
    (claim,) = of_row("case", one)
    assert claim.verdict is verdict and claim.said == ("does not hold" if verdict is False else "not testable here")
    assert caught("twin", one).verdict is (None if verdict is None else True)


def test_that_a_sum_without_noise_has_no_bound_is_no_claim_of_a_paper():
    for apart, verdict in ((20.0, True), (1.0, False)):
        (claim,) = row(apart, 400, None, None).values()
        assert claim.verdict is verdict and claim.source == Source.OURS


def test_systems_with_masks_are_audited_with_them_too():
    """Without a twin there is no view of an upload alone."""
    every = cases()
    masked = {name for name, case in every.items() if case.unmasked is not None}
    assert masked == {"SecAgg", "SparseSecAgg", "FedREP", "CDP-FL", "DP-SGD"} and "upload" in WHO
    own = subject(every["CDP-FL"], 0)
    assert own.training is not None and own.unmasked is not None


def test_a_twin_must_be_contradicted_to_be_caught():
    verdicts = [caught("twin", found(apart, 400, None, eps)).verdict for apart, eps in ((20, 1), (0, 1), (0, 88))]
    assert verdicts == [True, False, None]


def test_every_twin_stands_for_a_sound_system():
    assert {twin.of for twin in twins().values()} == set(sound())


def test_rows_that_come_again_are_the_first_ones():
    real, d = again(tree(2), 2), 3
    state, rows = real.init(d), []
    for t in range(4):
        row, state = real.draw(jax.random.fold_in(jax.random.key(0), t), state, d)
        rows.append(np.asarray(row))
    np.testing.assert_array_equal(rows[:2], rows[2:])
    assert np.abs(rows[0] - rows[1]).min() > 0
