"""Functions that users write: an error names the one it was raised in, and draws from NumPy are noticed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv import aggregators, layers, simulate
from fedjax_priv.base import Aggregator, Local
from fedjax_priv.engine.calls import calling
from helpers import engine, targets, towards_target

D = 5


def wrong(*shapes):
    return jnp.ones((2, 3)) @ jnp.ones(7)


def in_a_round(**parts):
    """Traces a round of ten clients in which one part is a user's own."""
    system = engine(**{"local": towards_target()} | parts)
    key, params, data = jax.random.key(0), jnp.zeros(D), targets(10, D)
    jax.eval_shape(system.step, key, jax.eval_shape(system.init, key, params, data), data)


def stacked(**own):
    return layers.stack(mine=layers.stateless(**own), send=layers.plain())


def above(**halves):
    return layers.stack(mine=layers.stateless()._replace(**halves), send=layers.plain())


RULE = aggregators.mean()
OWN = {
    "mine.encode, called with x float32[3, 5]": lambda f: {"layers": stacked(encode=lambda key, x, cohort: f(x))},
    "mine.decode, called with value float32[1, 5]": lambda f: {"layers": stacked(decode=lambda r: f(r.value))},
    "mine.advertise, called with state ()": lambda f: {
        "layers": above(advertise=lambda key, state, who: (f(0), (), {}))
    },
    "mine.disclose, called with private (), public (), clear ()": lambda f: {
        "layers": above(disclose=lambda private, public, clear, alive, online: (f(0), {}))
    },
    "local.apply, called with params float32[5], examples": lambda f: {
        "local": Local(lambda n, params: (), lambda key, memory, params, data, who: f(params))
    },
    "aggregate.apply, called with value float32[1, 5]": lambda f: {
        "aggregate": Aggregator(RULE.init, lambda key, state, received: f(received.value))
    },
}


@pytest.mark.parametrize("where", OWN)
def test_an_error_says_where_it_was_raised_and_is_otherwise_what_it_was(where):
    with pytest.raises(TypeError, match="dot_general|matmul") as caught:
        in_a_round(**OWN[where](wrong))
    notes = [note for note in caught.value.__notes__ if note.startswith("in ")]
    assert len(notes) == 1 and notes[0].startswith(f"in {where}")
    assert not any("traced" in note for note in caught.value.__notes__)


def test_an_error_of_evaluate_does_too():
    still = lambda key, memory, params, data, who: (jnp.zeros((len(who.client), D)), memory, jnp.zeros(len(who.client)))
    system, data = engine(local=Local(lambda n, params: (), still)), targets(10, D)._replace(count=jnp.full(10, D))
    params = {"a": jnp.zeros(2), "b": jnp.zeros((1, 3))}
    with pytest.raises(TypeError, match="dot_general|matmul") as caught:
        simulate(system, jax.random.key(0), params, data, rounds=1, evaluate=wrong, progress=False)
    assert "in evaluate, called with params float32[2], float32[1, 3]" in caught.value.__notes__


def test_a_branch_on_values_is_told_what_to_use():
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        in_a_round(**OWN["mine.encode, called with x float32[3, 5]"](lambda x: x if x.sum() > 0 else -x))
    assert any("jax.lax.cond" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (lambda x: x[0], "^mine.encode must return a row for each"),
        (lambda x: aggregators.trimmed_mean(-1), "^num_byzantine must be an integer"),
    ],
)
def test_our_own_errors_stay_as_they_are(own, message):
    """Of what a function returned, and of an argument that it gave to another."""
    with pytest.raises(ValueError, match=message) as caught:
        in_a_round(layers=stacked(encode=lambda key, x, cohort: own(x)))
    assert not any(note.startswith("in ") for note in getattr(caught.value, "__notes__", []))


def test_inside_another_call_the_inner_one_is_named_first():
    with pytest.raises(ValueError, match="wrong") as caught, calling("outer", x=1.0), calling("inner", x=2):
        raise ValueError("wrong")
    assert caught.value.__notes__ == ["in inner, called with x int", "in outer, called with x float"]


@pytest.mark.parametrize("draw", [lambda: np.random.normal(), lambda: np.random.random(312)])  # noqa: NPY002
def test_a_draw_from_numpys_generator_is_noticed(draw):
    own = {"layers": stacked(encode=lambda key, x, cohort: x + np.float32(np.sum(draw())))}
    with pytest.warns(UserWarning, match=r"^mine.encode draws from np.random while it is traced"):
        in_a_round(**own)


def test_another_generator_in_the_place_of_numpys_is_watched_as_well():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(0))
    try:
        test_draws_by_the_key_are_none()
        test_a_draw_from_numpys_generator_is_noticed(np.random.random)
    finally:
        np.random.set_bit_generator(before)


def test_draws_by_the_key_are_none():
    in_a_round(layers=stacked(encode=lambda key, x, cohort: x + jax.random.normal(key, x.shape)))


@pytest.mark.parametrize(("function", "helps"), [
    (lambda w: np.linalg.norm(w), "NumPy cannot compute with it: use jax.numpy, or jax.pure_callback"),
    (lambda w: w if w[0] > 0 else -w, "it may not depend on values: see jnp.where and jax.lax.cond"),
])  # fmt: skip
def test_a_function_of_numpy_is_told_from_a_branch(function, helps):
    with pytest.raises(Exception, match="Tracer|tracer|traced") as caught, calling("evaluate"):
        jax.eval_shape(function, jnp.ones(3))
    assert [note for note in caught.value.__notes__ if "traced" in note] == [f"it is traced, so {helps}"]
