"""Sums over pairs against Python integers, in the forms for a CPU and for accelerators, in tiles and at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto import philox_stream, prg
from fedjax_priv.crypto.modulus import FIELD, ring
from fedjax_priv.engine.side_by_side import traced_for
from fedjax_priv.layers.secure_sum import signed_sum as module
from fedjax_priv.layers.secure_sum.signed_sum import signed, signed_sum
from helpers import Q, accelerator_forms, equations

CLIENTS, PAIRS = 5, 11
rng = np.random.default_rng(0)
SEEDS = jnp.asarray(rng.integers(0, Q, (CLIENTS, PAIRS, 2), dtype=np.uint32))
MEETS, PLUS = rng.random((2, CLIENTS, PAIRS)) < 0.7
MEETS[[0, 3]] = False  # two that meet nobody, between others


def sums(d, rows=slice(None), modulus=FIELD):
    seeds, meets, plus = (jnp.asarray(a[rows]) for a in (SEEDS, MEETS, PLUS))
    return np.asarray(jax.jit(lambda: signed_sum(seeds, meets, plus, "mask", jnp.int32(3), d, prg.philox, modulus))())


def expected(d, modulus=FIELD):
    """From each pair's elements."""
    one = jax.jit(lambda seed: modulus.expand(seed, "mask", 3, d, prg.philox))
    elements = np.array([[np.asarray(one(seed)) for seed in row] for row in SEEDS]).astype(object)
    sign = np.where(MEETS, np.where(PLUS, 1, -1), 0)
    return (elements * sign[:, :, None]).sum(1) % modulus.size, elements


@pytest.fixture
def often_outside(monkeypatch):
    """One word in four lies outside the field, and so does one spare word in four."""
    plain = philox_stream.philox4x32
    raised = lambda word: jnp.where(word % 4 == 0, word | np.uint32(2**32 - 8), word)  # 4 of 8 such words are
    monkeypatch.setattr(philox_stream, "philox4x32", lambda *args: tuple(map(raised, plain(*args))))
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.parametrize("d", [37, 4201], ids=["words", "blocks"])  # 4201: columns of blocks are odd, runs of 32 too
@pytest.mark.parametrize("modulus", [FIELD, ring(20)], ids=["field", "20 bits"])
def test_sums_of_all_forms_and_tiles(d, modulus, often_outside, monkeypatch):
    right, elements = expected(d, modulus)
    assert (elements < modulus.size).all()
    assert modulus is not FIELD or ((elements < 8).mean() < 0.1 and (elements >= Q - 8).mean() > 0.02)
    right_here = lambda: (sums(d, modulus=modulus) == right).all()
    assert right_here()
    with accelerator_forms():
        assert right_here()
        pair = 8 * (d + -(-d // 32)) if d > 4096 else 12 * (d + -(-d // 32))
        for budget in (1, 4 * pair, 3 * (PAIRS * pair + 16 * d)):  # a pair, four of a client, three clients at once
            monkeypatch.setattr(module, "ACCELERATOR_BYTES", budget)
            jax.clear_caches()
            assert right_here()
        monkeypatch.setattr(module, "ACCELERATOR_BYTES", 2**32)
        monkeypatch.setattr(module, "FEWEST_IN_REGISTERS", PAIRS)
        for most in (4, PAIRS):  # in registers, five pairs or all at once
            monkeypatch.setattr(module, "MOST_IN_REGISTERS", most)
            jax.clear_caches()
            assert right_here()
    with traced_for("gpu"):
        for budget in (1, 3 * (12 * 16 + 16 * d), 2**32):  # three pairs of a client, three clients, all
            monkeypatch.setattr(module, "ACCELERATOR_BYTES", budget)
            jax.clear_caches()
            assert right_here()
    monkeypatch.setattr(module, "CPU_CACHE_BYTES", 1)
    assert right_here()


@pytest.mark.parametrize("modulus", [FIELD, ring(20)], ids=["field", "20 bits"])
def test_a_gpu_holds_the_words_of_no_more_than_one_pair_of_each_client(modulus):
    seeds, meets, plus = (jnp.asarray(a) for a in (SEEDS, MEETS, PLUS))
    with traced_for("gpu"):
        program = jax.make_jaxpr(lambda: signed_sum(seeds, meets, plus, "mask", 3, 4201, prg.philox, modulus))().jaxpr
    largest = max(v.aval.size for equation in equations(program) for v in equation.outvars)
    assert CLIENTS * 4201 <= largest < 1.2 * CLIENTS * 4201


def test_a_tile_in_which_everybody_meets_somebody_is_computed():
    assert MEETS[1:3].any(1).all()
    assert (sums(5, slice(1, 3)) == expected(5)[0][1:3]).all()


def test_the_negative_of_a_word_is_one_even_of_zero():
    words = jnp.array([0, 1, 2**31, Q - 1], jnp.uint32)
    negative = np.asarray(signed(words, jnp.zeros(4, bool))).astype(object)
    assert (negative % Q == (-np.asarray(words, object)) % Q).all()
    assert (signed(words, jnp.ones(4, bool)) == words).all()
