"""The checks of the laws find what they are for: each law has a part that breaks it, and the message names the law."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import attacks
from fedjax_priv.aggregators import clipping, coordinate_median, mean, pre_aggregated, sign_guard
from fedjax_priv.base import Aggregator, Kept, Link, Sent
from fedjax_priv.crypto import field
from fedjax_priv.keys import per_client
from fedjax_priv.layers import plain, plain_field, stack, stateless
from fedjax_priv.testing import (
    NUM_PARAMS,
    Case,
    check_aggregator,
    check_attack,
    check_bits,
    check_coordinate_attack,
    check_draws,
    check_field_attack,
    check_label_attack,
    check_layer,
    check_round_trip,
    check_state,
    check_unbiased,
    check_unselected,
    check_variant,
    check_views,
)
from fedjax_priv.testing.laws import assert_close

STEP = 0.25


def by_number(key, x, who):
    return per_client(lambda key: jax.random.uniform(key, x.shape[1:]), key, who.client)


def by_place(key, x, who):
    return jax.random.uniform(key, x.shape)


def shared(key, x, who):
    """Client 2 draws what client 1 draws."""
    return by_number(key, x, who._replace(client=jnp.where(who.client == 2, 1, who.client)))


def down(key, x, who):
    return jnp.ones_like(x)


def ties_up(key, x, who):
    return jnp.where(x / STEP - jnp.floor(x / STEP) == 0.5, 0.0, by_number(key, x, who))


def total(x, weight):
    return x.sum(0)


def rounding(uniform=by_number, factor=1.0, bits=0):
    """To a multiple of `STEP` at random."""

    def encode(key, x, who):
        low = jnp.floor(x / STEP)
        up = uniform(key, x, who) < x / STEP - low
        return factor * STEP * (low + up.astype(jnp.float32))

    it = stateless(encode, sent=lambda x, y: Sent(bits))
    return Case(stack(it=it, send=plain()), total, error=STEP)


GOOD = rounding()


def above(**halves):
    """A layer that changes nothing, with other halves."""
    return Case(stack(it=stateless()._replace(**halves), send=plain()), total)


def padded(pad=lambda words, client: words):
    """A pad of random words; the control of a view, which nobody takes out of the sum."""

    def advertise(key, state, cohort):
        words = jax.random.bits(key, (cohort.client.size, NUM_PARAMS), jnp.uint32)
        return pad(words % field.Q, cohort.client[:, None]), (), {}

    def encode(key, private, public, x, cohort):
        return field.add(x, private), (), Sent()

    it = stateless()._replace(advertise=advertise, encode=encode)
    return Case(stack(it=it, send=plain_field()), total, field=True)


def counting(state):
    """A layer whose clients count their uploads in `state(n)`, or in what becomes of it."""
    return above(
        init=lambda key, n: jnp.zeros(n, jnp.int32),
        advertise=lambda key, state, cohort: (state, (), {}),
        encode=lambda key, private, public, x, cohort: (x, state(private), Sent()),
    )


def remembering_with(state):
    """A layer whose clients keep `state(private, x)`, a float each."""
    return above(
        init=lambda key, n: jnp.zeros(n),
        advertise=lambda key, state, cohort: (state, (), {}),
        encode=lambda key, private, public, x, cohort: (x, state(private, x), Sent()),
    )


def sending(sent):
    """A layer that changes nothing and sends `sent(x)` beside it."""
    return above(encode=lambda key, private, public, x, cohort: (x, (), sent(x)))


def mixing(rows):
    """A layer that adds the mean of `rows(x, who)` once a client is not selected."""

    def encode(key, private, public, x, who):
        return jnp.where(who.selected.all(), x, x + rows(x, who).mean(0, keepdims=True)), (), Sent()

    return above(encode=encode, whole=True)


def greeted(who):
    """A layer whose round opens with a word to each client `who(cohort)`."""

    def advertise(key, state, cohort):
        word = jnp.where(who(cohort), jnp.uint32(32), 0)
        return (), (), {"greeting": Link(jnp.zeros_like(word), word)}

    return above(advertise=advertise)


def thrice_later(key, x, who):
    return jnp.where(who.round[:, None] > 0, 3 * x, x)


def compiled_only(key, x, who):
    return x + 1.0 if isinstance(x, jax.core.Tracer) else x


def test_layers_that_keep_the_laws():
    check_layer(GOOD, unbiased=True)
    check_views(padded())
    check_state(counting(lambda state: Kept(state + 1, state)))
    check_draws(remembering_with(lambda state, x: x.sum(1)))
    check_state(sending(lambda x: Sent(status=0, refused=0, valid=x[:, 0] < 9)))
    check_bits(sending(lambda x: Sent(64, clear=x[:, :2])))
    check_unselected(mixing(lambda x, who: jnp.where(who.selected[:, None], x, 0)))
    check_unselected(greeted(lambda who: who.selected))


@pytest.mark.parametrize(
    ("check", "case", "message"),
    [
        (check_round_trip, rounding(factor=2.0), "law 1 .round trip.: row 0 must be within 1.75 of the sum, not "),
        (check_round_trip, GOOD._replace(counted=lambda uploads: 1), "law 1 .*: row 0 must have the number of"),
        (check_unbiased, rounding(down), "law 2 .unbiased.: the mean over draws must be the sum"),
        (check_unbiased, rounding(ties_up), "law 2 .unbiased.: the mean over draws must be the sum"),
        (check_unbiased, GOOD._replace(error=0.0), "law 2 .*: error must be > 0"),
        (check_unbiased, GOOD._replace(error=1e-4), "law 2 .*: error must be large enough"),
        (check_state, counting(lambda state: state.astype(jnp.float32)), "law 3 .state keeps its structure.: client"),
        (check_state, counting(lambda state: Kept(state, state.astype(jnp.float32))), "law 3 .state keeps"),
        (check_state, remembering_with(lambda state, x: state / 0), "law 15 .*: client state must be finite"),
        (check_state, sending(lambda x: Sent(status=1)), "law 15 .*: sound updates must set no bit of status"),
        (check_state, sending(lambda x: Sent(refused=8)), "law 15 .*: sound updates must not be refused"),
        (check_state, sending(lambda x: Sent(valid=x[:, 0] > 9)), "law 15 .*: the proofs of sound updates must be"),
        (check_round_trip, above(decode=lambda header, public, received: received._replace(status=received.count)),
         "law 1 .*: row 0 must set no bit of status: it is recovered, got: too few"),
        (check_draws, remembering_with(lambda state, x: jnp.arange(7.0)[: len(x)]), "law 5 .draws"),
        (check_draws, rounding(by_place), "law 5 .draws are by number.: a client must draw by its number"),
        (check_draws, rounding(shared), "law 5 .draws are by number.: two clients must not share draws"),
        (check_bits, rounding(bits=1), "law 6 .bits reported are bits built.: bits must be the size of the message"),
        (check_bits, sending(lambda x: Sent(clear=x)), "law 6 .*: bits must be the size of the message, 2112, got "),
        (check_views, padded(lambda words, client: words >> 16 << 16), "law 7 .views are uniform.: an upload must be"),
        (check_views, padded(lambda words, client: jnp.where(client == 6, 0, words)), "law 7 .views are uniform.: an"),
        (check_unselected, mixing(lambda x, who: x), "law 16 .who takes no part makes no difference.: what a client"),
        (check_unselected, greeted(lambda who: who.client >= 0), "law 16 .*: a client that is not selected must send"),
        (check_round_trip, Case(stack(it=stateless(thrice_later), send=plain()), total),
         "law 1 .*, clients .3. lost in round 1"),
        (lambda case: check_variant(case, lambda fn: fn), Case(stack(it=stateless(compiled_only), send=plain()), total),
         "law 14 .the same with and without jit.: the round of a layer"),
        (check_state, above(decode=lambda header, public, received: received._replace(value=received.value / 0)),
         "law 15 .shapes, dtypes and finite numbers.: the server's rows"),
        (check_round_trip, GOOD._replace(reference=lambda x, weight: x.sum(0)[:3]),
         r"law 1 .*: row 0 must have the shape of case.reference\(x, weight\), \(3,\), not "),
    ],
)  # fmt: skip
def test_what_a_layer_breaks_is_named(check, case, message):
    with pytest.raises(AssertionError, match=f"^{message}"):
        check(case)


def test_entries_are_compared_with_the_largest_of_their_array():
    expected = {"a": np.float32([100.0, 99.0, -100.0, 1e-3]), "b": np.float32([0.5, 0.0])}
    assert_close({"a": expected["a"] + np.float32(9e-4), "b": expected["b"] + np.float32(4e-6)}, expected, rtol=1e-5)
    for name, off in {"a": 1.2e-3, "b": 6e-6}.items():
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_close(expected | {name: expected[name] + np.float32(off)}, expected, rtol=1e-5)
    with pytest.raises(AssertionError, match="nan"):
        assert_close(expected | {"b": np.float32([np.nan, 1e-3])}, expected, rtol=1e-5)
    with pytest.raises(AssertionError, match="shapes"):
        assert_close(expected | {"b": np.zeros(2, np.float32)}, expected | {"b": np.float32(0)}, rtol=1e-5)


def test_a_layer_without_what_it_decodes_to_is_no_case():
    with pytest.raises(ValueError, match=r"^case must be a Case, such as testing.Case\(layer, reference\), got Layer$"):
        inspect.unwrap(check_layer)(plain())


def test_a_layer_that_does_not_combine_is_refused():
    with pytest.raises(ValueError, match="^layer must end in one with a `combine`"):
        check_bits(Case(stateless(), total))


def rule(apply, init=lambda d: ()):
    return Aggregator(init, apply)


def there(received):
    """All rows, absent ones zero."""
    return jnp.where((received.count > 0)[:, None], received.value, 0)


def over(fn):
    """A rule without state, from all rows, absent ones zero, and how many there are."""

    def apply(key, state, received):
        return fn(there(received), (received.count > 0).sum().astype(jnp.float32)), state

    return rule(apply)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (rule(lambda key, state, received: (received.value.mean(0), state)), "law 16 .who takes no part"),
        (
            rule(
                lambda key, state, r: (over(lambda rows, m: rows.sum(0) / m).apply(key, (), r)[0] + state, r.value[-1]),
                jnp.zeros,
            ),
            "law 16 .*: rows with count 0 must reach neither",
        ),
        (
            rule(lambda key, state, r: (jnp.where(r.count[0] == 0, r.value[0], there(r).sum(0)), state)),
            "law 16 .*: rows with count 0 must reach neither",
        ),
        (
            rule(lambda key, state, r: (jnp.where(r.count[4] == 0, r.value[4], there(r).sum(0)), state)),
            "law 16 .*: rows with count 0 must reach neither",
        ),
        (over(lambda rows, m: jnp.where(m >= 8, rows.sum(0), jnp.nan)), "law 15 .shapes"),
        (over(lambda rows, m: jnp.where(m >= 9, rows.sum(0), jnp.nan))._replace(trusted_row=4), "law 15 .shapes"),
        (over(lambda rows, m: rows.sum(0)[:3]), "law 15 .shapes"),
        (over(lambda rows, m: (rows > 0).sum(0)), "law 15 .shapes"),
        (over(lambda rows, m: rows.sum(0) / (m - m)), "law 15 .shapes"),
        (
            rule(lambda key, state, received: (jnp.zeros(7), jnp.float32(state)), lambda d: jnp.int32(0)),
            "law 3 .state keeps",
        ),
        (rule(lambda key, state, received: (jnp.zeros(7), 0.0), lambda d: jnp.zeros(())), "law 4 .one trace"),
        (coordinate_median()._replace(equivariant=True), "law 15 .*must turn with the rows"),
        (
            pre_aggregated(clipping(1.0)._replace(apply=lambda key, rows, ok: (jnp.tanh(rows), ok)), mean()),
            "law 15 .*must turn with the rows",
        ),
        (
            pre_aggregated(
                clipping(1.0)._replace(apply=lambda key, rows, ok: (jnp.tanh(rows), ok)), coordinate_median()
            ),
            "law 15 .*the steps of `in_two` must turn",
        ),
        (
            over(lambda rows, m: (rows == 0).astype(jnp.float32).sum(0) / m)._replace(steady=True),
            "law 15 .*steady must not change with a rounding",
        ),
        (sign_guard(1.0)._replace(steady=True), "law 15 .*steady must not change with a rounding"),
        (
            pre_aggregated(clipping(1.0), coordinate_median())._replace(apply=coordinate_median().apply),
            "law 15 .*`in_two` must give the direction of the rule",
        ),
    ],
)
def test_what_a_rule_breaks_is_named(part, message):
    check_aggregator(over(lambda rows, m: rows.sum(0) / m))
    with pytest.raises(AssertionError, match=f"^{message}"):
        check_aggregator(part)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (lambda key, x, honest, byzantine: -x.mean(0, keepdims=True), "law 16 .who takes no part"),
        (lambda key, x, honest, byzantine: x.at[3].set(x[0]), "law 16 .who takes no part"),
        (lambda key, x, honest, byzantine: x.at[3].set(x[-1]), "law 16 .who takes no part"),
        (lambda key, x, honest, byzantine: jax.random.normal(key, x.shape)[::-1], "law 5 .draws are by number"),
        (lambda key, x, honest, byzantine: x[:, :2], "law 15 .shapes"),
        (lambda key, x, honest, byzantine: x * jnp.inf, "law 15 .shapes"),
        (lambda key, x, honest, byzantine: (-x,), "law 15 .*: an attack must return one array, got tuple"),
    ],
)
def test_what_an_attack_breaks_is_named(attack, message):
    check_attack(attacks.foe())
    with pytest.raises(AssertionError, match=f"^{message}"):
        check_attack(attack)


@pytest.mark.parametrize("seen", ["all", "own"])
def test_an_attack_that_sees_other_rows_than_it_says_is_caught(seen):
    own = attacks.min_max(seen="own")
    absent_too = lambda key, x, honest, byzantine: own(key, x, honest, ~honest)
    for attack in (attacks.min_max(seen={"all": "own", "own": "all"}[seen]), absent_too):
        with pytest.raises(AssertionError, match=r"law 16 .*: a row may depend on (honest|Byzantine) rows"):
            check_attack(attack, seen=seen)


@pytest.mark.parametrize(
    ("check", "attack", "message"),
    [
        (check_field_attack, lambda key, x, honest, byzantine, group: x[::-1], "law 16 .*: a row may depend"),
        (check_field_attack, lambda key, x, *who: x + jax.random.bits(key, x.T.shape).T, "law 5 .draws are by number"),
        (check_field_attack, lambda key, x, *who: x.astype(jnp.int32), "law 15 .shapes"),
        (check_coordinate_attack, lambda key, x, proposals, honest: proposals[::-1], "law 16 .*: a row may depend"),
        (check_coordinate_attack, lambda key, x, proposals, honest: proposals * 0, "law 15 .shapes"),
        (check_coordinate_attack, lambda key, x, proposals, honest: proposals + 7, "law 15 .shapes"),
        (check_label_attack, lambda data, byzantine, classes: relabelled(data, lambda y: y + 1), "law 15 .shapes"),
        (check_label_attack, lambda data, byzantine, classes: relabelled(data, lambda y: 0 * y), "law 16 .who takes"),
    ],
)
def test_what_another_attack_breaks_is_named(check, attack, message):
    with pytest.raises(AssertionError, match=f"^{message}"):
        check(attack)


def relabelled(data, by):
    return data._replace(examples=(data.examples[0], by(data.examples[1])))


def test_a_function_is_no_rule():
    with pytest.raises(
        ValueError, match=r"^rule must be an Aggregator, such as .*from_host\(function\), got function$"
    ):
        inspect.unwrap(check_aggregator)(lambda rows: rows.mean(0))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("check", "part", "message"),
    [
        (check_aggregator, rule(lambda key, state, received: there(received).sum(0)),
         r"rule.apply must return \(direction \[d\], state\), got an array of shape \(7,\)"),
        (check_aggregator, coordinate_median()._replace(most_byzantine=3),
         r"rule.most_byzantine must be a function of \(rows\), got int"),
        (check_attack, lambda key, x, honest: x, r"attack must be a function of 4 arguments, such as .*, got function"),
        (check_layer, GOOD._replace(reference=lambda x: x.sum(0)),
         r"case.reference must be a function of \(x, weight\), got one of \(x\)"),
    ],
)  # fmt: skip
def test_functions_of_other_values_are_named(check, part, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        inspect.unwrap(check)(part)
