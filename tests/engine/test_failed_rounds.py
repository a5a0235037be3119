"""Rounds that fail, or lose a group: what moves and what stays."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv.aggregators import mean
from fedjax_priv.attacks import on_updates
from fedjax_priv.base import Aggregator, Draw, Kept, Sent
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.layers import plain, plain_field, quantize, stack, stateless
from fedjax_priv.status import Status, describe
from fedjax_priv.systems import fedavg
from helpers import engine, one_round, remembering, same_bits, targets, towards_target

KEY = jax.random.key(5)


def test_a_spoilt_group_is_left_out_and_the_round_goes_on():
    """Overflow or NaN of one client costs its group; the others' mean is what the server applies."""
    n, data = 8, targets(8, 5)
    bad = data._replace(examples=data.examples.at[3, 0].set(1e9).at[5, 1].set(jnp.nan))
    layers = stack(quantize=quantize(2.0**16, 2), send=plain_field(num_groups=4))
    system = engine(cohort=everyone(4), local=remembering(), layers=layers)
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
    system, seen = fedavg(towards_target(), dropout=0.5, mesh=None), set()
    before, step = system.init(KEY, jnp.zeros(5), bad), jax.jit(system.step)
    for seed in range(6):
        state, info = step(jax.random.key(seed), before, bad)
        arrived = bool(info.bits["upload"].up[2] > 0)
        assert (int(info.status) == Status.NOT_FINITE) == arrived
        assert jnp.isfinite(state.params).all()
        seen.add(arrived)
    assert seen == {True, False}


def counting(part, *, where):
    """A draw or an aggregator that counts its calls in its state."""
    apply = part.apply

    def count(*args):
        out, _ = apply(*args[:where], (), *args[where + 1 :])
        return out, args[where] + 1

    return part._replace(init=lambda *_: jnp.int32(0), apply=count)


def counting_layer():
    return stateless()._replace(
        init=lambda key, n: jnp.zeros(n, jnp.int32),
        advertise=lambda key, state, cohort: (state, (), {}),
        encode=lambda key, private, public, x, cohort: (x, private + 1, Sent()),
    )


@pytest.mark.parametrize("fails", [False, True])
def test_every_state_moves_if_the_round_succeeds_and_only_the_draw_s_if_it_fails(fails):
    data = targets(6, 5)
    if fails:
        data = data._replace(examples=data.examples.at[0, 0].set(jnp.nan))
    system = engine(
        cohort=counting(everyone(), where=1), aggregate=counting(mean(), where=1), local=remembering(),
        layers=stack(count=counting_layer(), send=plain()), server=optax.sgd(0.1, momentum=0.9),
    )  # fmt: skip
    before, after, info = one_round(system, data)
    assert int(after.draw) == int(after.round) == 1
    moved = [
        not same_bits(getattr(after, name), getattr(before, name))
        for name in ("params", "memory", "layers", "aggregate", "server")
    ]
    assert moved == [not fails] * 5
    assert info.counted.tolist() == [not fails] * 6


def test_a_server_that_is_no_longer_finite_fails_the_round():
    """A second moment, as Adam's, overflows long before the parameters do, and would stand still ever after."""
    moment = optax.GradientTransformation(jnp.zeros_like, lambda grad, nu, params: (0.0 * grad, nu + grad * grad))
    system = engine(layers=stack(send=plain(exact=False)), server=moment)
    data = targets(4, 5)
    before, after, info = one_round(system, data._replace(examples=data.examples.at[0].set(1e25)))
    assert int(info.status) == Status.NOT_FINITE
    assert same_bits(after, before._replace(round=before.round + 1))


def test_what_an_aggregator_keeps_moves_in_a_failed_round_too():
    """Attempts are counted, rounds too; without `Kept`, both would stand still."""

    def apply(key, state, received):
        attempts, rounds = state
        return received.value[0], Kept((attempts + 1, rounds + 1), (attempts + 1, rounds))

    counting = Aggregator(lambda d: (jnp.int32(0), jnp.int32(0)), apply)
    system = engine(layers=stack(send=plain(exact=False)), aggregate=counting)
    data = targets(4, 5)
    before, after, info = one_round(system, data._replace(examples=data.examples.at[0].set(jnp.nan)))
    assert int(info.status) == Status.NOT_FINITE
    assert same_bits(after, before._replace(round=before.round + 1, aggregate=(jnp.int32(1), jnp.int32(0))))
    _, after, _ = one_round(system, data)
    assert [*map(int, after.aggregate)] == [1, 1]


