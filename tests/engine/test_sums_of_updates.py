"""Rounds of which only a sum of clipped updates is wanted, against rounds with a row for each client and NumPy."""

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import ClientData, clients, losses, models
from fedjax_priv.base import Stated
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine import sums_of_updates
from fedjax_priv.layers import clip, field_sum, fixed_point_sum, float_sum, plain, stack
from fedjax_priv.status import Status
from fedjax_priv.systems import dp_fedavg
from helpers import engine, mesh_of, same_bits

KEY = jax.random.key(3)
FEATURES, CLASSES = 5, 3
MODEL = models.softmax_regression((FEATURES,), CLASSES)
LOSS = losses.softmax_cross_entropy(MODEL)
PARAMS = jax.tree.map(lambda p: p + 0.1, MODEL.init(jax.random.key(0)))
D = CLASSES * (FEATURES + 1)
CLIP = 0.8
N = 150


def population(n, m, seed=0):
    """Uneven counts, the first is 0; what is beyond a count is not a number."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, m, FEATURES)).astype(np.float32)
    count = rng.integers(1, m + 1, n).astype(np.int32)
    count[0] = 0
    x[np.arange(m) >= count[:, None]] = np.nan
    return ClientData((jnp.asarray(x), jnp.asarray(rng.integers(0, CLASSES, (n, m)))), jnp.asarray(count))


def some(n, rounds=10):
    """All but every fifth client of the population; after so many rounds all."""
    draw = everyone()

    def apply(key, state, round, count):
        who, state = draw.apply(key, state, round, count)
        return who._replace(selected=(jnp.arange(n) % 5 != 1) | (round >= rounds)), state

    return draw._replace(apply=apply)


def round_of(local, n, **parts):
    usual = dict(
        local=local, layers=stack(clip=clip(CLIP), send=plain()), cohort=some(n), channel=erasure(0.2), block=None
    )
    return engine(**usual | parts)


def with_rows(local):
    return local._replace(apply=local.apply.function)


def step(system, data, params=PARAMS):
    return jax.jit(system.step)(KEY, system.init(KEY, params, data), data)


LOCALS = {
    "fedsgd": (lambda: clients.fedsgd(LOSS), 3),
    "one sample": (lambda: clients.local_sgd(LOSS, learning_rate=0.5, batch_size=1, num_steps=1), 1),
    "a batch of some": (
        lambda: clients.local_sgd(LOSS, learning_rate=0.5, batch_size=2, num_steps=1, momentum=0.9),
        4,
    ),
}


@functools.cache
def compiled(name):
    """Data and two rounds of them, of sums and of rows, each compiled once."""
    make, m = LOCALS[name]
    local = make()
    assert local.updates is not None
    data, systems = population(N, m), [round_of(each, N) for each in (local, with_rows(local))]
    states = [system.init(KEY, PARAMS, data) for system in systems]
    return data, [
        functools.partial(jax.jit(system.step), KEY, state) for system, state in zip(systems, states, strict=True)
    ]


@pytest.mark.parametrize("name", LOCALS)
def test_a_round_is_that_of_single_rows(name):
    data, rounds = compiled(name)
    (state, ours), (other, rows) = (each(data) for each in rounds)
    np.testing.assert_allclose(ours.direction, rows.direction, rtol=2e-5, atol=2e-6)
    assert np.abs(rows.direction).max() > 1
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state.params, other.params)
    selected = np.arange(N) % 5 != 1
    np.testing.assert_allclose(ours.loss, rows.loss, rtol=2e-5, atol=1e-6)
    for loss in (ours.loss, rows.loss):  # who takes no part has none
        assert not np.any(loss[~selected]) and np.all(loss[selected & (np.asarray(data.count) > 0)] > 0)
    same = ("client", "counted", "bits", "group_status", "status")
    assert same_bits([getattr(ours, field) for field in same], [getattr(rows, field) for field in same])
    assert 0 < np.asarray(ours.counted).sum() < selected.sum()  # some were lost


def test_clients_that_refuse_a_model_they_know_are_in_no_sum():
    """In the second round the model is the first one again: only those who had not trained on it do."""
    data, local = population(N, 3), clients.once_per_model(clients.fedsgd(LOSS))
    assert local.updates is not None
    found = []
    for each in (local, with_rows(local)):
        system = round_of(each, N, cohort=some(N, rounds=1))
        state, again = system.init(KEY, PARAMS, data), jax.jit(system.step)
        found.append(again(KEY, again(KEY, state, data)[0]._replace(params=PARAMS), data)[1])
    ours, rows = found
    trained = np.arange(N) % 5 == 1
    assert (np.asarray(ours.counted) <= trained).all() and 0 < np.asarray(ours.counted).sum() < trained.sum()
    np.testing.assert_allclose(ours.direction, rows.direction, rtol=2e-5, atol=2e-6)
    same = ("counted", "bits", "status", "measured")
    assert same_bits([getattr(ours, field) for field in same], [getattr(rows, field) for field in same])


def by_hand(data, counted):
    """The sum of the clipped gradients of the clients' mean losses, in float64; ours is ravelled as bias, kernel."""
    (x, y), count = jax.tree.map(np.asarray, data)
    w, b = np.asarray(PARAMS["Dense_0"]["kernel"], float), np.asarray(PARAMS["Dense_0"]["bias"], float)
    total = np.zeros(D)
    for rows, labels, k in zip(x[counted], y[counted], count[counted], strict=True):
        if k:
            scores = rows[:k].astype(float) @ w + b
            chance = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            slope = (chance - np.eye(CLASSES)[labels[:k]]) / k
            gradient = np.concatenate([slope.sum(0), (rows[:k].T.astype(float) @ slope).ravel()])
            total += gradient * min(1, CLIP / np.linalg.norm(gradient))
    return total


