"""The rotation: the Walsh-Hadamard matrix against scipy's, its inverse, and how flat it makes a vector."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import hadamard as walsh

from fedjax_priv.base import Received
from fedjax_priv.crypto.prg import signs
from fedjax_priv.engine.side_by_side import traced_for
from fedjax_priv.layers import plain, rotate, stack
from fedjax_priv.layers.rotation import hadamard, padded_length
from helpers import cohort_of, refuses, run_layer, survivors

KEY = jax.random.key(12)


@pytest.mark.parametrize("d", [1, 2, 16, 64])
def test_the_matrix_is_scipy_s(d):
    np.testing.assert_allclose(hadamard(jnp.eye(d)), walsh(d) / np.sqrt(d), atol=1e-6)


def in_single_steps(x):
    """As Fino and Algazi write it: all sums of neighbours, then all differences, log2(d) times."""
    for _ in range(x.shape[1].bit_length() - 1):
        x = np.concatenate([x[:, 0::2] + x[:, 1::2], x[:, 0::2] - x[:, 1::2]], axis=1)
    return x * np.float32(1 / np.sqrt(x.shape[1]))


@pytest.mark.parametrize("order", range(8))
@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
def test_several_steps_at_once_have_the_bits_of_single_ones(platform, order):
    rng = np.random.default_rng(order)
    x = (rng.normal(size=(3, 2**order)) * 10.0 ** rng.integers(-6, 6, (3, 2**order))).astype(np.float32)
    with traced_for(platform):
        found = np.asarray(jax.jit(lambda x: hadamard(x))(x))
    np.testing.assert_array_equal(found.view(np.uint32), in_single_steps(x).view(np.uint32))


@pytest.mark.usefixtures("any_platform")
@pytest.mark.parametrize(("platform", "loops", "groups"), [("cpu", 1, 1), ("tpu", 1, 1), ("cuda", 0, 6)])
def test_a_gpu_reads_all_numbers_six_times_not_eighteen(platform, loops, groups):
    text = jax.jit(lambda x: hadamard(x)).trace(jnp.ones((1, 2**18))).lower(lowering_platforms=(platform,)).as_text()
    assert (text.count("stablehlo.while"), text.count("stablehlo.concatenate")) == (loops, groups)


def rotated(x, seeds=1):
    """Updates as `seeds` rounds rotate them, and as the server decodes their sum."""
    n, d = x.shape
    layer, who = stack(rotate=rotate(d), send=plain()), cohort_of(n)
    results = [run_layer(layer, jax.random.fold_in(KEY, i), x, who, survivors(n)) for i in range(seeds)]
    return np.stack([r["upload"] for r in results]), np.stack([r["received"].value[0] for r in results]), results[0]


def test_the_sum_comes_back_and_norms_stay():
    x = np.random.default_rng(0).normal(size=(5, 250)).astype(np.float32)
    uploads, sums, _ = rotated(jnp.asarray(x))
    assert uploads.shape == (1, 5, 256)
    np.testing.assert_allclose(np.linalg.norm(uploads[0], axis=1), np.linalg.norm(x, axis=1), rtol=1e-6)
    np.testing.assert_allclose(sums[0], x.sum(0), atol=1e-5)


def test_a_size_computed_by_numpy_is_a_size():
    x, who = jnp.ones((3, 6)), cohort_of(3)
    run = lambda d: run_layer(stack(rotate=inspect.unwrap(rotate)(d), send=plain()), KEY, x, who, survivors(3))
    np.testing.assert_array_equal(run(np.prod((2, 3)))["upload"], run(6)["upload"])


def test_a_rotated_vector_is_flat_whatever_it_was():
    """But for the signs, a flat vector would become one spike, and does in the control."""
    d, failure = 256, 1e-6
    x = np.stack([np.ones(d) / np.sqrt(d), np.eye(d)[3], walsh(d)[77] / np.sqrt(d)]).astype(np.float32)
    uploads, _, _ = rotated(jnp.asarray(x), seeds=20)
    most = np.sqrt(2 * np.log(2 * d / failure) / d)
    assert np.abs(uploads).max() < most and np.abs(uploads).max() > 0.3 * most
    assert not np.array_equal(uploads[0], uploads[1])  # every round has signs of its own
    spikes = np.abs(np.asarray(hadamard(jnp.asarray(x))))
    assert spikes[0].max() > 0.999 > most and spikes[2].max() > 0.999


def test_signs_are_even_and_differ_by_seed():
    some = np.stack([np.asarray(signs(jnp.uint32([i, 7]), "rotation", 4096)) for i in range(4)])
    assert set(np.unique(some)) == {-1.0, 1.0} and (np.abs(some.mean(1)) < 5 / 64).all()
    assert (np.abs(np.corrcoef(some) - np.eye(4)) < 5 / 64).all()


def test_everybody_is_told_a_seed_of_64_bits_and_without_it_nothing_comes_back():
    x = jnp.asarray(np.random.default_rng(1).normal(size=(3, 64)), jnp.float32)
    _, _, result = rotated(x)
    assert result["bits"]["rotation"].down.tolist() == [64, 64, 64] and not result["bits"]["rotation"].up.any()
    layer, received = rotate(64), Received(result["upload"].sum(0, keepdims=True), jnp.array([3]))
    right = np.asarray(layer.decode((), result["public"]["rotate"], received).value[0])
    wrong = np.asarray(layer.decode((), jnp.uint32([1, 2]), received).value[0])  # a seed that one side kept secret
    assert np.abs(right - x.sum(0)).max() < 1e-5 and np.abs(wrong - x.sum(0)).max() > 1


def test_lengths_are_padded_to_powers_of_two():
    assert [padded_length(d) for d in (1, 2, 3, 250, 256, 257)] == [1, 2, 4, 256, 256, 512]


test_bad_arguments = refuses(
    lambda how: run_layer(
        stack(rotate=rotate(**how), send=plain()), KEY, jnp.zeros((2, 4)), cohort_of(2), survivors(2)
    ),
    ({"num_params": 0}, "num_params must be an integer >= 1"),
    ({"num_params": 5}, "num_params must be the length of an update, 4, got 5"),
)
