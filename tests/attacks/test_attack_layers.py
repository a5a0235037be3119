"""Attack layers in a stack, and in a round of FedAvg."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv.aggregators import mean, trimmed_mean
from fedjax_priv.attacks import (
    alie,
    foe,
    gaussian,
    infinite,
    on_sparse,
    on_updates,
    optimal_alie,
    optimal_foe,
    sign_flip,
)
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, scale, stack, weighted_mean
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.status import Status
from helpers import cohort_of, mesh_of, remembering, same_bits, targets

N, D, F = 7, 12, 2
KEY = jax.random.key(11)
DATA = targets(N, D)
WEIGHT = np.asarray(DATA.count) / np.asarray(DATA.count).sum()


def encode(layer, x, who):
    private, public, _ = layer.advertise(KEY, layer.init(KEY, N), who)
    return layer.encode(KEY, private, public, jnp.asarray(x), who)


def test_only_byzantine_clients_that_take_part_are_replaced():
    x = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    who = cohort_of(N)._replace(
        selected=jnp.array([True, True, False, True, False, True, True]),
        byzantine=jnp.array([True, False, True, False, False, False, True]),
    )
    for spoilt in (x, np.where(np.isin(np.arange(N), [2, 4])[:, None], np.nan, x).astype(np.float32)):
        y, state, sent = encode(on_updates(foe(2.0)), spoilt, who)
        expected = spoilt.copy()
        expected[[0, 6]] = -2 * x[[1, 3, 5]].astype(np.float64).mean(0)
        np.testing.assert_allclose(y, expected, rtol=1e-5)
        np.testing.assert_array_equal(np.asarray(y)[1:6], expected[1:6])
        assert state == () and sent.bits == sent.status == 0


def test_what_is_sent_of_an_attack_is_what_is_largest_of_either_sign():
    """On dense rows of honest clients that sent other coordinates; these keep theirs."""
    who = cohort_of(3)._replace(byzantine=jnp.array([False, False, True]))
    position = jnp.array([[0, 2], [2, 3], [1, 4]])
    x = Sparse(jnp.array([[8.0, -6.0], [-2.0, 4.0], [9.0, 9.0]]), position)
    y, _, _ = on_sparse(foe(1.0), num_params=5).encode(KEY, (), (), x, who)
    np.testing.assert_array_equal(y.position[:2], position[:2])
    np.testing.assert_array_equal(y.value[:2], x.value[:2])
    chosen = dict(zip(y.position[2].tolist(), y.value[2].tolist(), strict=True))
    assert chosen == {0: -4.0, 2: 4.0}, "minus the mean of [8, 0, -6, 0, 0] and [0, 0, -2, 4, 0]"


@pytest.mark.parametrize(
    "attack", [alie(), optimal_foe(trimmed_mean(2)), optimal_alie(mean())], ids=["alie", "optimal_foe", "optimal_alie"]
)
def test_clients_that_take_no_part_are_no_attackers(attack):
    """As in a cohort that clients join by chance: what is sent is what would be sent if they did not exist."""
    x = np.random.default_rng(2).normal(1, 2, size=(2 * N, D)).astype(np.float32)
    joined = np.random.default_rng(3).permutation(2 * N) < N
    byzantine = np.isin(np.arange(2 * N), [*np.flatnonzero(joined)[:F], *np.flatnonzero(~joined)[:3]])
    spoilt = np.where(joined[:, None], x, np.nan).astype(np.float32)
    many = cohort_of(2 * N)._replace(selected=jnp.asarray(joined), byzantine=jnp.asarray(byzantine))
    few = cohort_of(N)._replace(byzantine=jnp.asarray(byzantine[joined]))
    layer = on_updates(attack)
    sent = lambda rows, who: np.asarray(layer.encode(KEY, (), (), jnp.asarray(rows), who)[0])
    found, expected = sent(spoilt, many)[joined], sent(x[joined], few)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert (found[:F] != x[joined][:F]).all()


def test_the_layer_looks_across_clients_and_so_does_its_stack():
    assert on_updates(foe()).whole
    assert stack(attack=on_updates(foe()), send=plain()).whole


def test_an_attack_controls_what_stands_below_it():
    """Above the weights an attack is weighted, below them it is not."""
    x, who = jnp.ones((N, D)), cohort_of(N, weight=np.arange(1, 8) / 28)
    who = who._replace(byzantine=jnp.arange(N) < F)
    above, *_ = encode(stack(attack=on_updates(foe(1.0)), weigh=scale(), send=plain()), x, who)
    below, *_ = encode(stack(weigh=scale(), attack=on_updates(foe(1.0)), send=plain()), x, who)
    np.testing.assert_allclose(above[:F], -np.outer([1 / 28, 2 / 28], np.ones(D)), rtol=1e-6)
    np.testing.assert_allclose(below[:F], np.full((F, D), -5 / 28), rtol=1e-6)


def fedavg_under(attack, **how):
    layers = {"mean": weighted_mean(), "send": plain()}
    return federated_round(
        cohort=everyone(num_byzantine=F),
        local=remembering(),
        layers=stack(attack=on_updates(attack), **layers) if attack else stack(**layers),
        channel=erasure(0.0),
        aggregate=mean(),
        server=optax.sgd(1.0),
        observe=lambda view: view.uploads,
        **{"mesh": None, **how},
    )


def run(system, rounds=1):
    step, state = jax.jit(system.step), system.init(KEY, jnp.zeros(D), DATA)
    for _ in range(rounds):
        state, info = step(KEY, state, DATA)
    return state, info


def rows_under(expected):
    """The uploads of the first round, from parameters 0."""
    rows = -np.asarray(DATA.examples, np.float64)
    rows[:F] = expected(rows[:F], rows[F:])
    return rows


@pytest.fixture(scope="module")
def without_attack():
    return np.asarray(run(fedavg_under(None))[1].observed)


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (sign_flip(3.0), lambda own, honest: -3 * own),
        (alie(1.5), lambda own, honest: honest.mean(0) - 1.5 * honest.std(0)),
    ],
)
def test_a_round_of_fedavg(attack, expected, without_attack):
    state, info = run(fedavg_under(attack))
    rows, uploads = rows_under(expected), np.asarray(info.observed)
    np.testing.assert_allclose(uploads[:F, :-1], WEIGHT[:F, None] * rows[:F], rtol=1e-5)
    np.testing.assert_array_equal(uploads[F:], without_attack[F:])
    np.testing.assert_array_equal(uploads[:, -1], without_attack[:, -1], "weights are told honestly")
    np.testing.assert_allclose(info.direction, WEIGHT @ rows, rtol=1e-4, atol=1e-5)
    assert int(info.status) == 0 and info.counted.all() and (state.memory == 1).all()


def test_blocks_and_devices_change_no_bit():
    first = run(fedavg_under(gaussian(), block=N), rounds=2)
    assert same_bits(first, run(fedavg_under(gaussian(), block=2, mesh=mesh_of(2)), rounds=2))


def test_infinity_costs_the_attackers_group():
    state, info = run(fedavg_under(infinite()))
    assert int(info.status) & Status.NOT_FINITE
    assert not info.counted.any() and not state.params.any()


def test_a_sweep_over_the_scale_is_one_program():
    def direction(factor, data):
        system = fedavg_under(foe(factor))
        return system.step(KEY, system.init(KEY, jnp.zeros(D), data), data)[1].direction

    swept = jax.jit(jax.vmap(direction, (0, None)))(jnp.array([0.0, 0.5, 2.0]), DATA)
    for found, factor in zip(swept, (0.0, 0.5, 2.0), strict=True):
        rows = rows_under(lambda own, honest, factor=factor: -factor * honest.mean(0))
        np.testing.assert_allclose(found, WEIGHT @ rows, rtol=1e-4, atol=1e-5)
