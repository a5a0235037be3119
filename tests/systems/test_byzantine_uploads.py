"""What Byzantine clients can put into a secure sum: they do not report themselves, and nobody sees their elements."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators import mean, on_coordinates
from fedjax_priv.attacks import foe, infinite, on_field_elements, random_elements, sign_flip, sum_replacement
from fedjax_priv.base import Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.layers import average, common_coordinates, conspar, plain, plain_field, quantize, stack
from fedjax_priv.layers.quantization import LARGEST
from fedjax_priv.status import Status
from fedjax_priv.systems import f2ed, fedrep, share
from helpers import Q, cohort_of, engine, of_the_round, one_round, refuses, run_layer, survivors, targets

KEY = jax.random.key(7)
M, D = 6, 8
MOST = (Q - 1) // 2
UPDATES = np.random.default_rng(3).uniform(0.1, 0.6, size=(M, 1, D)).astype(np.float32)
PLAIN_MEAN = mean()._replace(most_byzantine=None)


LEVELS = [2.0**16, 2.0**20, 2.0**27]


@functools.partial(jax.jit, static_argnums=0)
def step(system):
    data = targets(M, D)
    return system.step(KEY, system.init(KEY, jnp.zeros(D), data), data)[1]


def shared(**how):
    """All clients in one secure sum whose plain mean is the direction."""
    how = {"buffer_size": M, "aggregate": PLAIN_MEAN, "num_byzantine": 1, **how}
    return step.__wrapped__(share(of_the_round(jnp.asarray(UPDATES)), num_clients=M, mesh=None, **how))


def test_a_thousand_times_moves_a_plain_mean_under_masks_as_far_as_the_field_allows():
    """To where it moves it in the clear, or by q / (2 levels M), and never nowhere: nobody reports the attacker.

    Masks, which change no sum, are not expanded.
    """
    rows = UPDATES[:, 0].astype(np.float64)
    found = jax.jit(jax.vmap(lambda levels: shared(attack=sign_flip(1000.0), levels=levels, elide=True)))(
        jnp.asarray(LEVELS)
    )
    assert (found.status == 0).all() and (found.group_status == 0).all() and found.counted.all()
    for levels, direction in zip(LEVELS, found.direction, strict=True):
        sent = np.clip(-1000 * rows[0], -MOST / levels, MOST / levels)
        np.testing.assert_allclose(direction, (sent + rows[1:].sum(0)) / M, rtol=1e-3)
    assert np.linalg.norm(found.direction[0]) > 100 * np.linalg.norm(rows.mean(0))


def test_an_honest_overflow_costs_its_group_and_a_byzantine_one_does_not():
    vectors = UPDATES.copy()
    vectors[[0, 5], 0, 0] = 1e9  # client 0 is Byzantine, 5 is not
    how = dict(num_clients=M, buffer_size=1, in_the_clear=True, aggregate=PLAIN_MEAN, num_byzantine=1, mesh=None)
    info = step(share(of_the_round(jnp.asarray(vectors)), **how))
    assert info.counted.tolist() == [True] * 5 + [False]
    assert sorted(info.group_status.tolist()) == [0] * 5 + [Status.FIELD_OVERFLOW]


def test_an_upload_saturates_in_the_field_and_nan_is_no_upload():
    x = jnp.asarray([[np.inf, -np.inf, 1e30, -1e30, 2.0**30, 0.0], [np.nan, 1.0, 1.0, 1.0, 1.0, 1.0]], jnp.float32)
    layer = stack(quantize=quantize(4.0, 2), send=plain_field())
    result = run_layer(layer, KEY, x, cohort_of(2), survivors(2))
    elements = np.asarray(result["upload"][0]).astype(np.int64)
    signed = np.where(elements > Q // 2, elements - Q, elements)
    assert signed.tolist() == [LARGEST, -LARGEST, LARGEST, -LARGEST, LARGEST, 0] and LARGEST <= MOST
    assert result["sent"].status.tolist() == [Status.NOT_FINITE] * 2
    assert result["sent"].refused.tolist() == [0, Status.NOT_FINITE]


def test_infinity_in_a_secure_sum_is_the_largest_value():
    info = jax.jit(lambda: shared(attack=infinite(), levels=2.0**20, in_the_clear=True))()
    assert int(info.status) == 0
    assert (np.abs(info.direction) > 0.99 * MOST / 2.0**20 / M).all()


def test_an_attack_told_nonsense_is_not_harmless():
    """A traced factor out of range is sent as NaN, and fails the group."""

    def status(scale):
        system = share(
            of_the_round(jnp.asarray(UPDATES)), num_clients=M, buffer_size=M, aggregate=PLAIN_MEAN, num_byzantine=1,
            attack=foe(scale), in_the_clear=True, mesh=None,
        )  # fmt: skip
        data = targets(M, D)
        return system.step(KEY, system.init(KEY, jnp.zeros(D), data), data)[1].status

    assert jax.jit(jax.vmap(status))(jnp.array([0.5, -1.0])).tolist() == [0, Status.NOT_FINITE]


def test_a_byzantine_loss_that_is_not_finite_costs_nothing_and_leaves_its_state():
    """Nobody else knows it; the client keeps the memory it had, and others get theirs."""

    def apply(key, memory, params, data, who):
        loss = jnp.where(who.client < 2, jnp.nan, 0.0)
        return jnp.ones((len(memory), 5)), memory + 1.0, loss

    local = Local(lambda n, params: jnp.zeros(n), apply)
    for honest, counted in ((everyone(6, num_byzantine=2), 6), (everyone(6), 4)):
        layers = stack(average=average(), quantize=quantize(8.0, 1), send=plain_field(6))
        _, after, info = one_round(engine(cohort=honest, local=local, layers=layers, channel=erasure()), targets(6, 5))
        assert int(info.counted.sum()) == counted
        assert after.memory.tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("layer", "rule"),
    [(conspar(5, 2), on_coordinates(mean(), 5)), (common_coordinates(5, 2, error_feedback=True), mean())],
    ids=["conspar", "common_coordinates"],
)
def test_a_memory_of_a_byzantine_client_stays_finite(layer, rule):
    data = targets(6, 5)
    bad = data._replace(examples=data.examples.at[0].set(jnp.inf))
    layers = stack(sparsify=layer, average=average(), quantize=quantize(8.0, 6), send=plain_field())
    how = dict(cohort=everyone(num_byzantine=1), layers=layers, aggregate=rule, block=6)
    _, after, info = one_round(engine(**how), bad)
    memory = np.asarray(after.layers["sparsify"])
    assert info.counted.all() and int(info.status) == 0
    assert (memory[0] == 0).all() and np.isfinite(memory).all() and memory[1:].any(1).all()


def test_what_a_server_sees_in_the_clear_it_refuses_whoever_sent_it():
    data = targets(6, 5)
    bad = data._replace(examples=data.examples.at[0, 1].set(jnp.nan))
    draw = everyone(6, num_byzantine=1)
    _, _, info = one_round(engine(cohort=draw, layers=stack(send=plain(6)), aggregate=PLAIN_MEAN), bad)
    assert info.counted.tolist() == [False] + [True] * 5 and int(info.status) == 0


# Field elements


def encoded(attack, elements, who):
    layer = on_field_elements(attack)
    assert layer.whole
    return np.asarray(jax.jit(lambda x: layer.encode(KEY, (), (), x, who)[0])(elements))


ELEMENTS = np.random.default_rng(0).integers(0, Q, (M, D), dtype=np.uint32)
WHO = cohort_of(M)._replace(
    byzantine=jnp.array([True, True, False, False, True, True]),
    selected=jnp.array([True, True, True, True, True, False]),
    group=jnp.array([0, 2, 2, 0, 2, 1]),
)


@pytest.mark.parametrize("total", [MOST, -MOST, 0, 12345])
def test_a_sum_becomes_what_the_attackers_want(total):
    """Exactly, in every group with a Byzantine member that takes part; integers of Python."""
    sent = encoded(sum_replacement(total), ELEMENTS, WHO)
    np.testing.assert_array_equal(sent[[2, 3, 5]], ELEMENTS[[2, 3, 5]])
    for members in ([0, 3], [1, 2, 4]):
        assert (sent[members].astype(object).sum(0) % Q == total % Q).all()


def test_random_elements_are_of_each_client_and_in_the_field():
    sent = encoded(random_elements(), np.tile(ELEMENTS, (1, 500)), WHO)
    np.testing.assert_array_equal(sent[[2, 3, 5]], np.tile(ELEMENTS, (1, 500))[[2, 3, 5]])
    assert (sent < Q).all() and (sent[0] != sent[1]).mean() > 0.99
    share_below = (sent[[0, 1, 4]] < Q // 4).mean(1)
    assert (np.abs(share_below - 0.25) < 5 * np.sqrt(0.25 * 0.75 / sent.shape[1])).all()


def test_words_beyond_the_field_are_taken_modulo_q():
    words = jnp.full((1, D), 2**32 - 1, jnp.uint32)
    assert (encoded(lambda *args: words, ELEMENTS, WHO)[0] == 4).all()


SYSTEMS = {
    "share": lambda local, **how: share(local, aggregate=PLAIN_MEAN, in_the_clear=True, **how),
    "f2ed": lambda local, **how: f2ed(local, in_the_clear=True, **how),
    "fedrep": lambda local, **how: fedrep(
        local, num_params=D, k=M * D, aggregate=PLAIN_MEAN, clip=4.0, noise_variance=1.0, elide=True, **how
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_sum_of_a_buffer_is_what_the_attackers_want(name):
    """The field's reach, q / (2 levels), over the 2 members of a buffer; with noise in FedREP."""
    levels, field_attack = 2.0**10, sum_replacement()
    info = step(
        SYSTEMS[name](
            of_the_round(jnp.asarray(UPDATES)), num_clients=M, buffer_size=2, num_byzantine=1, levels=levels, mesh=None,
            field_attack=field_attack,
        )
    )  # fmt: skip
    assert int(info.status) == 0 and info.counted.all()
    if name == "f2ed":
        assert (np.abs(info.direction) < 1).all(), "FilterL2 leaves such a row out"
    else:
        np.testing.assert_allclose(info.direction, MOST / levels / 2 / 3, rtol=1e-3)


test_bad_totals = refuses(
    lambda total: sum_replacement(total),
    (MOST + 1, f"total must be an integer from -{MOST} to {MOST}, got {MOST + 1}"),
    (True, "total must be an integer"),
    (-MOST - 1, f"total must be an integer >= -{MOST}, got {-MOST - 1}"),
)
