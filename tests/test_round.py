"""The engine, beside its laws: memory, sub-cohorts, groups, layers that look across clients, sweeps."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv.aggregators import mean
from fedjax_priv.base import ClientData, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import bernoulli, everyone
from fedjax_priv.layers import pairwise_masks, plain, quantize, scale, stack, stateless
from fedjax_priv.round import federated_round
from fedjax_priv.status import Status
from fedjax_priv.systems import fedavg, secagg
from helpers import mesh_of, remembering, same_bits, targets, towards_target

KEY = jax.random.key(5)


def shifted():
    """Local training whose update is as long as the model, from data that is not."""

    def apply(key, memory, params, data, who):
        return params[None, :] - data.examples, memory, data.examples[:, 0]

    return Local(lambda n, params: (), apply)


@pytest.mark.parametrize("make", [fedavg, lambda local, **how: secagg(local, num_clients=1000, **how)])
def test_memory_is_that_of_a_block(make):
    """1,000 clients, 165,000 parameters: under 1.5 GiB beside the data, nothing of the size of the cohort's updates."""
    n, d, block = 1000, 165_000, 8
    system = make(shifted(), block=block, mesh=None)
    data = ClientData(jax.ShapeDtypeStruct((n, 1), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32))
    state = jax.eval_shape(system.init, KEY, jax.ShapeDtypeStruct((d,), jnp.float32), data)
    lowered = jax.jit(system.step).lower(KEY, state, data)
    assert lowered.compile().memory_analysis().temp_size_in_bytes < 1.5 * 2**30
    rows = [int(size) for size in re.findall(rf"tensor<(\d+)x{d}x", lowered.as_text())]
    assert block in rows
    assert max(rows) <= block
    assert not re.findall(rf"tensor<{n}x{n}x{d}x", lowered.as_text())


def test_a_spoilt_group_is_left_out_and_the_round_goes_on():
    """Overflow or NaN of one client costs its group; the others' mean is what the server applies."""
    n, data = 8, targets(8, 5)
    bad = data._replace(examples=data.examples.at[3, 0].set(1e9).at[5, 1].set(jnp.nan))
    system = federated_round(
        cohort=everyone(4),
        local=remembering(),
        layers=stack(quantize=quantize(2.0**16, 2), mask=pairwise_masks(4, group_size=2)),
        channel=erasure(),
        aggregate=mean(),
        server=optax.sgd(1.0),
        mesh=None,
    )
    before = system.init(KEY, jnp.zeros(5), bad)
    after, info = jax.jit(system.step)(KEY, before, bad)
    counted = np.asarray(info.counted)
    assert int(info.status) == 0
    assert sorted(np.asarray(info.group_status)) in (
        [0, 0, Status.FIELD_OVERFLOW, Status.NOT_FINITE],
        [0, 0, 0, Status.FIELD_OVERFLOW | Status.NOT_FINITE],
    )
    assert not counted[[3, 5]].any()
    assert counted.sum() == n - 2 * (np.asarray(info.group_status) > 0).sum()
    sums = -np.asarray(bad.examples)[counted].astype(np.float64).sum(0) / (counted.sum() / 2)
    np.testing.assert_allclose(info.direction, sums, atol=1e-4)
    np.testing.assert_allclose(after.params, -sums, atol=1e-4)
    assert after.memory.tolist() == counted.astype(int).tolist()


def test_nan_of_a_client_whose_upload_is_lost_costs_nothing():
    data = targets(6, 5)
    bad = data._replace(examples=data.examples.at[2].set(jnp.nan))
    seen = set()
    for seed in range(6):
        system = fedavg(towards_target(), dropout=0.5, mesh=None)
        state, info = jax.jit(system.step)(jax.random.key(seed), system.init(KEY, jnp.zeros(5), bad), bad)
        arrived = bool(info.bits["upload"].up[2] > 0)
        assert (int(info.status) == Status.NOT_FINITE) == arrived
        assert jnp.isfinite(state.params).all()
        seen.add(arrived)
    assert seen == {True, False}


@pytest.mark.parametrize("devices", [1, 2])
def test_a_layer_may_look_across_clients(devices):
    """The cohort is encoded at once; here each update is replaced by its distance to the cohort's mean."""
    data = targets(7, 5)
    centre = stateless(lambda key, x, who: x - x.mean(0, keepdims=True) + 1.0, whole=True)
    system = federated_round(
        cohort=everyone(), local=remembering(), layers=stack(centre=centre, scale=scale(), send=plain()),
        channel=erasure(), aggregate=mean(), server=optax.sgd(1.0), block=2, mesh=mesh_of(devices),
    )  # fmt: skip
    _, info = jax.jit(system.step)(KEY, system.init(KEY, jnp.zeros(5), data), data)
    x, weight = -np.asarray(data.examples, np.float64), np.asarray(data.count) / np.asarray(data.count).sum()
    np.testing.assert_allclose(info.direction, ((x - x.mean(0) + 1) * weight[:, None]).sum(0), rtol=1e-5)


