"""Noise and what it is added to have the same bits in blocks of one client as in larger ones, in optimised programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.compiling import FAST_FLAGS
from fedjax_priv import systems
from fedjax_priv.channels import orthogonal
from fedjax_priv.layers import align, clip, gaussian_noise, noise_gaussian
from helpers import cohort_of, targets, towards_target

KEY, WHO = jax.random.key(3), cohort_of(6)
OPTIONS = {"xla_cpu_use_fusion_emitters": True} if FAST_FLAGS else {}  # the flags of these tests turn them off
X = np.random.default_rng(0).normal(size=(6, 650)).astype(np.float32)


def encoded(layer, key, x, who):
    public = layer.advertise(key, (), who)[1]
    return layer.encode(key, (), public, x, who)[0]


CASES = {
    "clipped and noised": lambda key, x, who: encoded(gaussian_noise(0.37), key, encoded(clip(1.0), key, x, who), who),
    "within a power": lambda key, x, who: encoded(align(0.37, max_norm=1.0, power=0.001, level=0.7), key, x, who),
    "on links": lambda key, x, who: orthogonal(0.37).transmit(key, x, who)[0],
}


def in_blocks(case, size):
    """All six clients, in blocks of so many; the key is an argument, so that no compiler knows it."""
    split = lambda a: a.reshape(len(WHO.client) // size, size, *a.shape[1:])
    of = lambda key, x, who: jax.lax.map(lambda block: CASES[case](key, *block), jax.tree.map(split, (x, who)))
    rows = jax.jit(of, compiler_options=OPTIONS)(KEY, X, WHO)
    return np.asarray(rows).reshape(X.shape)


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_one_client_have_the_bits_of_larger_ones(optimised, case):
    assert (in_blocks(case, 1) == in_blocks(case, 6)).all()


def test_without_the_detour_products_are_fused_with_sums(optimised, monkeypatch):
    monkeypatch.setattr(noise_gaussian, "rounded_product", lambda values, key: values)
    if FAST_FLAGS:  # that later compilers do so too is not promised
        assert (in_blocks("clipped and noised", 1) != in_blocks("clipped and noised", 6)).any()


def test_zeros_keep_their_signs_and_nothing_else_changes():
    from fedjax_priv.engine.products import rounded_product

    odd = jnp.array([[0.0, -0.0, jnp.inf, -jnp.inf, 1e-42, jnp.pi]])
    same = jax.jit(rounded_product)(odd, KEY)
    assert np.asarray(same).tobytes() == np.asarray(odd).tobytes()


@pytest.mark.parametrize("detour", [True, False])
def test_a_round_whose_clients_are_known_to_the_compiler(optimised, monkeypatch, detour):
    """It knows that their numbers are 0 to 5, and must not conclude from that. Control: without the detour."""
    if not detour:
        monkeypatch.setattr(noise_gaussian, "rounded_product", lambda values, key: values)
    data, found = targets(6, 650), []
    for block in (1, 6):
        system = systems.blind_wireless(towards_target(), antennas=3, noise_variance=0.37, block=block, mesh=None)
        step, state = jax.jit(system.step, compiler_options=OPTIONS), system.init(KEY, jnp.zeros(650), data)
        found.append(np.asarray(step(KEY, state, data)[1].direction))
    assert (found[0] == found[1]).all() or not detour
    assert detour or not FAST_FLAGS or (found[0] != found[1]).any()
