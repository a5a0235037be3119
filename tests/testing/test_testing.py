"""The checks of layers find what they are for."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv.base import Sent
from fedjax_priv.keys import per_client
from fedjax_priv.layers import plain, stack, stateless
from fedjax_priv.testing import Case, check_bits, check_draws, check_layer, check_round_trip, check_unbiased

STEP = 0.25


def by_number(key, x, who):
    return per_client(lambda key: jax.random.uniform(key, x.shape[1:]), key, who.client)


def by_place(key, x, who):
    return jax.random.uniform(key, x.shape)


def down(key, x, who):
    return jnp.ones_like(x)


def rounding(uniform=by_number, factor=1.0, bits=0):
    """To a multiple of `STEP` at random."""

    def encode(key, x, who):
        low = jnp.floor(x / STEP)
        up = uniform(key, x, who) < x / STEP - low
        return factor * STEP * (low + up.astype(jnp.float32))

    it = stateless(encode, sent=lambda x, y: Sent(bits))
    return Case(stack(it=it, send=plain()), lambda x, weight: x.sum(0), error=STEP)


GOOD = rounding()


def test_a_layer_that_keeps_the_laws():
    check_layer(GOOD, unbiased=True)


@pytest.mark.parametrize(
    ("check", "case", "message"),
    [
        (check_round_trip, rounding(factor=2.0), "^row 0 must be within 1.75 of the sum, not "),
        (check_round_trip, GOOD._replace(counted=lambda uploads: 1), "^row 0 must have the number of its survivors"),
        (check_unbiased, rounding(down), "^the mean over draws must be the sum"),
        (check_unbiased, GOOD._replace(error=0.0), "^error must be > 0"),
        (check_unbiased, GOOD._replace(error=1e-4), "^error must be large enough"),
        (check_draws, rounding(by_place), "^a client must draw by its number"),
        (check_bits, rounding(bits=1), "^bits must be the size of the message, 1056, got "),
    ],
)
def test_what_is_broken_is_named(check, case, message):
    with pytest.raises(AssertionError, match=message):
        check(case)


def test_a_layer_that_does_not_combine_is_refused():
    with pytest.raises(ValueError, match="^layer must end in one with a `combine`"):
        check_bits(Case(stateless(), lambda x, weight: x.sum(0)))
