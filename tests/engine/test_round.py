"""The engine, beside its laws: memory, sub-cohorts, groups, layers that look across clients, sweeps."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv.base import ClientData, Local
from fedjax_priv.channels import erasure, multiple_access
from fedjax_priv.clients import bernoulli, everyone
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.engine.round import _init, _step
from fedjax_priv.layers import (
    average,
    over_the_air_mean,
    paired_coordinates,
    pairwise_masks,
    plain,
    plain_field,
    plain_ring,
    quantize,
    scale,
    sparse_masks,
    stack,
    stateless,
    thresholded_masks,
    waveform,
)
from fedjax_priv.status import Status
from fedjax_priv.systems import fedavg, secagg
from fedjax_priv.systems._shared_layers import adding
from helpers import engine, mesh_of, one_round, refuses, remembering, same_bits, targets, towards_target

KEY = jax.random.key(5)
PAIRED = paired_coordinates(alpha=0.9, group_size=4)
OPENED = thresholded_masks(PAIRED, num_values=5, group_size=4, threshold=2)
HIDING = multiple_access(known_count=False)  # how many sent
COUNTED = "layers must not need the number of uploads, which channel hides"


def shifted():
    """Local training whose update is as long as the model, from data that is not."""

    def apply(key, memory, params, data, who):
        return params[None, :] - data.examples, memory, data.examples[:, 0]

    return Local(lambda n, params: (), apply)


@pytest.mark.parametrize("make", [fedavg, lambda local, **how: secagg(local, num_clients=1000, **how)])
def test_memory_is_that_of_a_block(make):
    """1,000 clients, 165,000 parameters: under 1.5 GiB beside the data, nothing of the size of the cohort's updates."""
    n, d, block = 1000, 165_000, 6
    system = make(shifted(), block=block, mesh=None)
    data = ClientData(jax.ShapeDtypeStruct((n, 1), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32))
    state = jax.eval_shape(system.init, KEY, jax.ShapeDtypeStruct((d,), jnp.float32), data)
    lowered = jax.jit(system.step).lower(KEY, state, data)
    assert lowered.compile().memory_analysis().temp_size_in_bytes < 1.5 * 2**30
    rows = [int(size) for size in re.findall(rf"tensor<(\d+)x{d}x", lowered.as_text())]
    assert block in rows
    assert max(rows) <= block
    assert not re.findall(rf"tensor<{n}x{n}x{d}x", lowered.as_text())


@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.int32])
def test_parameters_of_another_dtype_are_refused_by_every_system(kind):
    data, params = targets(4, 3), {"a": jnp.zeros(2), "b": jnp.zeros(1, kind)}
    got = re.escape(f"got {jnp.dtype(kind)} in params['b']")
    for system in (engine(), fedavg(towards_target(), mesh=None)):
        with pytest.raises(ValueError, match=f"^params must have float32 leaves, {got}$"):
            system.init(KEY, params, data)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_layer_may_look_across_clients(devices):
    """The cohort is encoded at once; here each update is replaced by its distance to the cohort's mean."""
    data = targets(7, 5)
    centre = stateless(lambda key, x, who: x - x.mean(0, keepdims=True) + 1.0, whole=True)
    layers = stack(centre=centre, scale=scale(), send=plain())
    system = engine(local=remembering(), layers=layers, block=2, mesh=mesh_of(devices))
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
    """Who did not join neither uploads nor counts; the sum is that of those who did, as in layers/test_mask.py."""
    data, n = targets(10, 4), 10
    layers = stack(quantize=quantize(2.0**16, n), mask=pairwise_masks(group_size=n, threshold=3, elide=True))
    system = engine(cohort=bernoulli(0.7), local=remembering(), layers=layers, channel=erasure(0.2))
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


def test_more_uploads_than_an_exact_sum_holds():
    def run(system, n):
        data = ClientData(jax.ShapeDtypeStruct((n, 1), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32))
        params = jax.ShapeDtypeStruct((1,), jnp.float32)
        step = lambda key, params, data: system.step(key, system.init(key, params, data), data)
        jax.eval_shape(step, KEY, params, data)

    with pytest.raises(ValueError, match="cohort must hold at most 65535 clients for an exact sum, got 65536"):
        run(fedavg(towards_target(), mesh=None), 65_536)
    run(fedavg(towards_target(), mesh=None), 65_535)
    run(fedavg(towards_target(), exact=False, mesh=None), 65_536)


@pytest.mark.parametrize("clients", [5, 7])
def test_a_system_made_for_another_number_of_clients(clients):
    system, data = secagg(towards_target(), num_clients=6, mesh=None), targets(clients, 3)
    for run in (
        lambda: system.init(KEY, jnp.zeros(3), data),
        lambda: system.step(KEY, system.init(KEY, jnp.zeros(3), targets(6, 3)), data),
    ):
        with pytest.raises(ValueError, match=f"num_clients must be the number of clients in data, {clients}, got 6"):
            run()


