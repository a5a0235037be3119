"""A server that repeats a round without one client: what the sums give away, and clients that train no model twice."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import clients, models
from fedjax_priv.attacks import replay
from fedjax_priv.channels import erasure
from fedjax_priv.clients import once_per_model
from fedjax_priv.crypto.digest import model_digest
from fedjax_priv.engine.memory_of_models import who_trains
from fedjax_priv.leakage import residuals, secagg_protocol
from fedjax_priv.ledger import ledger
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import fedbuff, secagg
from helpers import QUICK, Q, cohort_of, engine, refuses, rounds_of, same_bits, targets, towards_target

KEY, N, D, TARGET, LEVELS = jax.random.key(2), 6, 4, 2, 2.0**16
MODEL = jnp.zeros(D)


def sum_read(info):
    """Whom the server still reads together of a round, and their sum in grid points."""
    left = residuals(info.observed, secagg_protocol(group_size=N, consistency=True))
    total = np.bincount(left.coordinate, left.value.astype(float), minlength=D).astype(np.int64) % Q
    return sorted({*left.client.tolist()}), np.where(total > Q // 2, total - Q, total)


REPLAYED, NUDGED, MOVED = 0, 1, 2
"""What the server does in rounds 0 and 1, 2 and 3, 4 and 5: it repeats its model, nudges it, or lets it move."""


def by_round(key, state):
    """One attack for all three."""
    plain, nudged = (replay(MODEL, TARGET, N, nudge=nudge).models(key, state) for nudge in (False, True))
    models = jnp.concatenate([plain.params, nudged.params, state.params[None]])
    return plain._replace(
        params=models, row=jnp.stack([plain.row, 2 + nudged.row, 4 + 0 * plain.row])[state.round // 2]
    )


@functools.cache
def program(refuse):
    """A round, and the first state."""
    lies, data = replay(MODEL, TARGET, N)._replace(models=by_round), targets(N, D)
    local = once_per_model(towards_target()) if refuse else towards_target()
    system = secagg(
        local, num_clients=N, levels=LEVELS, consistency=True, lying_server=lies, observe=lambda view: view, mesh=None
    )
    step = jax.jit(lambda state: system.step(KEY, state, data), compiler_options=QUICK)
    return step, jax.jit(lambda: system.init(KEY, MODEL, data))()


@functools.cache
def two_rounds(refuse, what=REPLAYED):
    """Two rounds of a server, and the states around them."""
    step, state = program(refuse)
    state = state._replace(round=jnp.int32(2 * what))
    between, first = step(state)
    after, second = step(between)
    return (first, second), (state, between, after)


def alone():
    """What the target adds to the sum, in grid points."""
    data = targets(N, D)
    count = np.asarray(data.count, float)
    return -LEVELS * np.asarray(data.examples, float)[TARGET] * count[TARGET] / count.sum()


def test_two_attempts_of_a_round_give_away_who_was_left_out():
    """Keys and masks are new, training is not. Controls: the sums alone, and a second attempt from another model."""
    (first, again), states = two_rounds(False)
    assert int(first.status) == 0 != int(again.status) and int(states[2].round) == 2
    (everyone, whole), (others, rest) = sum_read(first), sum_read(again)
    assert everyone == [*range(N)] and others == [i for i in range(N) if i != TARGET]
    assert 0 < np.abs(whole - rest - alone()).max() <= 2 * N < np.abs(alone()).max() / 20
    assert np.abs(whole - alone()).max() > 100 * N < np.abs(rest - alone()).max()
    moved, _ = two_rounds(False, MOVED)
    assert np.abs(whole - sum_read(moved[1])[1] - alone()).max() > 100 * N


def test_clients_that_train_no_model_twice_send_nothing_the_second_time():
    free, _ = two_rounds(False)
    (first, again), (start, between, after) = two_rounds(True)
    assert same_bits(first.direction, free[0].direction) and not first.measured["sat_out"].any()
    assert again.measured["sat_out"].all() and int(again.status) == 1 and sum_read(again)[0] == []
    assert not again.bits["upload"].up.any() and not again.bits["advertise"].up.any()
    assert (np.asarray(again.bits["model"].down) == 32 * D).all()  # a client must have the model to know it
    assert (
        start.trained.shape == (N, 2)
        and (np.asarray(start.trained) >= Q).all()
        and same_bits(between.trained, after.trained)
    )


def test_a_nudge_of_one_number_by_the_least_step_is_another_model():
    """What clients cannot refuse: the difference is the target's update as before."""
    (first, again), (_, between, after) = two_rounds(True, NUDGED)
    (everyone, whole), (others, rest) = sum_read(first), sum_read(again)
    assert len(everyone) == N and others == [i for i in range(N) if i != TARGET]
    assert np.abs(whole - rest - alone()).max() <= 2 * N and not again.measured["sat_out"].any()
    assert (between.trained != after.trained).all(1).all()


def cohort_run(local, leave, rounds=12, **how):
    """An honest server; each round some leave before they open shares."""
    data = targets(N, D)
    system = secagg(local, num_clients=N, levels=LEVELS, leave=leave, elide=True, mesh=None, **how)
    return rounds_of(system, KEY, MODEL, data, rounds)


