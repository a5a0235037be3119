"""What an aggregator tells clients with the model: numbers, vectors and trees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.aggregators import mean
from fedjax_priv.base import Local
from fedjax_priv.engine.parts import check_size
from fedjax_priv.engine.telling import told_by
from fedjax_priv.status import Status
from helpers import engine, one_round, refuses, same_bits, targets

D = 5


def listening():
    """Local training towards `scale x_i + the sum of vectors` that it is told."""

    def apply(key, memory, told, data, who):
        more = told.numbers["control"] + told.numbers["tree"]["a"].sum() + told.numbers["tree"]["b"][0].sum()
        update = told.params[None, :] - told.numbers["scale"] * data.examples - more[None, :]
        return update, memory, jnp.zeros(data.count.size)

    return Local(lambda n, params: (), apply)


def talking():
    """The mean; what it tells follows its state `[d]`, the sum of all directions."""

    def apply(key, state, received):
        direction, _ = mean().apply(key, (), received)
        return direction, state + direction

    def tells(state):
        return {
            "scale": 2.0 + state[0],
            "control": state,
            "tree": {"a": jnp.ones(3), "b": [jnp.ones((2, 2))]},
            "one": jnp.ones(1),
        }

    return mean()._replace(init=jnp.zeros, apply=apply, tells=tells)


def test_trees_are_told_and_counted_and_numbers_recorded():
    data = targets(4, D)
    system = engine(local=listening(), aggregate=talking())
    _, after, info = one_round(system, data)
    assert (info.bits["model"].down == 32 * (D + 1 + D + 3 + 4 + 1)).all()
    assert {name: a.shape for name, a in info.measured.items()} == {"scale": (4,)}
    assert (info.measured["scale"] == 2).all()
    first = -np.asarray(2 * data.examples + 7).sum(0)
    np.testing.assert_allclose(after.aggregate, first, rtol=1e-5)
    later, info = jax.jit(system.step)(jax.random.key(5), after, data)
    second = np.asarray(after.params) - (2 + first[0]) * np.asarray(data.examples) - first - 7
    np.testing.assert_allclose(later.aggregate - after.aggregate, second.sum(0), rtol=1e-4)
    np.testing.assert_allclose(info.measured["scale"], 2 + first[0], rtol=1e-5)


def test_a_failed_round_leaves_what_is_told():
    data = targets(4, D)
    before, after, info = one_round(
        engine(local=listening(), aggregate=talking()), data._replace(examples=data.examples.at[0].set(jnp.nan))
    )
    assert int(info.status) == Status.NOT_FINITE and same_bits(after.aggregate, before.aggregate)


def test_the_bits_of_what_is_told_fit_too():
    shapes = jax.random.key(5), jax.ShapeDtypeStruct((2**26,), jnp.float32), targets(4, D)
    jax.eval_shape(engine().init, *shapes)
    with pytest.raises(ValueError, match="^params must have fewer than"):
        jax.eval_shape(engine(aggregate=talking()).init, *shapes)
    check_size(2**26 - 1, 2**26)
    with pytest.raises(ValueError, match=f"^params must have fewer than {2**26} elements, as bits .* got {2**26}$"):
        check_size(2**26, 2**26)


test_bad_statements = refuses(
    lambda told: told_by(mean()._replace(tells=lambda state: told), ()),
    ([jnp.float32(1)], "^aggregate must tell clients a mapping by name, got list$"),
    ({"n": jnp.int32(1)}, "^aggregate must tell clients float32, got int32 as 'n'$"),
    ({"tree": {"a": jnp.ones(2), "b": jnp.ones(2, bool)}}, "^aggregate must tell clients float32, got bool as 'tree'$"),
)
