"""Rounding within a norm, and sums modulo a power of two."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto.modulus import centred, ring, wrapped
from fedjax_priv.crypto.prg import philox
from fedjax_priv.layers import pairwise_masks, plain_ring, round_within, stack, wrap
from fedjax_priv.layers.rounded_norm import squared_norm_bound
from fedjax_priv.layers.rounding import tries
from helpers import cohort_of, refuses, run_layer, survivors

KEY = jax.random.key(21)


def rounded(x, *, levels=1.0, byzantine=(), bits=32, **how):
    layer = stack(it=round_within(levels, **how), wrap=wrap(bits), send=plain_ring(bits))
    who = cohort_of(len(x))._replace(byzantine=jnp.isin(jnp.arange(len(x)), jnp.array(byzantine, jnp.int32)))
    result = run_layer(layer, KEY, jnp.asarray(x, jnp.float32), who, survivors(len(x)))
    return np.asarray(centred(result["upload"], bits)), np.asarray(result["received"].value[0])


def test_the_norm_bound_is_the_paper_s():
    """c = 160, d = 256 and beta = e^-1/2: D2 = 160.7234."""
    exact = 160**2 + 160 + 256 / 4 + 16 / 2
    assert squared_norm_bound(160.0, 256, math.exp(-0.5)) == exact and round(math.sqrt(exact), 4) == 160.7234


def test_draws_are_repeated_until_the_vector_is_short():
    """Where a fifth of all draws are too long, as one draw, under a bound for 2**-40, shows."""
    d, c, n = 64, 4.0, 400
    x = np.full((n, d), 0.5)
    failure = 0.9
    bound = squared_norm_bound(c, d, failure)
    z, _ = rounded(x, max_norm=c, failure=failure)
    assert (np.square(z).sum(1) <= bound).all() and z.any(1).all()
    free, _ = rounded(x, max_norm=c, failure=2.0**-40)
    assert 0.1 < (np.square(free).sum(1) > bound).mean() < 0.3
    assert abs(z.mean() - 0.5) < 0.05


def test_rounding_is_unbiased_where_no_draw_is_repeated():
    x = np.tile(np.random.default_rng(0).normal(size=30), (4000, 1))
    z, total = rounded(x, levels=4.0, max_norm=20.0)
    error = 4 * x[0] - np.floor(4 * x[0])
    assert (np.abs(z.mean(0) - 4 * x[0]) < 5 * np.sqrt(error * (1 - error) / 4000) + 1e-6).all()
    np.testing.assert_allclose(total, z.sum(0) / 4, rtol=1e-6)
    assert np.abs(np.floor(4 * x).mean(0) - 4 * x[0]).max() > 0.3  # what rounding down would do


def test_what_nobody_can_round_becomes_zero_and_byzantine_clients_send_what_they_like():
    x = np.stack([np.full(4, 1e9), [np.nan, 1, 1, 1], np.full(4, 1e9), np.full(4, np.inf), [0.5, 0, 0, 0]])
    z, _ = rounded(x, max_norm=3.0, byzantine=[2])
    assert not z[[0, 1, 3]].any() and (z[2] > 9e8).all() and np.abs(z[4]).sum() <= 1


def test_a_vector_no_draw_fits_is_rounded_towards_zero():
    """Three times the norm: only towards 0 is it short enough."""
    x = np.full((50, 64), 1.9)
    bound = squared_norm_bound(8.0, 64, 0.5)
    z, _ = rounded(x, max_norm=8.0, failure=0.5)
    assert bound < 2.9 * 64 and (z == 1).all()
    assert tries(math.exp(-0.5)) == 56 and tries(0.5) == 40


@pytest.mark.parametrize("bits", [2, 10, 16, 31, 32])
def test_a_ring_holds_the_integers_around_zero(bits):
    half = 2 ** (bits - 1)
    z = np.array([-half, -1, 0, 1, half - 1])
    element = np.asarray(wrapped(jnp.asarray(z, jnp.int32), bits))
    assert (element == z % 2**bits).all() and (np.asarray(centred(jnp.asarray(element), bits)) == z).all()
    group, rng = ring(bits), np.random.default_rng(bits)
    a, b = jnp.asarray(rng.integers(0, 2**bits, (2, 50), dtype=np.uint32))
    wide = np.asarray(a).astype(object), np.asarray(b).astype(object)
    assert (np.asarray(group.add(a, b)) == (wide[0] + wide[1]) % 2**bits).all()
    assert (np.asarray(group.sub(a, b)) == (wide[0] - wide[1]) % 2**bits).all()
    assert int(group.sum(a)) == wide[0].sum() % 2**bits
    seed = jnp.uint32([1, 2])
    words = np.asarray(group.expand(seed, "mask", 0, 400, philox))
    assert (words == np.asarray(philox.words(seed, "mask", 0, 400)).astype(np.int64) % 2**bits).all()


def test_a_sum_wraps_in_silence_and_only_where_it_leaves_the_ring():
    """The error of a wrap is 2**bits; the true sum tells which coordinates wrapped."""
    x = np.random.default_rng(3).integers(-40, 41, (12, 200))
    _, total = rounded(x, max_norm=1000.0, bits=8)
    true = x.sum(0)
    wraps = np.abs(true) > 127
    assert 0 < wraps.sum() < 100 and (total[~wraps] == true[~wraps]).all()
    assert (np.abs(total - true)[wraps] == 256).all()


def test_the_secure_sum_in_the_ring_is_the_plain_one():
    """With lost clients, whose masks the server takes out; and on the wire are `bits` for each number."""
    n, d, bits = 7, 70, 12
    x = jnp.asarray(np.random.default_rng(5).integers(-900, 900, (n, d)), jnp.int32)
    alive, who = survivors(n, [2, 5]), cohort_of(n)
    run = lambda last: run_layer(stack(wrap=wrap(bits), mask=last), KEY, x, who, alive)
    masked, plain = run(pairwise_masks(group_size=n, bits=bits, neighbours=4, threshold=2)), run(plain_ring(bits))
    exact = (np.asarray(x)[np.asarray(alive)].sum(0) + 2048) % 4096 - 2048
    assert (np.asarray(masked["received"].value) == exact).all() and masked["received"].count == 5
    assert (np.asarray(plain["received"].value) == exact).all()
    assert masked["sent"].bits.tolist() == [bits * d] * n and (np.asarray(masked["upload"]) < 4096).all()
    assert (np.asarray(masked["upload"]) == np.asarray(plain["upload"])).mean() < 0.01


test_bad_arguments = refuses(
    lambda how: rounded([[0.0, 0.0]], **({"max_norm": 1.0} | how)),
    ({"levels": 0.0}, "levels must be a finite number > 0"),
    ({"max_norm": -1.0}, "max_norm must be a finite number > 0"),
    ({"failure": 1.0}, r"failure must be a number in \(0, 1\), got 1.0"),
    ({"levels": 2.0**16}, "levels must leave vectors of 2 coordinates shorter than 65535 grid points"),
    ({"bits": 1}, "bits must be an integer >= 2"),
    ({"bits": 33}, "bits must be at most 32"),
)


def test_bits_are_an_integer_whoever_computed_it():
    """Also where one was kept for as many bits: an array of one integer cannot be looked up."""
    of = inspect.unwrap(ring)
    assert of(np.int64(16)) is of(16) and type(of(np.int64(16)).bits) is int
    with pytest.raises(ValueError, match=r"^bits must be an integer >= 2, got array\(16\)$"):
        of(np.array(16))


def test_a_derivative_that_rounding_would_lose_is_refused():
    encode = lambda x: round_within(4.0, max_norm=2.0).encode(KEY, (), (), x, cohort_of(1))[0].astype(jnp.float32)
    with pytest.raises(ValueError, match="^a round must not be differentiated"):
        jax.jvp(encode, (jnp.ones((1, 2)),), (jnp.ones((1, 2)),))