def test_after_a_failed_round_its_clients_sit_out_until_the_model_changes():
    """Against a loop over rounds. The control refuses nothing and remembers nothing."""
    _, infos = cohort_run(once_per_model(towards_target()), 0.2, cohort_size=2, threshold=2, rounds=24)
    last, model = np.full(N, -1), 0
    for round in range(24):
        who = np.asarray(infos.client[round])
        out = last[who] == model
        assert infos.measured["sat_out"][round].tolist() == out.tolist()
        assert (np.asarray(infos.bits["upload"].up[round]) > 0).tolist() == (~out).tolist()
        last[who[~out]] = model
        model += int(infos.status[round] == 0)
    assert 0 < model < 24 and (np.asarray(infos.measured["sat_out"]).sum(1) > 0).any()
    run = lambda: cohort_run(towards_target(), 0.2, cohort_size=2, threshold=2, rounds=24)
    free, unbound = jax.eval_shape(run)
    assert free.trained == () and "sat_out" not in unbound.measured


def test_a_model_is_another_one_if_either_word_of_its_digest_is():
    """By hand, of everybody and of two clients of the population."""
    local = towards_target()._replace(digest=lambda words: words)
    model, trained = jnp.array([5, 6], jnp.uint32), jnp.array([[5, 6], [5, 7], [4, 6], [4, 7]], jnp.uint32)
    who, after, measured = who_trains(local, cohort_of(4), model, trained)
    assert measured["sat_out"].tolist() == (~who.selected).tolist() == [True, False, False, False]
    assert after.tolist() == [[5, 6]] * 4
    pair = cohort_of(2)._replace(client=jnp.array([2, 0]), selected=jnp.array([True, True]))
    who, after, _ = who_trains(local, pair, model, trained)
    assert who.selected.tolist() == [True, False] and after.tolist() == [[5, 6], [5, 7], [5, 6], [4, 7]]


def test_byzantine_clients_refuse_nothing_and_the_rest_remember_lost_uploads_too():
    """In the clear, where a round fails if all uploads are lost."""
    system = engine(
        cohort=clients.everyone(num_byzantine=2),
        local=once_per_model(towards_target()),
        channel=erasure(1 - 1e-9),
        block=None,
    )
    states, infos = rounds_of(system, KEY, MODEL, targets(N, D), 2)
    assert (np.asarray(infos.status) != 0).all() and not infos.measured["sat_out"][0].any()
    assert infos.measured["sat_out"][1].tolist() == [False] * 2 + [True] * 4
    assert len(np.unique(states.trained[0], axis=0)) == 1


def test_the_ledger_charges_attempts_that_failed():
    """With noise of the clients, a run of which every second round failed costs as much as one of which none did."""
    data = targets(N, D)._replace(count=jnp.full(N, 3))
    system = secagg(
        towards_target(), num_clients=N, clip=1.0, noise_variance=0.01, levels=2.0**10, elide=True, mesh=None
    )
    run = simulate(system, KEY, MODEL, data, rounds=4, progress=False)
    failed = run.assign(status=run.status + np.array([0, 1, 0, 1]), counted=run.counted & [[True], [False]] * 2)
    paid, half = ([entry.proved for entry in ledger(system, one, data, delta=1e-5)] for one in (run, failed))
    short = [entry.proved for entry in ledger(system, run.isel(round=slice(2)), data, delta=1e-5)]
    assert repr(paid) == repr(half) != repr(short)


def test_other_zeros_have_one_digest_and_permuted_units_another():
    """The second is what clients cannot refuse: the same function, whose training gives the update, permuted."""
    model = models.mlp((3,), 2, hidden=(4,))
    params, order = model.init(KEY), jnp.array([1, 0, 3, 2])
    first, second = params["Dense_0"], params["Dense_1"]
    minus = jax.tree.map(lambda a: jnp.where(a == 0, -0.0, a), params)
    other = {
        "Dense_0": {"bias": first["bias"][order], "kernel": first["kernel"][:, order]},
        "Dense_1": {"bias": second["bias"], "kernel": second["kernel"][order]},
    }
    digest = jax.jit(model_digest)
    digests = [tuple(digest(of).tolist()) for of in (params, minus, other)]
    assert np.signbit(minus["Dense_0"]["bias"]).all() and digests[0] == digests[1] != digests[2]
    loss = lambda params: jnp.square(model.apply(params, jnp.arange(6.0).reshape(2, 3))).sum()
    gradient = jax.jit(jax.grad(loss))
    one, permuted = (gradient(of)["Dense_1"]["kernel"] for of in (params, other))
    np.testing.assert_allclose(permuted, one[order], rtol=1e-5, atol=1e-6)
    assert np.abs(permuted - one).max() > 0.01


test_bad_replays = refuses(
    replay,
    (MODEL, N, N, "target must be a client below 6, got 6"),
    (MODEL, 0, 0, "num_clients must be an integer >= 1"),
)
test_no_training = refuses(
    inspect.unwrap(once_per_model), (3, r"local must be a Local, such as clients.local_sgd\(...\), got int")
)


def test_stale_models_and_refusals_do_not_go_together():
    with pytest.raises(ValueError, match="^local must not be once_per_model"):
        fedbuff(once_per_model(towards_target()), num_clients=30, concurrency=10, buffer_size=2)
