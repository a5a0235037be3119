"""Which look counts, and how looks share the probability of error."""

import types

import jax
import numpy as np
import pytest

from fedjax_priv.audit import Canary, Look, Subject, Worlds, findings, ledger_entries, two_worlds
from fedjax_priv.ledger import Entry
from fedjax_priv.ledger.entry import Figure, none

DELTA = 1e-3
RNG = np.random.default_rng(0)


def entry(claimed=None, proved=None):
    figure = lambda eps: none("") if eps is None else Figure(eps, DELTA, "")
    return Entry("the server", "one sample", figure(claimed), figure(proved))


@pytest.fixture
def seen(monkeypatch):
    """Findings of an entry from given scores, `{look: (first, second)}`, without a system."""

    def of(worlds, *entries, **options):
        tried = [Look(name, Canary((name, name), print, print, print), id) for name in worlds]
        monkeypatch.setattr(ledger_entries, "looks", lambda _, entries, *__, **___: [list(tried) for _ in entries])

        def scores(make, family, score, *_, **__):
            del make
            return [Worlds(*zip(*[worlds[canary.inputs[0]]] * len(score(None)), strict=True)) for canary in family]

        monkeypatch.setattr(ledger_entries, "scores_of_family", scores)
        monkeypatch.setattr(ledger_entries, "scores_of_draws", lambda *_, **__: None)
        monkeypatch.setattr(ledger_entries, "sent", id)
        monkeypatch.setattr(ledger_entries, "check_sent", lambda *_, **__: None)
        data = types.SimpleNamespace(count=np.ones(2))
        subject = Subject(None, None, None, np.zeros(3), data, None)
        return findings(subject, entries, jax.random.key(0), trials=2000, delta=DELTA, **options)

    return of


def test_the_look_that_shows_the_most_counts_and_looks_share_the_error(seen):
    """Of three looks the second coordinate of one tells the inputs apart; its level is a third of 5%."""
    noise = RNG.normal(size=(4, 2000, 2))
    told = noise[2] + [0.0, 3.0], noise[3]
    (found,) = seen({"blind": noise[:2], "sharp": told, "blind too": noise[1::-1]}, entry(1.0, 9.0))
    alone = two_worlds(*told, delta=DELTA, confidence=1 - 0.05 / 3)
    assert (found.look, found.at_least, found.confidence) == ("sharp", alone.epsilon, 0.95)
    assert 2.0 < found.at_least < two_worlds(*told, delta=DELTA).epsilon
    assert found.contradicts == ["claimed"]


def test_a_figure_is_contradicted_by_any_look(seen):
    noise = RNG.normal(size=(2, 2000))
    told = noise[0] + 3.0, noise[1]
    for worlds in ({"one": noise, "two": told}, {"one": told, "two": noise}):
        assert [one.contradicts for one in seen(worlds, entry(1.0), entry(proved=1.0))] == [["claimed"], ["proved"]]


def test_a_canary_of_samples_is_about_replacement_alone(seen):
    """It moves what a client sends by up to 2 C; a figure of a client that sends or not is for C."""
    noise = RNG.normal(size=(2, 2000))
    worlds = {"label": (noise[0] + 3.0, noise[1])}
    silent, replaced = entry(proved=1.0)._replace(neighbours="zero-out"), entry(proved=9.0)
    at = lambda delta: [silent, replaced]
    for kind in ("label", "sample"):
        (found,) = seen(worlds, silent, replaced, kind=kind, at=at)
        assert found.proved == 9.0 and not found.contradicts
    assert [one.contradicts for one in seen(worlds, silent, replaced, kind="direction")] == [["proved"], []]
    with pytest.raises(ValueError, match="canary must be 'direction' where no entry is about replacement, got 'label'"):
        seen(worlds, silent, kind="label")
