"""The server's optimizer: one that cannot step along a direction alone, or returns other arrays, is named."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from fedjax_priv.base import Local
from helpers import engine, refuses, targets

KEY, PARAMS = jax.random.key(0), {"w": jnp.zeros((2, 3)), "b": jnp.zeros(4)}
DATA = targets(7, 10)


def pulls(key, memory, params, data, who):
    """An update is the model minus the one vector of a client."""
    update = ravel_pytree(params)[0][None, :] - data.examples
    return update, memory, jnp.square(update).mean(1)


def trained(server, rounds=1):
    """Parameters after rounds of seven clients, and the directions of the rounds."""
    system = engine(local=Local(lambda n, params: (), pulls), server=server)
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        state, step, directions = system.init(KEY, PARAMS, DATA), jax.jit(system.step), []
        for _ in range(rounds):
            state, info = step(KEY, state, DATA)
            directions.append(info.direction)
    return state.params, directions


def own(update, init=lambda params: ()):
    return optax.GradientTransformation(init, update)


def keeps(after):
    return own(lambda g, state, params=None: (g, after), lambda params: jnp.zeros(3))


test_an_optimizer_that_does_not_fit_is_named = refuses(
    trained,
    (optax.polyak_sgd(), r"(?m)^server must be an optimizer that needs .* alone, got one that also needs 'value'$"),
    (
        optax.contrib.reduce_on_plateau(),
        r"^server.update must be a function of \(updates, state, params\), got one of .*value",
    ),
    (optax.chain(optax.sgd(1.0), optax.contrib.reduce_on_plateau()), r"(?m)got one that also needs 'value'$"),
    (optax.lookahead(optax.sgd(1.0), 5, 0.5), r"(?m) alone, got one that also needs optax.LookaheadParams: a second "),
    (optax.chain(optax.lookahead(optax.adam(1.0), 5, 0.5)), r"(?m) alone, got one that also needs optax.LookaheadPara"),
    (
        optax.contrib.sam(optax.sgd(1.0), optax.sgd(1.0), opaque_mode=True),
        r"(?m)^server must be .* alone, got one that raises ValueError: grad_fn must be provided when opaque_mode=True",
    ),
    (
        optax.contrib.differentially_private_aggregate(1.0, 1.0, KEY),
        r"(?m)^server must be .* alone, got one that raises ValueError: .*expects `grads` to have a batch dimension",
    ),
    (optax.lbfgs(), r"(?m)got one that also needs 'value', 'grad', and 'value_fn'$"),
    (
        own(lambda g, state: (g, state)),
        r"(?m)^server.update must be a function of \(updates, state, params\), got one of \(g, state\)$",
    ),
    (own(lambda g, state, params=None: g), r"(?m)^server.update must return \(updates, state\), got dict$"),
    (own(lambda g, state, params=None: (None, state)), r"^server.update must return updates in the shapes of the par"),
    (
        own(lambda g, state, params=None: (jax.tree.map(lambda a: a[None], g), state)),
        r"(?m)^server.update must .* parameters, \[\(4,\), \(2, 3\)\], got \[\(1, 4\), \(1, 2, 3\)\]$",
    ),
    (
        keeps(jnp.zeros(4)),
        r"^server.update must return a state of the arrays of its init, float32\[3\], got float32\[4",
    ),
    (keeps(jnp.zeros(3, int)), r"(?m)of its init, float32\[3\], got int32\[3\]$"),
    (keeps((jnp.zeros(3), jnp.zeros(3))), r"of its init, float32\[3\], got \('float32\[3\]', "),
)


def test_an_error_inside_an_optimizer_says_where():
    def wrong(g, state, params=None):
        raise TypeError("wrong")

    with pytest.raises(TypeError, match="wrong") as caught:
        trained(own(wrong))
    assert caught.value.__notes__[0].startswith("in server.update, called with direction float32[4], float32[2, 3]")


def started(server):
    with jax.numpy_dtype_promotion("standard"):
        return engine(local=Local(lambda n, params: (), pulls), server=server).init(KEY, PARAMS, DATA)


test_a_run_with_an_optimizer_that_does_not_fit_does_not_start = refuses(
    started,
    (optax.polyak_sgd(), r"(?m)^server must be an optimizer that needs .* alone, got one that also needs 'value'$"),
    (optax.lookahead(optax.sgd(1.0), 5, 0.5), r"(?m) alone, got one that also needs optax.LookaheadParams: a second "),
    (own(lambda g, state, params=None: (None, state)), r"^server.update must return updates in the shapes of the par"),
    (
        keeps(jnp.zeros(4)),
        r"^server.update must return a state of the arrays of its init, float32\[3\], got float32\[4",
    ),
)


def test_a_step_is_tried_before_the_first_round_and_not_computed():
    steps = []

    def counted(g, state, params=None):
        jax.debug.callback(lambda: steps.append(1))
        return g, state

    started(own(counted))
    jax.effects_barrier()
    assert not steps


@pytest.mark.parametrize("server", [
    optax.MultiSteps(optax.sgd(1.0), 2).gradient_transformation(),
    optax.inject_hyperparams(optax.sgd)(learning_rate=optax.linear_schedule(1.0, 0.5, 2), momentum=0.9),
    optax.partition({"a": optax.adam(0.1), "b": optax.set_to_zero()}, lambda p: {"w": "a", "b": "b"}),
    optax.adamw(0.1, mask=lambda params: jax.tree.map(lambda a: a.ndim > 1, params)),
    optax.apply_if_finite(optax.sgd(1.0), 3),
    optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(1)), optax.sgd(1.0)),
], ids=["every other round", "schedule", "frozen", "mask", "finite", "noise"])  # fmt: skip
def test_optimizers_of_every_kind_step_as_in_a_loop_of_optax(server):
    got, directions = trained(server, 3)

    @jax.jit
    def stepped(directions):
        params, state = PARAMS, server.init(PARAMS)
        for direction in directions:
            delta, state = server.update(ravel_pytree(PARAMS)[1](direction), state, params)
            params = optax.apply_updates(params, delta)
        return params

    with jax.numpy_dtype_promotion("standard"):
        params = stepped(directions)
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
