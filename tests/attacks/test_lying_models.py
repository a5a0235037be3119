"""Different models to different clients: what the secure sum gives away, and masks that depend on the model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

from fedjax_priv import clients, data, losses, models
from fedjax_priv.attacks import gradient_suppression
from fedjax_priv.base import LyingServer, RoundState, View
from fedjax_priv.crypto import field
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import named
from fedjax_priv.layers import pairwise_masks
from fedjax_priv.leakage import residuals, secagg_protocol
from fedjax_priv.systems import fedbuff, secagg
from fedjax_priv.testing import run_layer
from helpers import Q, cohort_of, refuses, same_bits, survivors, towards_target

KEY, N, D, TARGET = jax.random.key(1), 8, 2000, 3


@functools.cache
def masks(bind):
    return pairwise_masks(group_size=N, bind_model=bind)


def given(*apart):
    """A cohort in which all clients got one model, but for these, who got another."""
    other = np.isin(np.arange(N), apart)[:, None]
    return cohort_of(N)._replace(digest=jnp.asarray(np.where(other, [[7, 8]], [[5, 6]]), jnp.uint32))


def total(bind, cohort, alive):
    value = np.random.default_rng(0).integers(-1000, 1001, (N, D))
    found = run_layer(masks(bind), KEY, field.from_signed(jnp.asarray(value, jnp.int32)), cohort, alive)
    return found, value[np.asarray(alive)].sum(0)


def looks_uniform(words):
    """Chi-square over 20 bins, and no small value."""
    counts = np.bincount(np.asarray(words, np.int64) * 20 // Q, minlength=20)
    return stats.chisquare(counts).pvalue > 1e-6


def test_equal_models_leave_the_sum_as_it_was_bit_for_bit():
    """With a lost client, whose masks the server takes out. All masks are other ones."""
    alive = survivors(N, [2])
    free, expected = total(False, cohort_of(N), alive)
    tied, _ = total(True, given(), alive)
    assert field.to_signed(free["received"].value)[0].tolist() == expected.tolist()
    assert same_bits(free["received"], tied["received"]) and same_bits(free["bits"], tied["bits"])
    assert same_bits(free["private"], tied["private"])
    assert (np.asarray(free["upload"]) != np.asarray(tied["upload"])).mean() > 0.999


def test_a_client_of_another_model_leaves_the_sum_uniform():
    """Its pair masks stay in it. Controls: without the defence the sum is right, and so it is if the client is lost."""
    everyone = survivors(N)
    spoilt, expected = total(True, given(TARGET), everyone)
    free, _ = total(False, given(TARGET), everyone)
    assert looks_uniform(spoilt["received"].value[0])
    assert field.to_signed(free["received"].value)[0].tolist() == expected.tolist()
    assert not looks_uniform(free["received"].value[0])
    lost, expected = total(True, given(TARGET), survivors(N, [TARGET]))
    assert field.to_signed(lost["received"].value)[0].tolist() == expected.tolist()


@pytest.mark.parametrize("place", [0, 1])
def test_either_word_of_the_digest_counts(place):
    """Clients 0 and 1 got another model than the rest, whose digest differs in one word."""
    cohort = given()
    cohort = cohort._replace(digest=cohort.digest.at[:2, place].add(np.uint32(1)))
    found, _ = total(True, cohort, survivors(N))
    assert looks_uniform(found["received"].value[0])


def test_the_server_takes_off_masks_of_known_keys_by_the_model_of_who_sent_them():
    """What `leakage` leaves of the uploads still adds up to the sum, though a lost client had another model."""
    alive = survivors(N, [TARGET])
    found, expected = total(True, given(TARGET), alive)
    view = View(only_rows(alive, found["upload"]), (), alive, {"mask": found["public"]}, {"mask": found["header"]}, ())
    left = residuals(view, secagg_protocol(group_size=N, bind_model=True))
    sums = np.bincount(left.coordinate, left.value.astype(float)).astype(np.int64) % Q
    assert np.where(sums > Q // 2, sums - Q, sums).tolist() == expected.tolist()


MODEL = models.mlp((8, 8, 1), 10, hidden=(12, 6))
LOCAL = clients.local_sgd(losses.softmax_cross_entropy(MODEL), learning_rate=0.1, batch_size=10, num_steps=2)
SUPPRESSION = gradient_suppression(TARGET, N, "Dense_1")
HONEST, TO_ALL = 1, 2
"""Rounds in which the server gives everybody the model, or everybody the dead one."""


@functools.cache
def first_model():
    with jax.ensure_compile_time_eval():  # as below
        return MODEL.init(jax.random.key(0))


@functools.cache
def digits():
    with jax.ensure_compile_time_eval():  # the first call may be in a trace
        return jax.tree.map(jnp.asarray, data.federate(data.digits(), N, "iid"))


def by_round(key, state):
    """Gradient suppression in round 0, and controls."""
    lied = SUPPRESSION.models(key, state)
    row = jnp.select([state.round == HONEST, state.round == TO_ALL], [jnp.ones(N, int), jnp.zeros(N, int)], lied.row)
    return lied._replace(row=row)


@functools.cache
def program(bind):
    system = secagg(LOCAL, num_clients=N, bind_model=bind, lying_server=LyingServer(models=by_round), mesh=None)
    return jax.jit(system.step), jax.jit(lambda: system.init(KEY, first_model(), digits()))()


def one_round(bind, round=0):
    step, state = program(bind)
    info = step(KEY, state._replace(round=jnp.int32(round)), digits())[1]
    assert int(info.status) == 0
    return np.asarray(info.direction, float)


@jax.jit
def trained(round):
    """What clients train from the model, each alone."""
    key, params = named(jax.random.fold_in(KEY, round), "local"), first_model()
    who = cohort_of(N)._replace(round=jnp.full(N, round))
    return LOCAL.apply(key, LOCAL.init(N, params), params, digits(), who)[0]


def target_update(round):
    """What the target adds to the sum."""
    update = trained(round)
    count = np.asarray(digits().count, float)
    return (np.asarray(update, float) * (count / count.sum())[:, None])[TARGET]


def output_bias():
    """Which coordinates are the bias of the output."""
    is_it = lambda path, a: jnp.full_like(a, path[0].key == "Dense_2" and path[1].key == "bias")
    return np.asarray(ravel_pytree(jax.tree.map_with_path(is_it, first_model()))[0]) == 1


def test_the_secure_sum_is_the_targets_update_unless_masks_depend_on_the_model():
    """At all coordinates but the output's bias, within the rounding of the one update that is not zero there."""
    rest, alone, stripped = ~output_bias(), target_update(0), one_round(False)
    assert np.abs(stripped - alone)[rest].max() <= 2.0**-20 + 1e-8
    assert np.linalg.norm((stripped - alone)[rest]) < 1e-3 * np.linalg.norm(alone[rest])
    assert np.abs(stripped - alone)[~rest].max() > 1e-3
    honest, alone = one_round(False, HONEST), target_update(HONEST)
    assert np.linalg.norm((honest - alone)[rest]) > 0.5 * np.linalg.norm(alone[rest])
    assert looks_uniform(one_round(True) * 2.0**20 % Q) and not looks_uniform(stripped * 2.0**20 % Q)
    assert same_bits(one_round(True, HONEST), honest)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_no_input_is_too_large_for_a_dead_layer(size):
    params = first_model()
    dead = jax.tree.map(
        lambda a: a[0], SUPPRESSION.models(KEY, RoundState(jnp.int32(0), (), params, (), (), (), ())).params
    )
    loss = lambda params: jnp.square(MODEL.apply(params, size * jnp.ones((1, 8, 8, 1))) - 1).sum()
    flat = jax.jit(lambda of: ravel_pytree(jax.grad(loss)(of))[0])
    alive, gradient = (np.asarray(flat(of)) for of in (params, dead))
    assert not gradient[~output_bias()].any() and gradient[output_bias()].all() and alive[~output_bias()].any()


