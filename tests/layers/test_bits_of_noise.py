"""Noise and what it is added to have the same bits in blocks of one client as in larger ones, in optimised programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.compiling import FAST_FLAGS
from fedjax_priv.channels import orthogonal
from fedjax_priv.layers import align, clip, gaussian_noise, noise_gaussian
from helpers import cohort_of

KEY, WHO = jax.random.key(3), cohort_of(6)
OPTIONS = {"xla_cpu_use_fusion_emitters": True} if FAST_FLAGS else {}  # the flags of these tests turn them off
X = np.random.default_rng(0).normal(size=(6, 650)).astype(np.float32)


def encoded(layer, x, who):
    public = layer.advertise(KEY, (), who)[1]
    return layer.encode(KEY, (), public, x, who)[0]


CASES = {
    "clipped and noised": lambda x, who: encoded(gaussian_noise(0.37), encoded(clip(1.0), x, who), who),
    "within a power": lambda x, who: encoded(align(0.37, max_norm=1.0, power=0.001, level=0.7), x, who),
    "on links": lambda x, who: orthogonal(0.37).transmit(KEY, x, who)[0],
}


@pytest.fixture
def optimised():
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


def in_blocks(case, size):
    """All six clients, in blocks of so many."""
    split = lambda a: a.reshape(len(WHO.client) // size, size, *a.shape[1:])
    each = lambda block: CASES[case](*block)
    run = jax.jit(lambda x, who: jax.lax.map(each, jax.tree.map(split, (x, who))), compiler_options=OPTIONS)
    rows = run(X, WHO)
    return np.asarray(rows).reshape(X.shape)


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_one_client_have_the_bits_of_larger_ones(optimised, case):
    assert (in_blocks(case, 1) == in_blocks(case, 6)).all()


def test_without_the_detour_products_are_fused_with_sums(optimised, monkeypatch):
    monkeypatch.setattr(noise_gaussian, "rounded_product", lambda values, client: values)
    if FAST_FLAGS:  # that later compilers do so too is not promised
        assert (in_blocks("clipped and noised", 1) != in_blocks("clipped and noised", 6)).any()


def test_zeros_keep_their_signs_and_nothing_else_changes():
    from fedjax_priv.engine.products import rounded_product

    odd = jnp.array([[0.0, -0.0, jnp.inf, -jnp.inf, 1e-42, jnp.pi]])
    same = jax.jit(rounded_product)(odd, WHO.client[:1])
    assert np.asarray(same).tobytes() == np.asarray(odd).tobytes()