def test_more_samples_than_an_int32_holds():
    """Their sum would wrap, to 0 in this case, and weights with it."""
    data = targets(4, 3)._replace(count=jnp.full(4, 2**30, jnp.int32))
    with pytest.raises(ValueError, match=r"^data.count must add to fewer than 2\*\*31 samples, got 4294967296$"):
        engine().init(KEY, jnp.zeros(3), data)


def test_who_answers_at_disclosure_is_drawn_apart_from_who_uploads():
    """The server learns `online`, and the same rate for both does not lose the same clients."""
    told = stateless()._replace(
        disclose=lambda private, public, clear, alive, online: (online, {}),
        decode=lambda header, public, received: received._replace(
            value=received.value + 100.0 * header.sum(dtype=jnp.float32)
        ),
    )
    channel = erasure(0.3, leave=0.3)
    _, _, info = one_round(engine(layers=stack(tell=told, send=plain()), channel=channel), targets(40, 5))
    arrived = np.asarray(info.counted)
    online = (np.asarray(info.direction)[0] + np.asarray(targets(40, 5).examples)[arrived, 0].sum()) / 100
    assert 0.4 * arrived.sum() < round(online) < arrived.sum()


def test_what_the_channel_does_to_the_sum_reaches_the_server():
    def receive(key, received):
        return received._replace(value=received.value + 7.0)

    _, _, info = one_round(engine(channel=erasure()._replace(receive=receive)), targets(4, 5))
    np.testing.assert_allclose(info.direction, 7 - targets(4, 5).examples.sum(0), rtol=1e-5)


def test_bits_of_the_model_go_to_those_who_take_part():
    _, _, info = one_round(engine(cohort=bernoulli(0.5)), targets(20, 5))
    took_part = np.asarray(info.counted)
    assert 0 < took_part.sum() < 20
    assert info.bits["model"].down.tolist() == (32 * 5 * took_part).tolist()
    assert not info.bits["model"].up.any()


def test_secagg_scales_by_cohort_and_dropout_and_passes_its_threshold_on():
    """The mean of the sum over draws and dropouts is sum_i beta_i y_i: beta_i n / cohort / (1 - dropout) each."""
    data, n = targets(8, 5), 8
    how = dict(num_clients=n, cohort_size=6, dropout=0.25, levels=2.0**20, elide=True, mesh=None)
    _, _, info = one_round(secagg(towards_target(), threshold=2, **how), data)
    weight = np.asarray(data.count) / np.asarray(data.count).sum() * n / 6 / 0.75
    mine = np.asarray(info.client)[np.asarray(info.counted)]
    assert len(mine) >= 2
    np.testing.assert_allclose(
        info.direction, -(np.asarray(data.examples)[mine] * weight[mine][:, None]).sum(0), atol=1e-4
    )
    _, _, info = one_round(secagg(towards_target(), threshold=6, leave=0.9, **{**how, "dropout": 0.0}), data)
    assert int(info.status) == Status.NOT_RECOVERED


def test_a_bare_layer_is_a_stack_of_one():
    _, _, bare = one_round(engine(layers=plain()), targets(7, 5))
    _, _, stacked = one_round(engine(), targets(7, 5))
    assert same_bits(bare, stacked)