def test_the_same_harmful_model_for_all_passes():
    """Masks that depend on the model do not say that a model is harmless."""
    moved = one_round(True, TO_ALL)
    assert not moved[~output_bias()].any() and np.abs(moved).max() > 1e-3


def shapes(lies):
    system = secagg(LOCAL, num_clients=N, lying_server=lies, mesh=None)
    state = jax.eval_shape(lambda: system.init(KEY, MODEL.init(KEY), digits()))
    return jax.eval_shape(system.step, KEY, state, digits())


def test_models_must_be_such_as_clients_can_train():
    with pytest.raises(
        ValueError, match=r"^layer must be one of the model with a bias, \['Dense_0', 'Dense_1', 'Dense_2'\]"
    ):
        shapes(gradient_suppression(TARGET, N, "Dense_7"))
    with pytest.raises(ValueError, match=r"^models must return Models\(params \[V, ...\], row \[8\]\)"):
        shapes(gradient_suppression(TARGET, N + 1, "Dense_1"))
    with pytest.raises(ValueError, match="^lying_server must hand out no models where clients train earlier ones"):
        fedbuff(towards_target(), num_clients=30, concurrency=10, buffer_size=2, lying_server=SUPPRESSION)


test_bad_targets = refuses(
    gradient_suppression,
    (8, 8, "Dense_0", "target must be a client below 8, got 8"),
    (0, 0, "Dense_0", "num_clients must be an integer >= 1"),
    (True, 8, "Dense_0", "target must be an integer >= 0, got True"),
)
