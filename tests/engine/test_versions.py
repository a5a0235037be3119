"""Clients that train models of earlier rounds: which model, what failed rounds leave, and the same bits without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import clients, losses, models
from fedjax_priv.aggregators import mean
from fedjax_priv.base import ClientData, LyingServer, Models
from fedjax_priv.clients.cohort_rows import cohort_of
from fedjax_priv.engine.parts import lists_of
from fedjax_priv.engine.versions import by_version, with_digests
from fedjax_priv.layers import average, plain, stack
from helpers import engine, mesh_of, refuses, remembering, rounds_of, same_bits, targets, towards_target

KEY, N, D, V = jax.random.key(3), 7, 5, 3


def stale(staleness=lambda round, n: jnp.minimum(round, jnp.arange(n) % V), versions=V):
    """Everyone, each client some rounds behind; clients behind all that is kept are left out."""
    draw = clients.everyone()

    def apply(key, state, round, count):
        who, state = draw.apply(key, state, round, count)
        behind = staleness(round, count.size)
        return who._replace(staleness=behind, selected=behind < versions), state

    measures = lambda who, state: {"staleness": who.staleness, "oldest": who.staleness.max()}
    return draw._replace(apply=apply, versions=versions, measures=measures)


def run(draw, data=None, rounds=6, **how):
    layers = stack(average=average(), send=plain())
    system = engine(cohort=draw, local=remembering(), layers=layers, **how)
    return rounds_of(system, KEY, jnp.zeros(D), targets(N, D) if data is None else data, rounds)


def test_each_client_trains_the_model_it_was_given():
    """Against a loop over clients in float64; the control trains the newest model."""
    states, infos = run(stale())
    x, history, newest = np.asarray(targets(N, D).examples, float), [np.zeros(D)], np.zeros(D)
    for round in range(6):
        starts = [history[round - min(round, i % V)] for i in range(N)]
        history.append(history[-1] - (np.array(starts) - x).mean(0))
        newest = newest - (newest - x).mean(0)
    np.testing.assert_allclose(states.params, history[1:], atol=1e-5)
    assert np.abs(history[-1] - newest).max() > 0.1
    assert infos.measured["staleness"][4].tolist() == [i % V for i in range(N)]
    assert infos.measured["oldest"][:4].tolist() == [[min(round, V - 1)] * N for round in range(4)]


def test_a_ring_changes_no_bit_unless_somebody_is_behind():
    fresh = lambda round, n: jnp.zeros(n, jnp.int32)
    shared, _ = run(clients.everyone())
    assert shared.versions == ()
    for versions in (2, 4):
        own, _ = run(stale(fresh, versions))
        assert own.versions.shape == (6, versions, D)
        assert same_bits(own._replace(versions=()), shared)
    assert not same_bits(run(stale())[0].params, shared.params)


@pytest.mark.parametrize(("block", "devices"), [(2, 1), (3, 2)])
def test_blocks_and_devices_change_no_bit(block, devices):
    assert same_bits(run(stale(), block=block, mesh=mesh_of(devices))[0], run(stale(), mesh=None)[0])


def test_a_failed_round_leaves_one_more_of_the_same_model():
    """In round 2 a client sends NaN; who was given the model of round 3 trains that of round 2."""
    ruined = lambda local: local._replace(
        apply=lambda key, memory, params, data, who: local.apply(
            key, memory, params, data._replace(examples=jnp.where(who.round == 2, jnp.nan, data.examples)), who
        )
    )
    system = engine(cohort=stale(), local=ruined(towards_target()), layers=stack(average=average(), send=plain()))
    states, infos = rounds_of(system, KEY, jnp.zeros(D), targets(N, D), 4)
    assert (np.asarray(infos.status) > 0).tolist() == [False, False, True, False]
    assert same_bits(states.params[2], states.params[1])
    assert same_bits(states.versions[2][3 % V], states.versions[2][2 % V])
    assert states.versions.shape == (4, V, D)


def test_local_sgd_of_clients_one_by_one():
    """The bits of a client do not depend on whose model its neighbours train."""
    rows_of_two = lambda i, j, tree: jax.tree.map(lambda a: a[np.array([i, j])], tree)
    model = models.softmax_regression((2, 2, 1), 3)
    loss = losses.softmax_cross_entropy(model)
    local = by_version(
        clients.local_sgd(loss, learning_rate=0.1, batch_size=2, num_epochs=2, momentum=0.9, carry_momentum=True)
    )
    params = [model.init(jax.random.key(seed)) for seed in range(2)]
    ring = jax.tree.map(lambda *rows: jnp.stack(rows), *params)
    x = jax.random.normal(KEY, (4, 5, 2, 2, 1))
    data = ClientData((x, jnp.arange(20).reshape(4, 5) % 3), jnp.array([5, 3, 0, 4]))
    who = cohort_of(jnp.arange(4), jnp.int32(1), data.count)
    memory = local.init(4, params[0])
    train = jax.jit(lambda staleness: local.apply(KEY, memory, ring, data, who._replace(staleness=staleness)))
    mixed, fresh, old = (train(jnp.array(s)) for s in ([0, 1, 1, 0], [0] * 4, [1] * 4))
    assert same_bits(rows_of_two(0, 3, mixed), rows_of_two(0, 3, fresh))
    assert same_bits(rows_of_two(1, 2, mixed), rows_of_two(1, 2, old))
    assert not np.allclose(old[0][1], fresh[0][1])
    plain_local = clients.local_sgd(
        loss, learning_rate=0.1, batch_size=2, num_epochs=2, momentum=0.9, carry_momentum=True
    )
    together = jax.jit(plain_local.apply)(KEY, memory, params[1], data, who)
    for one, other in zip(jax.tree.leaves(fresh), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


test_bad_arguments = refuses(
    lambda aggregate: engine(cohort=stale(), aggregate=aggregate),
    (
        mean()._replace(tells=lambda state: {"clip": jnp.float32(1)}),
        "aggregate must not tell clients its numbers where cohort lets them train earlier models",
    ),
)


def test_models_and_helpers_of_a_lying_server_are_by_client_of_the_population():
    """In a cohort of some clients, in another order."""
    local, who = by_version(remembering()), cohort_of(jnp.array([4, 1, 6]), jnp.int32(0), jnp.ones(N, int))
    models = Models(jnp.stack([jnp.zeros(D), jnp.ones(D)]), jnp.array([0, 1, 0, 0, 0, 0, 1]))
    zero = ClientData(jnp.zeros((3, D)), jnp.ones(3, int))
    update, _, _ = local.apply(KEY, local.init(3, jnp.zeros(D)), models, zero, who)
    assert np.abs(np.asarray(update)).max(1).tolist() == [0, 1, 1]
    digests = with_digests(lambda params: params[:2].astype(jnp.uint32), who, models).digest
    assert digests.tolist() == [[0, 0], [1, 1], [1, 1]]
    lies = LyingServer(lists=lambda alive, cohort: jnp.ones((3, 3), bool), colluding=(1, 2))
    assert lists_of(lies, jnp.ones(3, bool), who).colluding.tolist() == [False, True, False]
