"""Noise in the field, in the systems that take it: its variance in the model, its bits, and an audit of its figure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv.aggregators import mean
from fedjax_priv.audit import direction_canary, scores, two_worlds
from fedjax_priv.base import ClientData
from fedjax_priv.crypto import field
from fedjax_priv.layers import plain_field
from fedjax_priv.layers.secure_sum import bitmap
from fedjax_priv.ledger import ledger
from fedjax_priv.systems import fedrep, secagg, sparse_secagg
from helpers import mesh_of, refuses, remembering, same_bits, targets, towards_target

KEY = jax.random.key(31)
N, D, LEVELS = 6, 12, 2.0**10
DATA = targets(N, D)
CLIP, VARIANCE = 0.5, 1e-3

SYSTEMS = {
    "secagg": lambda local, **how: secagg(local, num_clients=N, dropout=0.1, levels=LEVELS, **how),
    "sparse_secagg": lambda local, **how: sparse_secagg(
        local, num_clients=N, alpha=0.9, dropout=0.1, levels=LEVELS, elide=True, **how
    ),
    "fedrep": lambda local, **how: fedrep(
        local, num_clients=N, num_params=D, ratio=1.0, buffer_size=3, aggregate=mean(), levels=LEVELS, elide=True, **how
    ),
}
IN_THE_CLEAR = {"secure_sum": plain_field()}


def rounds(name, trials=300, **how):
    """Directions of first rounds that hold next to nothing but noise, and what is known of them."""
    system = SYSTEMS[name](
        towards_target(), clip=1 / LEVELS, noise_variance=VARIANCE, mesh=None, block=N,
        observe=lambda view: view.clear, **how,
    )  # fmt: skip
    one = lambda key: system.step(key, system.init(key, jnp.zeros(D), DATA), DATA)[1]
    info = jax.jit(jax.vmap(one))(jax.random.split(KEY, trials))
    good = np.asarray(info.status) == 0
    info = jax.tree.map(lambda a: np.asarray(a)[good], info)
    return info.direction, info


def has_variance(values, expected):
    return abs(np.square(values).mean() / expected - 1) < 5 * np.sqrt(2 / values.size)


def test_a_sum_has_the_noise_of_its_survivors():
    direction, info = rounds("secagg", **IN_THE_CLEAR)
    assert (direction * LEVELS == np.rint(direction * LEVELS)).all()
    scaled = direction / np.sqrt(info.counted.sum(1))[:, None]
    assert len(set(info.counted.sum(1))) > 1
    assert has_variance(scaled, VARIANCE) and not has_variance(scaled, VARIANCE / 2)


def test_a_coordinate_has_the_noise_of_those_who_send_it():
    direction, info = rounds("sparse_secagg")
    located = jax.jit(jax.vmap(jax.vmap(lambda row: bitmap.unpack(row, D))))(info.observed["mask"])
    senders = (np.asarray(located) & info.counted[:, :, None]).sum(1)
    assert not direction[senders == 0].any() and 1 in senders
    assert has_variance(direction[senders > 0] / np.sqrt(senders[senders > 0]), VARIANCE)


def test_the_mean_of_a_buffer_has_the_noise_of_its_clients():
    direction, _ = rounds("fedrep")
    assert (direction == 0).mean() < 0.6  # outside the union
    assert has_variance(direction[direction != 0], VARIANCE / N)


def test_blocks_and_devices_change_no_bit():
    """Where clipping and the check of norms are at work; masks are told apart in layers/test_skellam.py."""

    def run(block, devices):
        system = SYSTEMS["secagg"](
            remembering(), clip=CLIP, noise_variance=VARIANCE, block=block, mesh=mesh_of(devices), **IN_THE_CLEAR
        )
        return jax.jit(lambda data: system.step(KEY, system.init(KEY, jnp.zeros(D), data), data))(DATA)

    state, info = run(N, 1)
    assert int(info.status) == 0 and same_bits((state, info), run(2, 2))


USERS, PARAMS, DELTA = 4, 3, 1e-3


def audited(noise_variance, trials=20_000):
    """A lower bound from the server's sums, and what the ledger says."""
    canary = direction_canary(KEY, USERS, PARAMS, 3 * USERS * CLIP)

    how = {"num_clients": USERS, "clip": CLIP, "noise_variance": noise_variance, "levels": LEVELS, "mesh": None}
    make = lambda local, observe: secagg(local, observe=observe, **how, **IN_THE_CLEAR)
    params = jnp.zeros(PARAMS)
    seen = lambda seen: (
        field.to_signed(seen.info.observed.received.value[0]).astype(jnp.float32) @ canary.toward(params)
    )
    worlds = scores(make, canary, seen, KEY, params=params, trials=trials, at_once=1000)
    data = ClientData((jnp.zeros((USERS, 1)),), jnp.ones(USERS, jnp.int32))
    said = ledger(secagg(towards_target(), **how), round_of(USERS, PARAMS), data, delta=DELTA)
    return two_worlds(*worlds, delta=DELTA).epsilon, said[0].proved.epsilon[0]


def round_of(clients, num_params):
    """A round in which everybody's upload arrived."""
    each = ("round", "client")
    variables = {
        "client_id": (each, np.arange(clients)[None]),
        "up_bytes": (("phase", *each), np.ones((1, 1, clients))),
    }
    return xr.Dataset(variables, {"phase": ["upload"]}, {"num_params": num_params})


def test_the_figure_stands_its_audit_and_a_quarter_of_the_noise_does_not():
    variance = (1.2 * CLIP) ** 2
    found, claimed = audited(variance)
    assert claimed / 4 < found < claimed
    assert audited(variance / 4)[0] > claimed


test_bad_arguments = refuses(
    lambda how: SYSTEMS["secagg"](towards_target(), **how),
    ({"noise_variance": 1.0}, "clip must be given with noise_variance"),
    ({"noise_variance": -1.0, "clip": 1.0}, "noise_variance must be a finite number >= 0, got -1.0"),
    ({"noise_variance": 1e9, "clip": 1.0}, r"noise_variance must be at most 2\*\*28 squared grid points"),
    ({"noise_variance": 1.0, "clip": 1.0, "normalize": "survivors"}, "normalize must be 'expected' with noise"),
    ({"norm_bound": 1.0, "normalize": "survivors"}, "normalize must be 'expected' with norm_bound, got 'survivors'"),
)


@pytest.mark.parametrize("name", ["clip", "noise_variance", "levels"])
def test_what_the_noise_is_made_from_cannot_be_traced(name):
    def make(value):
        secagg(towards_target(), num_clients=N, **{"clip": 1.0, "noise_variance": 1.0, "levels": 1.0, name: value})
        return value

    with pytest.raises(ValueError, match=f"{name} must be known when the program is compiled"):
        jax.jit(make)(1.0)
