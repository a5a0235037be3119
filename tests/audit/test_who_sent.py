"""Audits that would find nothing by construction, or compare runs with figures of other runs, are refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import losses, models, simulate
from fedjax_priv.audit import Subject, Worlds, findings, sending
from fedjax_priv.audit.canaries import no_samples
from fedjax_priv.audit.who_sent import check_sent
from fedjax_priv.clients import bernoulli, everyone
from fedjax_priv.ledger import Entry, ledger
from fedjax_priv.ledger.entry import Figure, none
from fedjax_priv.systems import compose, dp_fedavg, secagg
from fedjax_priv.systems.releases import DistributedNoise, Sum

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

    assert refused(of_sum, whole) == refused(of_sum, each) == "subject"
    assert [refused(release, whole, rounds=2) for release in (alone, None)] == [None, None]
    assert refused(of_sum, nothing) is refused(of_sum, whole, view="everybody") is None
    assert refused(alone, each, rounds=2) == refused(None, nothing, each, rounds=2) == "rounds"
    assert refused(alone, each) is None