def test_the_sum_is_that_of_the_clipped_gradients_of_mean_losses():
    data, (of_sums, _) = compiled("fedsgd")
    _, info = of_sums(data)
    counted = np.asarray(info.counted)
    np.testing.assert_allclose(info.direction, by_hand(data, counted), rtol=1e-5, atol=1e-5)
    first_samples = data._replace(count=jnp.minimum(data.count, 1))
    assert np.abs(by_hand(data, counted) - by_hand(first_samples, counted)).max() > 0.1


def test_blocks_and_devices_change_no_bit():
    data, (of_sums, _) = compiled("fedsgd")
    first = of_sums(data)
    for block, devices in ((7, 1), (None, 3)):
        spread = round_of(clients.fedsgd(LOSS), N, block=block, mesh=mesh_of(devices))
        assert same_bits(first, step(spread, data))


def numbers_of_rows(local_of, samples):
    """The sizes of first axes of arrays of updates in a round's program, of clients with so many samples."""
    n, d = 150, 40 * 31
    model = models.softmax_regression((39,), 31)
    params = jax.eval_shape(model.init, KEY)
    shapes = ClientData(
        (jax.ShapeDtypeStruct((n, samples, 39), jnp.float32), jax.ShapeDtypeStruct((n, samples), jnp.int32)),
        jnp.ones(n, jnp.int32),
    )
    system = round_of(local_of(losses.softmax_cross_entropy(model)), n)
    text = jax.jit(system.step).lower(KEY, jax.eval_shape(system.init, KEY, params, shapes), shapes).as_text()
    return {int(rows) for rows in re.findall(rf"tensor<(\d+)x{d}xf32>", text)}


def of_unknown_steps(loss):
    local = clients.fedsgd(loss)
    return local._replace(apply=Stated(local.apply, updates=local.updates))


def one_step(batch_size):
    return lambda loss: clients.local_sgd(loss, learning_rate=0.5, batch_size=batch_size, num_steps=1)


@pytest.mark.parametrize(
    ("local_of", "samples", "rows"),
    [
        (clients.fedsgd, 1, False),
        (lambda loss: with_rows(clients.fedsgd(loss)), 1, True),
        (clients.fedsgd, sums_of_updates.FEW_SAMPLES, False),
        (clients.fedsgd, sums_of_updates.FEW_SAMPLES + 1, True),
        (of_unknown_steps, 100, False),
        (one_step(sums_of_updates.FEW_SAMPLES), 100, False),
        (one_step(sums_of_updates.FEW_SAMPLES + 1), 100, True),
    ],
)
def test_clients_have_rows_if_a_step_takes_many_samples(local_of, samples, rows):
    assert (max(numbers_of_rows(local_of, samples), default=1) > 1) == rows


def test_a_round_takes_networks_with_convolutions_of_clients_with_several_samples():
    model, n = models.cifar_cnn(), 4
    data = ClientData((jnp.zeros((n, 2, 32, 32, 3)), jnp.zeros((n, 2), jnp.int32)), jnp.full(n, 2))
    system = round_of(clients.fedsgd(losses.softmax_cross_entropy(model)), n, cohort=everyone())
    params = jax.eval_shape(model.init, KEY)
    state, _ = jax.eval_shape(system.step, KEY, jax.eval_shape(system.init, KEY, params, data), data)
    assert jax.tree.map(jnp.shape, state.params) == jax.tree.map(jnp.shape, params)


def test_a_client_whose_gradient_is_not_finite_is_refused_as_with_rows():
    data, rounds = compiled("fedsgd")
    x, y = data.examples
    heard = int(np.flatnonzero(rounds[0](data)[1].counted & (data.count > 0))[0])
    data = data._replace(examples=(x.at[heard].set(jnp.inf), y))
    assert [int(each(data)[1].status) for each in rounds] == [Status.NOT_FINITE] * 2


