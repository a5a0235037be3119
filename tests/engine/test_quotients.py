"""Quotients by one number, and the weights of clients, in programs that are optimised as those of users are."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems.same_parts import alike, parts_of

from experiments.compiling import FAST_FLAGS
from fedjax_priv import base, systems
from fedjax_priv.channels import Fading
from fedjax_priv.clients import bounded, channel_aware
from fedjax_priv.engine.quotients import quotient
from fedjax_priv.layers import align, invert_gains, plain_field
from helpers import cohort_of, mesh_of, same_bits, targets, towards_target

KEY, WHO = jax.random.key(3), cohort_of(6)
GAIN = np.random.default_rng(0).uniform(0.1, 2.0, 6).astype(np.float32)
X = np.random.default_rng(1).normal(size=(6, 1)).astype(np.float32)


def clipped(x, who, number):
    """One coordinate."""
    data = base.ClientData(x, jnp.ones(len(x), jnp.int32))
    return bounded(towards_target(), clip=number).apply(KEY, (), jnp.zeros(1), data, who)[0]


def voted(x, who, number):
    lie = who._replace(byzantine=jnp.ones(len(x), bool))
    return invert_gains(number, byzantine_power=1.0).encode(KEY, (), (), x, lie)[2].measured["amplitude"]


def aligned(x, who, number):
    layer = align(0.0, max_norm=number, power=0.5, control="signal")
    public = layer.advertise(KEY, (), who)[1]
    return layer.encode(KEY, (), public, x, who)[2].measured["amplitude"]


def joining(x, who, number):
    fading = Fading(lambda key, n: (), lambda key, state, round, n: (who.gain, state))
    return channel_aware(number, fading).apply(KEY, (), jnp.int32(0), jnp.ones(len(x), jnp.int32))[0].participation


CASES = {
    "quotient": lambda x, who, number: quotient(who.gain, number),
    "clipped": clipped,
    "voted": voted,
    "aligned": aligned,
    "joining": joining,
}


def in_blocks(case, size):
    """All six clients, in blocks of so many."""
    split = lambda a: a.reshape(6 // size, size, *a.shape[1:])
    rows = jax.tree.map(split, (X, WHO._replace(gain=jnp.asarray(GAIN))))
    found = jax.jit(lambda rows, number: jax.lax.map(lambda block: case(*block, number), rows))(rows, jnp.float32(3.7))
    return np.asarray(found).reshape(6, -1)


@pytest.mark.parametrize("name", CASES)
def test_blocks_of_one_client_have_the_bits_of_larger_ones(optimised, name):
    assert same_bits(in_blocks(CASES[name], 1), in_blocks(CASES[name], 6))


def test_a_plain_quotient_depends_on_the_block(optimised):
    """The control."""
    plain = lambda x, who, number: who.gain / number
    if FAST_FLAGS:  # that later compilers do so too is not promised
        assert not same_bits(in_blocks(plain, 1), in_blocks(plain, 6))


def telling_weights():
    """As `towards_target`; the loss is the client's weight."""
    train = towards_target().apply
    return base.Local(lambda n, params: (), lambda *args: (*train(*args)[:2], args[-1].weight))


in_the_clear = functools.partial(systems.secagg, num_clients=5, secure_sum=plain_field())
SYSTEMS = {"fedavg": systems.fedavg, "secagg": in_the_clear}


@pytest.mark.parametrize("name", SYSTEMS)
def test_sums_of_weighted_updates_do_not_depend_on_blocks_or_devices(optimised, name):
    """Of five clients with 41 samples: on eight devices, each has one."""
    data, found = targets(5, 33)._replace(count=jnp.array([3, 5, 7, 11, 15], jnp.int32)), []
    for devices, block in ((1, None), (1, 1), (8, None)):
        made = SYSTEMS[name](telling_weights(), mesh=mesh_of(devices), block=block)
        info = jax.jit(made.step)(KEY, made.init(KEY, jnp.zeros(33), data), data)[1]
        assert not info.status
        found.append((info.loss, info.direction))
    assert same_bits(found[0], found[1])
    assert same_bits(found[0], found[2])


def test_lightsecagg_weighs_updates_as_secagg_does():
    """So the test above is of both."""
    coded = systems.lightsecagg(towards_target(), num_clients=5, num_params=33, mesh=None)
    (ours, theirs) = map(parts_of, (coded, in_the_clear(towards_target(), mesh=None)))
    each = [dict(parts.layers.encode.__self__.layers) for parts in (ours, theirs)]
    for layers in each:
        layers.popitem()
    assert each[0] and alike(*each) and alike(ours.local, theirs.local)
