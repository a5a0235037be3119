"""Coins over the air of groups that take turns: all of a group toss them, and nobody else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv import systems
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.clients import cyclic_poisson, poisson
from fedjax_priv.ledger import ledger, planned, worst

CLIENTS, L, NOISE, N0, DELTA = 600, 0.5, 0.01, 1e-3, 1e-7


def attained(eps, group, rate):
    """The delta of one client at L u in one input and -L u in the other, all others at -L u, given how many send."""
    senders = np.arange(1, group + 1)
    share, s = senders / group, 2 * L / np.sqrt(NOISE * senders + N0)
    raised = np.log1p(np.expm1(eps) / share)
    tail = np.exp(raised + stats.norm.logcdf(-s / 2 - raised / s))
    return (stats.binom.pmf(senders, group, rate) * share) @ (stats.norm.cdf(s / 2 - raised / s) - tail)


def with_coins(clients, draw):
    return systems.compose(
        sending(jnp.zeros((clients, 2))), num_clients=clients, channel="multiple_access", private="local", clip=L,
        noise_variance=NOISE, receiver_noise=N0, cohort=draw, mesh=None,
    )  # fmt: skip


def test_one_round_is_as_private_as_the_group_makes_it():
    """A group of 60 fills 40 places."""
    separation, rate = 10, 0.2
    system = with_coins(CLIENTS, cyclic_poisson(rate, separation))
    data = no_samples(CLIENTS)
    run = planned(system, jax.random.key(0), jnp.zeros(2), data, rounds=1)
    assert run.sizes["client"] == 40
    eps = worst(ledger(system, run, data, delta=DELTA)[0].proved)
    assert attained(eps, CLIENTS // separation, rate) == pytest.approx(DELTA, rel=1e-3)


def test_clients_that_come_by_luck_in_turns_have_none():
    """Even numbers in one round and odd ones in the next are no groups: everybody tosses a coin in both."""
    n, rate = 60, 0.002
    system, data = with_coins(n, poisson(rate)), no_samples(n)
    run = planned(system, jax.random.key(0), jnp.zeros(2), data, rounds=2)
    places = run.sizes["client"]
    in_turns = 2 * np.arange(places)[None] + np.arange(2)[:, None]
    lucky = run.assign(client_id=(("round", "client"), in_turns))
    eps = [worst(ledger(system, each, data, delta=DELTA)[0].proved) for each in (run, lucky)]
    assert eps[0] == eps[1] > 0
