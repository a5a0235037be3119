"""A client whose update is too long for the grid fails its round alone: the noise of others does not hide that."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.ledger import ledger, planned, worst
from fedjax_priv.status import Status
from fedjax_priv.systems import cdp_fl, compose

KEY = jax.random.key(9)
N, M, G, SIGMA, DELTA = 100, 4, 30.0, 0.5, 1e-5
FEWER = 2.0**18


def noisy(**how):
    usual = dict(learning_rate=1.0, batch_size=M, num_steps=1, sample_clip=G, gradient_noise=SIGMA)
    return local_sgd(lambda params, x: x @ params, **usual | how)


def with_sample(value):
    """Of client 0, whose other samples have the gradient G; all other clients have 0."""
    examples = np.zeros((N, M, 1))
    examples[0] = G
    examples[0, 0] = value
    return ClientData(jnp.asarray(examples, jnp.float32), jnp.full(N, M, jnp.int32))


def entries(system):
    """Of a round, by adversary."""
    data = with_sample(G)
    run = planned(system, KEY, jnp.zeros(1), data, 1)
    return {entry.view: entry for entry in ledger(system, run, data, delta=DELTA)}


def counts_others(system):
    """Whether the figure of the sum is below that of a client alone; the note says why if not."""
    found = entries(system)
    alone, server = (worst(found[view].proved) for view in ("everybody", "server"))
    assert server <= alone and (server < alone) == ("give fewer levels" not in found["server"].note)
    assert worst(found["device"].proved) <= alone and (found["server"].gaussian == (server < alone))
    return server < alone


made = functools.partial(cdp_fl, num_clients=N)


def statuses(**how):
    """Of a round in which the sample has the gradient of the others, and of one in which it has the opposite."""
    system = made(noisy(), elide=True, **how)
    status = jax.jit(lambda data: system.step(KEY, system.init(KEY, jnp.zeros(1), data), data)[1].status)
    return [int(status(with_sample(value))) for value in (G, -G)]


def test_one_sample_decides_if_a_round_fails():
    """With the default of levels, 100 clients have room for 20 each; the sum then has the figure of one client."""
    assert statuses() == [Status.FIELD_OVERFLOW, 0] and statuses(levels=FEWER) == [0, 0]
    assert not counts_others(made(noisy())) and counts_others(made(noisy(), levels=FEWER))
    composed = functools.partial(compose, noisy(), num_clients=N, secure="enrolled")
    assert not counts_others(composed()) and counts_others(composed(levels=FEWER))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_there_is_room_for_all_gradients_and_twelve_deviations_of_the_noise(momentum):
    """The longest update of 5 steps, by hand, just fits or just does not."""
    tau, rate = 5, 0.1
    noise, velocity = np.zeros(tau), np.zeros(tau)
    for step in range(tau):
        velocity = momentum * velocity + (np.arange(tau) == step)
        noise += rate * velocity
    moved = G * noise.sum() + 12 * SIGMA * np.sqrt((noise**2).sum())
    local = noisy(num_steps=tau, learning_rate=rate, momentum=momentum)
    server = lambda levels: entries(made(local, levels=levels))["server"].note
    levels = (2**32 - 5) // 2 / N / moved
    assert "fewer levels" not in server(0.999 * levels) and "fewer levels" in server(1.001 * levels)
