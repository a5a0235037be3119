"""Audits that would find nothing by construction, or compare runs with figures of other runs, are refused."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import losses, models, simulate
from fedjax_priv.audit import Subject, Worlds, findings, ledger_entries, sending
from fedjax_priv.audit.canaries import no_samples
from fedjax_priv.audit.who_sent import check_sent, drawn, sent
from fedjax_priv.audit.worlds import Canary, scores, scores_of_draws
from fedjax_priv.clients import bernoulli, everyone
from fedjax_priv.ledger import Entry, ledger
from fedjax_priv.ledger.entry import Figure, none
from fedjax_priv.systems import compose, dp_fedavg, secagg
from fedjax_priv.systems.releases import DistributedNoise, LocalNoise, Sum

N, D, DELTA = 5, 8, 1e-3
LOCAL, DATA = sending(jnp.zeros((N, D))), no_samples(N)
LOSS = losses.softmax_cross_entropy(models.softmax_regression((3,), 2))
NOISY = functools.partial(
    secagg, num_clients=N, threshold=3, clip=1.0, noise_variance=4.0, levels=64.0, elide=True, mesh=None, block=N
)
OURS = functools.partial(compose, num_clients=N, private="local", clip=1.0, noise_variance=4.0, mesh=None, block=N)
COINS = functools.partial(dp_fedavg, num_clients=N, noise_multiplier=2.0, dropout=0.5, mesh=None, block=N)


def audited(make, rounds=1, trials=40, view="server"):
    """What is found of the figures of a run."""
    system = make(LOCAL)
    run = simulate(system, jax.random.key(0), jnp.zeros(D), DATA, rounds=rounds, progress=False)
    entries = [one for one in ledger(system, run, DATA, delta=DELTA) if one.view == view]
    subject = Subject(
        lambda local, observe: make(local, observe=observe), LOCAL, LOSS, jnp.zeros(D), DATA, system.release
    )
    how = {"trials": trials, "rounds": rounds, "delta": DELTA, "kind": "direction"}
    return findings(subject, entries, jax.random.key(1), **how)


@pytest.mark.parametrize(
    "cohort",
    [
        bernoulli(np.array([0.0, 1.0, 1.0, 1.0, 1.0])),
        everyone(num_byzantine=1),
        everyone(num_byzantine=np.arange(N) == 0),
    ],
    ids=["never drawn", "Byzantine", "Byzantine by a mask"],
)
def test_a_canary_whose_client_never_sends_is_refused(cohort):
    with pytest.raises(
        ValueError, match="client 0, which has the canary, can send .* sent none in 80 runs of 1 round$"
    ):
        audited(functools.partial(OURS, cohort=cohort))


@pytest.mark.parametrize(
    ("make", "how", "told"),
    [
        (functools.partial(OURS, cohort=bernoulli(np.arange(N) / (N - 1))), {}, "it sent none in 80 runs of 1 round$"),
        (functools.partial(OURS, cohort=everyone(num_byzantine=1)), {}, "it sent none in 80 runs of 1 round$"),
        (
            functools.partial(COINS, dropout=0.0, sampling_rate=0.5),
            {"rounds": 3, "view": "device"},
            "^rounds must be 1",
        ),
    ],
    ids=["never drawn", "Byzantine", "coins"],
)
def test_what_the_draws_alone_tell_is_refused_before_any_trial(make, how, told, monkeypatch):
    monkeypatch.setattr(ledger_entries, "scores_of_family", lambda *_, **__: pytest.fail("a trial was run"))
    with pytest.raises(ValueError, match=told):
        audited(make, **how)


def test_draws_are_checked_with_the_keys_of_the_trials(monkeypatch):
    """Nobody is lost here: the check is told the same before and after the trials."""
    told = []
    monkeypatch.setattr(ledger_entries, "check_sent", lambda uploads, **_: told.append(uploads))
    audited(functools.partial(OURS, cohort=bernoulli(np.full(N, 0.5))))
    before, after = told
    assert len(np.unique(before.first, axis=0)) > 2
    np.testing.assert_array_equal(before.first, after.first)
    np.testing.assert_array_equal(before.second, after.second)


def test_draws_that_are_counted_are_those_of_the_trials():
    """Nobody is lost here, so those who are drawn are those who sent, trial by trial and on both inputs."""
    make = lambda local, observe: OURS(local, cohort=bernoulli(np.full(N, 0.5)), observe=observe)
    inputs = jnp.zeros((3, N, D)), jnp.ones((3, N, D))
    canary = Canary(inputs, sending, lambda given: DATA, lambda params: jnp.eye(D)[0], variants=3)
    about: Any = dict(params=jnp.zeros(D), trials=9, rounds=4)
    before = scores_of_draws(make, canary, drawn, jax.random.key(3), at_once=2, **about)
    after = scores(make, canary, sent, jax.random.key(3), **about)
    for mine, theirs in zip(before, after, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert len(np.unique(before.first, axis=0)) > 3 and (before.first != before.second).any()


def test_an_algorithm_without_a_draw_is_refused():
    make = lambda local, observe: OURS(local, observe=observe)._replace(draw=None)
    canary = Canary((jnp.zeros((N, D)), jnp.ones((N, D))), sending, lambda given: DATA, lambda params: jnp.eye(D)[0])
    with pytest.raises(ValueError, match="^make must return an algorithm that has a draw, .* got one without"):
        scores_of_draws(make, canary, drawn, jax.random.key(3), params=jnp.zeros(D), trials=2, rounds=1, at_once=2)


@pytest.mark.parametrize("cohort", [everyone(), everyone(num_byzantine=np.arange(N) == 1)], ids=["all", "another"])
def test_control_a_canary_whose_client_sends(cohort):
    assert audited(functools.partial(OURS, cohort=cohort))


def test_rounds_that_count_at_random_are_refused():
    """Of a client that sees who came: its figure counts the rounds of those who arrived. One round is the control."""
    with pytest.raises(ValueError, match="^rounds must be 1 where .* random, got 3: client 0 sent in 0 to 3 of them"):
        audited(COINS, rounds=3, view="device")
    assert audited(COINS, view="device") and audited(functools.partial(COINS, dropout=0.0), rounds=3, view="device")


def test_uploads_that_are_lost_with_their_noise_are_refused():
    with pytest.raises(
        ValueError, match="^subject must be a system that loses no upload .* runs had [0-3] to 5 uploads"
    ):
        audited(functools.partial(NOISY, dropout=0.4))
    assert audited(NOISY) and audited(functools.partial(NOISY, dropout=0.4), view="everybody")


def test_each_figure_is_asked_what_it_counts():
    """Whose sums hold the noise of others, and which figures are of each client."""
    each, whole, nothing = Figure(np.array([1.0, 2.0]), DELTA, ""), Figure(2.0, DELTA, ""), none("")
    of_sum, alone = (Sum(DistributedNoise(4.0, 8.0, 1.0, group_size=size)) for size in (N, 1))
    differ = Worlds(np.array([[1, 5], [0, 4]]), np.array([[1, 5], [1, 5]]))

    def refused(release, proved, claimed=nothing, rounds=1, view="server"):
        try:
            return check_sent(differ, [Entry("", "", claimed, proved, view=view)], release, rounds)
        except ValueError as error:
            return str(error).partition(" must")[0]

    of_steps = LocalNoise(secure=True, levels=8.0, max_terms=N)
    assert refused(of_sum, whole) == refused(of_sum, each) == refused(of_steps, each) == "subject"
    assert [refused(release, whole, rounds=2) for release in (alone, None)] == [None, None]
    assert refused(of_sum, nothing) is refused(of_sum, whole, view="everybody") is None
    assert refused(of_steps, each, view="everybody") is None
    assert refused(alone, each, rounds=2) == refused(None, nothing, each, rounds=2) == "rounds"
    assert refused(alone, each) is None