def test_only_the_cohort_moves():
    data = targets(9, 4)
    system = fedavg(remembering(), cohort_size=4, mesh=None)
    state, info = jax.jit(system.step)(KEY, system.init(KEY, jnp.zeros(4), data), data)
    assert np.flatnonzero(state.memory).tolist() == info.client.tolist()
    mine = np.asarray(info.client)
    weight = np.asarray(data.count)[mine]
    expected = -(np.asarray(data.examples)[mine] * weight[:, None]).sum(0) / weight.sum()
    np.testing.assert_allclose(info.direction, expected, rtol=1e-5, atol=1e-6)


def test_bernoulli_cohorts_under_secure_aggregation():
    """Who did not join neither uploads nor counts; the sum is that of those who did."""
    data, n = targets(10, 4), 10
    system = federated_round(
        cohort=bernoulli(0.7), local=remembering(),
        layers=stack(quantize=quantize(2.0**16, n), mask=pairwise_masks(group_size=n, threshold=3)),
        channel=erasure(0.2), aggregate=mean(), server=optax.sgd(1.0), block=3, mesh=None,
    )  # fmt: skip
    step, state = jax.jit(system.step), system.init(KEY, jnp.zeros(4), data)
    sizes = set()
    for _ in range(5):
        after, info = step(KEY, state, data)
        counted = np.asarray(info.counted)
        update = np.asarray(state.params)[None] - np.asarray(data.examples)
        np.testing.assert_allclose(info.direction, update[counted].sum(0), atol=n * 2.0**-16 + 1e-5)
        assert (np.asarray(info.bits["upload"].up) > 0).tolist() == counted.tolist()
        sizes.add(int(counted.sum()))
        state = after._replace(params=state.params)
    assert len(sizes) > 1


def test_a_sweep_is_a_vmap():
    """Traced dropout, learning rate and seeds: each point equals the same run alone, bit for bit."""
    data = targets(6, 4)

    def run(dropout, rate, seed):
        system = fedavg(towards_target(), dropout=dropout, server=optax.sgd(rate), mesh=None)
        key = jax.random.key(seed)
        body = lambda state, _: system.step(key, state, data)
        state, info = jax.lax.scan(body, system.init(key, jnp.zeros(4), data), length=3)
        return state.params, info.counted

    points = jnp.array([0.0, 0.3, 0.6]), jnp.array([1.0, 0.5, 0.1]), jnp.array([0, 1, 2])
    together = jax.jit(jax.vmap(run))(*points)
    alone = [jax.jit(run)(*(p[i] for p in points)) for i in range(3)]
    assert same_bits(together, jax.tree.map(lambda *rows: jnp.stack(rows), *alone))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"layers": scale()}, "layers must end in one that says how uploads combine"),
        ({"block": 0}, "block must be an integer >= 1, got 0"),
    ],
)
def test_bad_arguments(how, message):
    parts = dict(
        cohort=everyone(), local=towards_target(), layers=plain(), channel=erasure(), aggregate=mean(),
        server=optax.sgd(1.0),
    )  # fmt: skip
    with pytest.raises(ValueError, match=message):
        federated_round(**{**parts, **how})


def test_more_uploads_than_an_exact_sum_holds():
    data = ClientData(jax.ShapeDtypeStruct((70_000, 1), jnp.float32), jax.ShapeDtypeStruct((70_000,), jnp.int32))
    params = jax.ShapeDtypeStruct((1,), jnp.float32)
    run = lambda system: jax.eval_shape(
        lambda key, params, data: system.step(key, system.init(key, params, data), data), KEY, params, data
    )
    with pytest.raises(ValueError, match="cohort must hold at most 65535 clients for an exact sum, got 70000"):
        run(fedavg(towards_target(), mesh=None))
    run(fedavg(towards_target(), exact=False, mesh=None))


@pytest.mark.parametrize("clients", [5, 7])
def test_a_system_made_for_another_number_of_clients(clients):
    system, data = secagg(towards_target(), num_clients=6, mesh=None), targets(clients, 3)
    for run in (
        lambda: system.init(KEY, jnp.zeros(3), data),
        lambda: system.step(KEY, system.init(KEY, jnp.zeros(3), targets(6, 3)), data),
    ):
        with pytest.raises(ValueError, match=f"num_clients must be the number of clients in data, {clients}, got 6"):
            run()
