"""A choice by number: a batch runs as its members would alone, and only what each chose."""

import collections
from inspect import unwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aggregators.references import krum as krum_reference
from fedjax_priv import aggregators, attacks
from fedjax_priv.base import Received
from fedjax_priv.engine import batched_switch

KEY = jax.random.key(0)
ROWS = np.random.default_rng(0).normal(size=(4, 7, 5)).astype(np.float32)
INDEX = jnp.asarray([2.0, 0.0, 1.0, 2.0])


@pytest.mark.parametrize("batched", ["index", "operand", "both"])
def test_each_member_runs_its_branch_and_no_other(batched):
    calls = collections.Counter()

    def branch(i):
        def run(x):
            jax.debug.callback(lambda: calls.update([i]))
            return (i + 1.0) * x

        return run

    index, x = jnp.asarray([2, 0, 2, 2]), jnp.arange(1.0, 5.0)
    axes = (0 if batched != "operand" else None, 0 if batched != "index" else None)
    chosen, given = index if axes[0] == 0 else index[0], x if axes[1] == 0 else x[3]
    run = lambda index, x: batched_switch.switch(index, [branch(i) for i in range(3)], x)
    out = jax.jit(jax.vmap(run, axes))(chosen, given)
    jax.effects_barrier()
    np.testing.assert_array_equal(out, np.asarray(chosen + 1) * np.asarray(given))
    assert calls == ({2: 1} if batched == "operand" else {2: 3, 0: 1})  # one call may stand for a batch


def test_batches_in_batches_take_turns_too():
    index, x = jnp.asarray([1, 0]), jnp.arange(6.0).reshape(2, 3)
    doubled = lambda index, row: jax.vmap(lambda x: batched_switch.switch(index, [jnp.negative, jnp.exp], x))(row)
    out = jax.vmap(doubled)(index, x)
    np.testing.assert_allclose(out, np.stack([np.exp(x[0]), -x[1]]), rtol=1e-6)
    program = str(jax.make_jaxpr(jax.vmap(doubled))(index, x))
    assert "cond" in program and "f32[3] = select_n" not in program


def test_rules_of_a_batch_are_those_chosen():
    rules = [aggregators.coordinate_median(), aggregators.krum(2), aggregators.centered_clipping()]

    def run(index, state, rows):
        rule = aggregators.one_of(index, rules)
        return rule.apply(KEY, state, Received(rows, jnp.ones(7, jnp.int32)))

    state = jax.vmap(lambda _: aggregators.one_of(0, rules).init(5))(INDEX)
    step = jax.jit(jax.vmap(run))
    first, state = step(INDEX, state, ROWS)
    second, _ = step(INDEX, state, ROWS)
    np.testing.assert_allclose(first[1], np.median(ROWS[1].astype(np.float64), axis=0), rtol=1e-6)
    np.testing.assert_allclose(first[2], krum_reference(ROWS[2].astype(np.float64), 2, excess=2), rtol=1e-6)
    clip, kept = rules[2], rules[2].init(5)
    for out in (first, second):
        direction, kept = jax.jit(clip.apply)(KEY, kept, Received(jnp.asarray(ROWS[3]), jnp.ones(7, jnp.int32)))
        np.testing.assert_allclose(out[3], direction, rtol=1e-6)
    assert np.abs(np.asarray(first[3] - second[3])).max() > 1e-3


def test_a_choice_bears_what_every_rule_bears():
    krum, median, mean = aggregators.krum(2), aggregators.coordinate_median(), aggregators.mean()
    bears = aggregators.one_of(0, [krum, median]).most_byzantine
    assert [bears(m) for m in (4, 5, 9)] == [min(krum.most_byzantine(m), median.most_byzantine(m)) for m in (4, 5, 9)]
    unknown = median._replace(most_byzantine=None)
    assert aggregators.one_of(0, [krum, unknown]).most_byzantine is None
    assert aggregators.one_of(1, [median, mean]).most_byzantine(9) == mean.most_byzantine(9)


def test_attacks_of_a_batch_are_those_chosen():
    among = [attacks.sign_flip(), attacks.foe(0.5), attacks.alie(1.0)]
    honest = np.arange(7) > 1
    run = lambda index, rows: attacks.one_of(index, among)(KEY, rows, jnp.asarray(honest), ~jnp.asarray(honest))
    sent = np.asarray(jax.jit(jax.vmap(run))(INDEX, ROWS))
    mean, std = ROWS[:, honest].mean(1), ROWS[:, honest].std(1)
    np.testing.assert_allclose(sent[1][:2], -ROWS[1][:2], rtol=1e-6)
    np.testing.assert_allclose(sent[2][0], -0.5 * mean[2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sent[3][0], mean[3] - std[3], rtol=1e-5, atol=1e-6)


def test_a_traced_number_that_is_none_gives_nan():
    rules, among = [aggregators.mean(), aggregators.coordinate_median()], [attacks.sign_flip(), attacks.foe()]
    count, honest = jnp.ones(7, jnp.int32), jnp.arange(7) > 1

    def both(index):
        direction, _ = aggregators.one_of(index, rules).apply(KEY, ((), ()), Received(jnp.asarray(ROWS[0]), count))
        return direction, attacks.one_of(index, among)(KEY, jnp.asarray(ROWS[0]), honest, ~honest)

    bad = [2.0, -1.0, 0.5, jnp.nan]
    direction, sent = jax.jit(jax.vmap(both))(jnp.asarray([0.0, 1.0, *bad]))
    assert np.isfinite(direction[:2]).all() and np.isnan(direction[2:]).all()
    assert np.isfinite(sent[:2]).all() and np.isnan(sent[2:]).all()


@pytest.mark.parametrize(
    ("one_of", "among"),
    [(aggregators.one_of, [aggregators.mean()] * 2), (attacks.one_of, [attacks.foe(), attacks.alie()])],
)
def test_a_bad_choice_is_named(one_of, among):
    for index in (2, -1, 0.5, float("nan")):
        with pytest.raises(ValueError, match=rf"^index must be one of 0, 1, got {index!r}$"):
            one_of(index, among)
    with pytest.raises(ValueError, match="at least one to choose from"):
        one_of(0, [])
    with pytest.raises(ValueError, match="^one_of must be given a list of at least one to choose from, got 7$"):
        unwrap(batched_switch.number)(0, 7)


def test_what_a_branch_closes_over_may_be_batched():
    """As the number of the rule is that a searched attack tries out."""
    rules = [aggregators.mean(), aggregators.coordinate_median()]
    honest, count = jnp.arange(7) > 1, jnp.ones(7, jnp.int32)

    def searched(defence):
        respond = lambda rows: defence.apply(KEY, defence.init(5), Received(rows, count))[0]
        return attacks.optimal_foe(respond, evals=5)

    def sent(attack, rule, rows):
        return attacks.one_of(attack, [attacks.foe(), searched(aggregators.one_of(rule, rules))])(
            KEY, rows, honest, ~honest
        )

    got = jax.jit(jax.vmap(sent))(jnp.ones(4), INDEX % 2, ROWS)
    alone = [jax.jit(searched(rule)) for rule in rules]
    for i, rule in enumerate((0, 0, 1, 0)):
        expected = alone[rule](KEY, ROWS[i], honest, ~honest)
        np.testing.assert_allclose(got[i], np.broadcast_to(expected, (7, 5)), rtol=1e-4, atol=1e-5)
