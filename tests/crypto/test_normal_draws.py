"""Gaussian noise for privacy: quantiles of words in float64, and a tail that goes on beyond JAX's own."""

from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv import channels, server_noise
from fedjax_priv.base import Received
from fedjax_priv.clients.batch_gradients import with_noise
from fedjax_priv.crypto import normal_draws
from fedjax_priv.crypto.normal_draws import normal, of_words
from fedjax_priv.crypto.philox_stream import STREAM
from fedjax_priv.crypto.prg import seed_of
from fedjax_priv.layers.noise_gaussian import standard_normal
from helpers import accelerator_forms

KEY, D = jax.random.key(3), 5


def test_a_draw_is_the_quantile_of_its_words():
    """From the middle to the last word of the tail."""
    rng = np.random.default_rng(0)
    high = np.concatenate([rng.integers(0, 2**32, 1000), 2 ** np.arange(32), np.zeros(64)]).astype(np.uint32)
    low = np.concatenate([rng.integers(0, 2**32, 1032), 2 ** np.arange(32), 2 ** np.arange(32) - 1]).astype(np.uint32)
    tail = (high * 2.0**32 + low + 1) * 2.0**-65
    expected = np.where(low & 1, 1, -1) * stats.norm.isf(tail)
    np.testing.assert_allclose(of_words(jnp.asarray(high), jnp.asarray(low)), expected, rtol=1e-6, atol=2e-7)
    assert 9.1 < np.abs(expected).max() <= 9.16
    assert np.sign(expected).sum() < 200  # both signs


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5, 3), (601,)])
def test_two_numbers_come_from_each_block_of_philox(shape):
    """So no word is used twice, and none is left out."""
    count = int(np.prod(shape))
    block = jnp.arange(-(-count // 2), dtype=jnp.uint32)
    a, b, c, d = (np.asarray(word).tolist() for word in STREAM.blocks(block, seed_of(KEY), "normal", 0))
    high, low = np.array(a + c, float)[:count], np.array(b + d, np.uint32)[:count]
    expected = np.where(low & 1, 1, -1) * stats.norm.isf((high * 2.0**32 + low + 1) * 2.0**-65)
    x = normal(KEY, shape)
    assert x.shape == shape
    np.testing.assert_allclose(x.ravel(), expected, rtol=1e-6, atol=2e-7)
    with accelerator_forms():
        np.testing.assert_array_equal(normal(KEY, shape), x)


def test_the_law_is_normal():
    x = np.asarray(normal(KEY, (500_000,)), np.float64)
    assert stats.kstest(x, "norm").pvalue > 1e-4
    beyond = (np.abs(x) > 4).sum()  # 31.7 expected
    assert 10 < beyond < 60


def on_server(noise):
    return lambda: noise.draw(KEY, noise.init(D), D)[0]


NOISES = {
    "server": on_server(server_noise.independent()),
    "banded": on_server(server_noise.banded(np.array([1.0, 0.5]))),
    "tree": on_server(server_noise.tree(8)),
    "clients": lambda: standard_normal(KEY, jnp.arange(2), (D,)),
    "channel": lambda: channels.multiple_access(1.0).receive(KEY, Received(jnp.zeros((1, D)), jnp.ones(1, jnp.int32))),
    "gradients": lambda: with_noise(1.0)(jax.random.split(KEY, 1), jnp.int32(0), jnp.zeros((1, D))),
}


@pytest.fixture(scope="module")
def of_zeros():
    """All of them, if all random words are zero."""
    zeros = lambda number, tag, round, part, seed: (jnp.zeros_like(number),) * 4
    with mock.patch.object(normal_draws, "STREAM", normal_draws.STREAM._replace(cipher=zeros, brief=None)):
        jax.clear_caches()
        drawn = jax.jit(lambda: {name: jax.tree.leaves(make())[0] for name, make in NOISES.items()})()
    jax.clear_caches()
    return drawn


@pytest.mark.parametrize("name", NOISES)
def test_noise_with_a_privacy_figure_has_the_long_tail(name, of_zeros):
    """Of zeros it is at the end of its support; JAX's own ends at 5.42."""
    assert np.abs(of_zeros[name]).max() > 9.1


def test_the_support_of_jax_s_own_would_be_seen():
    assert jnp.sqrt(2.0) * jax.scipy.special.erfinv(np.nextafter(np.float32(1), np.float32(0))) < 5.5
