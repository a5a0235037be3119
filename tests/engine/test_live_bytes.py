import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.engine.live_bytes import live_bytes

X = jax.ShapeDtypeStruct((10, 100), jnp.float32)
ROWS = 4 * 10 * 100


def twice_and_thrice(x):
    a, b = 2.0 * x, 3.0 * x
    return a + b


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda x: x, 0),  # an argument
        (lambda x: 2.0 * x, ROWS),
        (lambda x: jnp.sin(2.0 * x), 2 * ROWS),
        (twice_and_thrice, 3 * ROWS),
        (lambda x: jnp.cos(jnp.sin(2.0 * x)), 2 * ROWS),  # what nobody reads any more is free
        (lambda x: (2.0 * x).sum(), ROWS + 4),
        (lambda x: x @ x.T, ROWS + 4 * 10 * 10),
        (jax.jit(twice_and_thrice), 3 * ROWS),
        (lambda x: jax.lax.scan(lambda c, _: (jnp.sin(2.0 * c), None), x, length=7)[0], 2 * ROWS),
        (lambda x: jax.lax.cond(x[0, 0] > 0, twice_and_thrice, lambda x: x, x), 3 * ROWS),
        (lambda x: x.astype(jnp.int8), ROWS // 4),
    ],
)
def test_what_is_held_at_once(function, most):
    """Up to the few numbers that indices and comparisons take."""
    assert most <= live_bytes(function, X) <= most + 32


def test_a_key_takes_no_memory_that_counts():
    key = jax.eval_shape(lambda: jax.random.key(0))
    assert live_bytes(lambda key: jax.random.bits(key, (1000,)), key) >= 4000