def test_numpy_data_may_be_closed_over():
    data = jax.tree.map(np.asarray, targets(7, 5))
    system = fedavg(towards_target(), cohort_size=4, mesh=None)
    state = system.init(KEY, jnp.zeros(5), data)
    status = jax.jit(jax.vmap(lambda key: system.step(key, state, data)[1].status))
    assert status(jax.random.split(KEY, 3)).tolist() == [0] * 3


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: engine(layers=scale()), "layers must end in one that says how uploads combine"),
    (lambda: engine(block=0), "block must be an integer >= 1, got 0"),
    (lambda: engine(layers=stack(mean=over_the_air_mean(), send=waveform()), channel=HIDING), COUNTED),
    (lambda: engine(layers=stack(mean=average(), send=waveform()), channel=HIDING), COUNTED),
    (
        lambda: engine(cohort=everyone(2)),
        r"^cohort must draw as many groups as layers sum, 1, got 2: everyone\(num_groups=2\) goes with "
        r"plain\(num_groups=2\), or combine=float_sum\(2\) of your own$",
    ),
    (lambda: engine(layers=plain(num_groups=3)), r"sum, 3, got 1: everyone\(num_groups=3\) goes with plain"),
    (
        lambda: engine(mesh=jax.sharding.Mesh(jax.devices()[:2], ("x",))),
        "mesh must be 'auto', None or a mesh from clients_mesh",
    ),
    (lambda: secagg(towards_target(), num_clients=4, cohort_size=1), "cohort_size must be an integer >= 2, got 1"),
    (lambda: secagg(towards_target(), num_clients=4, cohort_size=9), "cohort_size must be at most num_clients = 4"),
    (lambda: secagg(towards_target(), num_clients=4, dropout=1.0), "dropout must be a number in"),
    (
        lambda: inspect.unwrap(adding)(FIELD, "plain", {}, 0.0),
        r"^secure_sum must be a Layer, such as layers.plain_field\(\), got str$",
    ),
    (
        lambda: secagg(towards_target(), num_clients=3, secure_sum=plain_ring(16)),
        r"^secure_sum must add modulo q = 4294967291, such as layers.plain_field\(\), got one that adds modulo 65536$",
    ),
    (
        lambda: secagg(towards_target(), num_clients=3, secure_sum=plain()),
        "got one that adds no integers",
    ),
    *(
        (
            lambda layer=layer: secagg(towards_target(), num_clients=4, secure_sum=layer),
            r"^secure_sum must add all coordinates, such as layers.plain_field\(\), got one of which clients send",
        )
        for layer in (sparse_masks(alpha=0.9, group_size=4), PAIRED, stack(sum=OPENED))
    ),
    (
        lambda: secagg(towards_target(), num_clients=4, secure_sum=plain_field(), neighbours=2),
        "^neighbours must not be given with secure_sum, got 2$",
    ),
    (
        lambda: secagg(towards_target(), num_clients=4, secure_sum=stack(sum=plain_field()), leave=0.1),
        "^leave must be 0 with a secure_sum in the clear, such as .*, got 0.1: nobody is asked for shares$",
    ),
    (lambda: fedavg(towards_target(), cohort_size=0), "cohort_size must be an integer >= 1, got 0"),
    (
        lambda: engine(local=remembering()).step(
            KEY, one_round(engine(local=remembering()), targets(4, 5))[0], targets(6, 5)
        ),
        "state must have one row per client of data, 6, got 4",
    ),
    (
        lambda: jax.eval_shape(engine().init, KEY, jax.ShapeDtypeStruct((2**27,), jnp.float32), targets(4, 5)),
        "params must have fewer than 134217727 elements",
    ),
)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: (x, ()), r"return \(updates \[b, d\], memory, losses \[b\]\), got 2 values"),
        (lambda x: ({"w": x}, (), x[:, 0]), r"return updates \[b, d\] with b = 4, got dict"),
        (lambda x: (x, (), x), r"return losses \[b\] with b = 4, got an array of shape \(4, 3\)"),
    ],
)
def test_local_training_that_returns_something_else_is_named(made, message):
    local = Local(lambda n, params: (), lambda key, memory, params, data, cohort: made(jnp.zeros((4, 3))))
    with pytest.raises(ValueError, match=rf"^local\.apply must {message}"):
        one_round(fedavg(local, mesh=None), targets(4, 3), d=3)


def test_a_key_where_the_state_belongs_is_refused():
    with pytest.raises(ValueError, match=r"^state must be a RoundState, such as system\.init\(.*\), got PRNGKeyArray$"):
        inspect.unwrap(_step)(None, None, jax.random.key(0), targets(4, 3))


def test_parameters_where_the_data_belong_are_refused():
    state = fedavg(towards_target(), mesh=None).init(KEY, jnp.zeros(3), targets(4, 3))
    for part, given in ((_init, targets(4, 3)), (_step, state)):
        with pytest.raises(ValueError, match=r"^data must be a ClientData, such as .*, got dict$"):
            inspect.unwrap(part)(None, KEY, given, {"w": jnp.zeros(3)})


def shifted_mean():
    """Local training whose update is a third of the way to a client's data."""

    def apply(key, memory, params, data, who):
        return (params[None, :] - data.examples) / 3, memory, data.examples[:, 0]

    return Local(lambda n, params: (), apply)


def test_a_round_has_the_derivative_of_its_float_sum():
    data = targets(4, 3)

    def after_two(rate):
        system = fedavg(shifted_mean(), exact=False, server=optax.sgd(rate), mesh=None)
        state = system.init(KEY, jnp.ones(3), data)
        for _ in range(2):
            state, _ = system.step(KEY, state, data)
        return state.params

    mean = np.average(np.asarray(data.examples, np.float64), 0, weights=np.asarray(data.count))
    expected = -(2 / 3) * (1 - 0.5 / 3) * (1 - mean)  # of mean + (1 - rate / 3)^2 (1 - mean), at rate 1/2
    np.testing.assert_allclose(jax.jit(jax.jacfwd(after_two))(0.5), expected, rtol=1e-5)


@pytest.mark.parametrize("make", [fedavg, lambda local, **how: secagg(local, num_clients=4, elide=True, **how)])
def test_a_derivative_that_sums_of_integers_would_lose_is_refused(make):
    data = targets(4, 3)

    def after(rate, rounds):
        system = make(shifted_mean(), server=optax.sgd(rate), mesh=None)
        state = system.init(KEY, jnp.ones(3), data)
        for _ in range(rounds):
            state, _ = system.step(KEY, state, data)
        return state.params.sum()

    one_step = jax.grad(after)(0.5, 1)  # of the server's step alone, which is no sum
    np.testing.assert_allclose(one_step, (after(1.0, 1) - after(0.0, 1)), rtol=1e-5)
    with pytest.raises(ValueError, match=r"^a round must not be differentiated .*: .* exact=False"):
        jax.grad(after)(0.5, 2)
