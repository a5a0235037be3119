"""How much of a program a round is before XLA optimizes it: the more, the longer it takes to compile."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import aggregators, systems
from fedjax_priv.keys import each_named, named
from helpers import targets, towards_target

N, D = 8, 40
MASKED = dict(num_clients=N, dropout=0.3)
MOST = {
    "fedavg": (930, 0, systems.fedavg),
    "fedavg, lossy": (1290, 6, functools.partial(systems.fedavg, dropout=0.3)),
    "secagg": (5320, 13, functools.partial(systems.secagg, **MASKED)),
    "sparse_secagg": (5740, 13, functools.partial(systems.sparse_secagg, alpha=0.5, **MASKED)),
    "fedrep": (
        6610,
        28,
        functools.partial(systems.fedrep, num_params=D, ratio=0.5, aggregate=aggregators.coordinate_median(), **MASKED),
    ),
    "wireless": (
        2480,
        16,
        functools.partial(systems.wireless, clip=1.0, noise_variance=0.1, receiver_noise=0.1, participation=0.9),
    ),
    "cdp_fl": (2950, 14, functools.partial(systems.cdp_fl, **MASKED)),
}
"""Lines of StableHLO that a round may have, a tenth more than today, and calls of JAX's Threefry, each of which is
a loop of a dozen kernels on a CPU."""
ROOM = 1.0 if jax.__version_info__ < (0, 11) else 1.25
"""Newer versions of JAX write Threefry and polynomials out where older ones call a function."""


def lines_and_hashes(function, *args):
    text = jax.jit(function).lower(*args).as_text()
    return text.count("\n"), len(re.findall(r"call @\w*threefry", text))


@pytest.mark.parametrize("name", MOST)
def test_a_round_stays_small(name):
    *most, make = MOST[name]
    system, data, key = make(towards_target(), mesh=None), targets(N, D), jax.random.key(0)
    state = jax.eval_shape(system.init, key, jnp.zeros(D), data)
    lines, hashes = lines_and_hashes(system.step, key, state, data)
    assert lines <= ROOM * most[0] <= 1.2 * ROOM * lines and hashes <= most[1], (lines, hashes)


def memory_of_a_wireless_round(clients, params, block):
    """Bytes that a compiled round holds besides its arguments and results."""
    system = systems.wireless(towards_target(), threshold=2.0, snr_db=10.0, noise_variance=0.1, block=block, mesh=None)
    data, key = targets(clients, params), jax.random.key(0)
    state = jax.eval_shape(system.init, key, jnp.zeros(params), data)
    return jax.jit(system.step).lower(key, state, data).compile().memory_analysis().temp_size_in_bytes


def test_a_wireless_round_holds_no_array_of_all_clients_and_parameters():
    """Let alone one of all pairs of clients; the control has all clients in one block."""
    clients, params = 4096, 512
    updates, pairs = 4 * clients * params, clients**2
    assert memory_of_a_wireless_round(clients, params, None) < min(updates, pairs) / 2
    assert memory_of_a_wireless_round(clients, params, clients) > updates


def test_each_hash_counts():
    """The control: names one by one, and together."""
    names, key = ["cohort", "local", "encode"], jax.random.key(0)
    assert lines_and_hashes(lambda key: [named(key, name) for name in names], key)[1] == 4
    assert lines_and_hashes(lambda key: each_named(key, names), key)[1] == 2