def halving(rounds: jax.Array) -> jax.Array:
    return 0.5**rounds


@pytest.mark.parametrize(
    "local",
    [
        clients.local_sgd(LOSS, learning_rate=0.5, batch_size=1, num_steps=2),
        clients.local_sgd(LOSS, learning_rate=0.5, batch_size=1, num_epochs=1),
        clients.local_sgd(LOSS, learning_rate=0.5, batch_size=1, num_steps=1, sample_clip=1.0),
        clients.local_sgd(LOSS, learning_rate=0.5, batch_size=1, num_steps=1, gradient_noise=1.0),
        clients.local_sgd(LOSS, learning_rate=0.5, batch_size=1, num_steps=1, momentum=0.5, carry_momentum=True),
        clients.local_sgd(LOSS, learning_rate=halving, batch_size=1, num_steps=1),
    ],
)
def test_other_local_training_says_nothing_of_its_sums(local):
    assert local.updates is None


def test_whoever_replaces_a_function_says_nothing_of_sums():
    local, layer, channel = clients.fedsgd(LOSS), stack(send=plain()), erasure()
    assert local.updates and layer.scale and channel.arrivals
    sums = float_sum(), fixed_point_sum(), field_sum(), fixed_point_sum(2)
    assert [each.lift_sum is None for each in sums] == [False, False, True, True]
    assert local._replace(apply=lambda *args: local.apply(*args)).updates is None
    assert layer._replace(encode=lambda *args: layer.encode(*args)).scale is None
    assert channel._replace(transmit=lambda *args: channel.transmit(*args)).arrivals is None


def test_an_observer_gets_rows():
    system = round_of(clients.fedsgd(LOSS), 10, observe=lambda view: view.uploads)
    assert step(system, population(10, 1))[1].observed.shape == (10, D)


def test_a_chunk_without_a_selected_client_costs_no_training():
    """Selected clients go to the first chunks, wherever they are in the cohort."""
    n, ran = 150, []
    draw = everyone()

    def apply(*args):
        who, state = draw.apply(*args)
        return who._replace(selected=jnp.arange(n) % 50 == 7), state

    local = clients.fedsgd(LOSS)
    updates = local.updates
    assert updates is not None

    def counting(*args):
        jax.debug.callback(lambda selected: ran.append(int(selected.sum())), args[-1].selected)
        return updates(*args)

    counted = local._replace(apply=Stated(local.apply, local.steps, counting))
    system = round_of(counted, n, cohort=draw._replace(apply=apply), channel=erasure())
    info = jax.block_until_ready(step(system, population(n, 1)))[1]
    jax.effects_barrier()
    assert ran == [3] and int(info.counted.sum()) == 3
    assert n > 2 * sums_of_updates.CHUNK


@pytest.mark.parametrize("weights", [{}, {"weight_cap": 2.0, "clip_quantile": 0.5}])
def test_dp_fedavg_is_that_of_single_rows_and_leaves_out_what_is_not_finite(weights):
    n, data = 150, population(150, 3)
    x, y = data.examples
    data = data._replace(examples=(x.at[3, 0].set(jnp.inf).at[4, 0, 0].set(3e38), y))
    how: dict[str, Any] = dict(num_clients=n, clip=0.3, noise_multiplier=0.1, sampling_rate=0.9, mesh=None, **weights)
    systems = [dp_fedavg(each, **how) for each in (clients.fedsgd(LOSS), with_rows(clients.fedsgd(LOSS)))]
    (ours, rows), infos = zip(*(step(system, data) for system in systems), strict=True)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), ours.aggregate, rows.aggregate)
    assert int(infos[0].status) == 0 and {3, 4} <= set(np.asarray(infos[0].client)[np.asarray(infos[0].counted)])
    np.testing.assert_allclose(*(info.direction for info in infos), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(*(np.where(info.counted, info.loss, 0) for info in infos), rtol=2e-5, atol=1e-6)
    assert same_bits(infos[0].counted, infos[1].counted) and same_bits(infos[0].bits, infos[1].bits)


def test_numpy_data_may_be_closed_over():
    data = jax.device_get(population(8, 1))  # of devices that hold as many clients each, so that samples are copied
    system = dp_fedavg(clients.fedsgd(LOSS), num_clients=8, clip=CLIP, sampling_rate=0.5, mesh=mesh_of(2))
    state = system.init(KEY, PARAMS, data)
    inside = jax.jit(lambda state: system.step(KEY, state, data)[1].direction)(state)
    assert same_bits(inside, jax.jit(system.step)(KEY, state, data)[1].direction)