@pytest.mark.parametrize("in_any_case", [False, True])
def test_state_that_is_kept_in_any_case_fails_no_round(in_any_case):
    """If it is lost with the round, it must be finite."""

    def apply(key, state, received):
        bad = state + jnp.nan
        return received.value[0], Kept(bad, bad if in_any_case else state)

    system = engine(layers=stack(send=plain(exact=False)), aggregate=Aggregator(lambda d: jnp.float32(0), apply))
    _, after, info = one_round(system, targets(4, 5))
    assert int(info.status) == (0 if in_any_case else Status.NOT_FINITE)
    assert np.isnan(after.aggregate) == in_any_case


def test_a_training_loss_that_is_not_finite_fails_the_round():
    local = towards_target()._replace(apply=lambda *args: (jnp.ones((2, 5)), (), jnp.array([1.0, jnp.nan])))
    before, after, info = one_round(engine(local=local, block=2), targets(2, 5))
    assert int(info.status) == Status.NOT_FINITE
    assert same_bits(after.params, before.params)


def grouped(group, num_groups):
    draw = everyone(num_groups)
    cohort = lambda *args: (draw.apply(*args)[0]._replace(group=jnp.array(group)), ())
    return draw._replace(apply=cohort)


def test_a_sum_that_is_not_finite_costs_its_group():
    data = targets(4, 5)._replace(examples=jnp.zeros((4, 5)).at[:2].set(3e38))
    system = engine(cohort=grouped([0, 0, 1, 1], 2), layers=stack(send=plain(2, exact=False)))
    _, _, info = one_round(system, data)
    assert int(info.status) == 0
    assert info.group_status.tolist() == [Status.NOT_FINITE, 0]
    assert info.counted.tolist() == [False, False, True, True]


def test_a_client_in_a_group_without_a_row_fails_the_round():
    system = engine(cohort=grouped([0, 1, 2, 1], 2), layers=stack(send=plain(2)))
    before, after, info = one_round(system, targets(4, 5))
    assert int(info.status) == Status.CAP_OVERFLOW
    assert same_bits(after.params, before.params)


def of_clients(chosen):
    """A draw of these clients, in this order."""

    def apply(key, state, round, count):
        who, state = everyone().apply(key, (), round, count)
        return jax.tree.map(lambda a: a[jnp.array(chosen)], who), state

    return Draw(lambda key, n: (), apply)


@pytest.mark.parametrize(("chosen", "status"), [
    ([3, 1, 0], Status.OK), ([0, 1, 2, 3], Status.OK), ([3, 1, 0, 2], Status.OUT_OF_ORDER),
    ([1, 0, 0, 1], Status.OUT_OF_ORDER), ([0, 1, 2, 2], Status.OUT_OF_ORDER),
])  # fmt: skip
def test_a_cohort_as_large_as_the_population_is_in_order_or_the_round_fails(chosen, status):
    """Else a client would train on the samples of another: a smaller cohort has its own in any order."""
    data = targets(4, 3)
    before, after, info = one_round(engine(cohort=of_clients(chosen)), data, 3)
    assert int(info.status) == status
    assert describe(int(info.status)) == "ok" or "population in order" in describe(int(info.status))
    want = np.sum(np.asarray(data.examples)[chosen], 0) if status == 0 else before.params
    np.testing.assert_allclose(after.params, want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kept", [False, True])
def test_a_byzantine_client_whose_own_checks_failed_counts_and_keeps_its_state(kept):
    """Its loss is NaN; what the attack sends in its name is finite, so its upload and the round are accepted."""
    n, data = 6, targets(6, 5)
    cohort = everyone(n, num_byzantine=1)
    (bad,) = np.flatnonzero(cohort.apply(KEY, cohort.init(KEY, n), jnp.int32(0), data.count)[0].byzantine)
    data = data._replace(examples=data.examples.at[bad].set(jnp.nan))

    def encode(key, private, public, x, who):
        after = private + 1
        return x, Kept(after, private, private - 1) if kept else after, Sent()

    counting = stateless()._replace(
        init=lambda key, n: jnp.zeros(n, jnp.int32), advertise=lambda key, state, who: (state, (), {}), encode=encode
    )
    attack = on_updates(lambda key, updates, honest, byzantine: jnp.zeros_like(updates))
    layers = stack(counting=counting, attack=attack, send=plain(num_groups=n))
    state, info = one_round(engine(cohort=cohort, local=remembering(), layers=layers), data)[1:]
    assert int(info.status) == 0 and info.counted.all() and jnp.isfinite(info.direction).all()
    others = [int(client != bad) for client in range(n)]
    assert state.memory.tolist() == others
    assert state.layers["counting"].tolist() == [one - (kept and not one) for one in others]


def test_the_loss_of_a_client_whose_upload_is_lost_is_told():
    """It trained: what `loss` has of it does not depend on the channel."""
    data = targets(6, 5)
    _, info = one_round(engine(channel=erasure(0.5)), data)[1:]
    assert 0 < info.counted.sum() < 6
    np.testing.assert_allclose(info.loss, np.square(data.examples).mean(1), rtol=1e-5)
