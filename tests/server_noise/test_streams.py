"""Correlated noise streamed row by row against dense solves in NumPy float64, and what a broken stream would do."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from refusals import each, refused

from fedjax_priv.crypto.normal_draws import normal
from fedjax_priv.server_noise import banded, banded_inverse, buffered, correlations, tree

KEY = jax.random.key(11)
ROUNDS, D = 19, 3
BANDS = (1.25, 0.5, -0.3, 0.2)
INVERSE = (1.0, -0.5, -0.125)
WEIGHTS, DECAYS = (0.3, 0.2), (0.95, 0.5)
PROCESSES = {
    "banded": banded(BANDS),
    "one band": banded([2.0]),
    "as many bands as rounds": banded(0.9 ** np.arange(ROUNDS)),
    "banded inverse": banded_inverse(INVERSE),
    "buffered": buffered(WEIGHTS, DECAYS),
    "tree": tree(ROUNDS, variance_reduced=False),
    "reduced tree": tree(ROUNDS),
    "short trees": tree(5, variance_reduced=False),
    "short reduced trees": tree(5),
    "tree of one leaf": tree(1),
}


KINDS = ["banded", "banded inverse", "buffered", "tree", "reduced tree"]


def toeplitz(column):
    column = np.pad(np.asarray(column, float)[:ROUNDS], (0, max(0, ROUNDS - len(column))))
    return scipy.linalg.toeplitz(column, np.zeros(ROUNDS))


@jax.jit
def row_of(numbers):
    """The standard normal row of these numbers, under the noise key that the first round's key gives."""
    words = jax.random.bits(jax.random.fold_in(KEY, 0), (2,), jnp.uint32)
    key = jax.random.wrap_key_data(words, impl="threefry2x32")
    return normal(functools.reduce(jax.random.fold_in, numbers, key), (D,))


def drawn(*numbers):
    """A row of seeds, or of a node of a tree."""
    return np.asarray(row_of(np.array(numbers, np.uint32)), np.float64)


def solved(matrix):
    return scipy.linalg.solve_triangular(matrix, [drawn(t) for t in range(ROUNDS)], lower=True)


def prefix_noise(epoch, done, reduced):
    """Noise of the sum of the first `done` rounds of a tree, by recursion over its nodes."""

    def estimate(height, index):
        """Noise and variance of the sum over an interval."""
        own = drawn(epoch, height, index)
        if not (reduced and height):
            return own, 1.0
        (left, v), (right, u) = (estimate(height - 1, 2 * index + side) for side in (0, 1))
        share = (v + u) / (1 + v + u)  # weights are the other one's variance
        return share * own + (1 - share) * (left + right), (v + u) / (1 + v + u)

    heights = [j for j in range(10) if done >> j & 1]
    return sum((estimate(j, (done >> j) - 1)[0] for j in heights), np.zeros(D))


def rows_of_trees(leaves, reduced):
    for t in range(ROUNDS):
        epoch, leaf = divmod(t, leaves)
        yield prefix_noise(epoch, leaf + 1, reduced) - prefix_noise(epoch, leaf, reduced)


def expected(name):
    match name:
        case "banded":
            return solved(toeplitz(BANDS))
        case "one band":
            return solved(toeplitz([2.0]))
        case "as many bands as rounds":
            return solved(toeplitz(0.9 ** np.arange(ROUNDS)))
        case "banded inverse":
            return toeplitz(INVERSE) @ [drawn(t) for t in range(ROUNDS)]
        case "buffered":
            later = [np.dot(WEIGHTS, np.power(DECAYS, k)) for k in range(ROUNDS)]
            return solved(toeplitz([1.0, *later]))
    correlation = PROCESSES[name].correlation
    return np.array([*rows_of_trees(correlation.leaves, correlation.variance_reduced)])


@functools.cache
def program(process, d):
    def one(state, t):
        noise, state = process.draw(jax.random.fold_in(KEY, t), state, d)
        return state, noise

    return jax.jit(lambda state, rounds: jax.lax.scan(one, state, rounds)[::-1])


def stepped(process, rounds=ROUNDS, start=0, state=None, d=D):
    """Rows by one scan, and the state after them."""
    return program(process, d)(process.init(d) if state is None else state, start + jnp.arange(rounds))


@pytest.mark.parametrize("name", PROCESSES)
def test_stream_is_the_dense_solve(name):
    """To 1e-12 in float64, and one of each kind to float32 in float32."""
    with jax.enable_x64(True):
        rows, _ = stepped(PROCESSES[name])
        truth = expected(name)
        assert rows.dtype == jnp.float64
        np.testing.assert_allclose(rows, truth, rtol=0, atol=1e-12)
    if name not in KINDS:
        return
    single, state = stepped(PROCESSES[name])
    assert single.dtype == jnp.float32 and int(state.row) == ROUNDS
    np.testing.assert_allclose(single, expected(name), rtol=0, atol=3e-6)


def test_control_a_sign_error_is_no_dense_solve():
    with jax.enable_x64(True):
        rows, _ = stepped(banded((BANDS[0], *(-c for c in BANDS[1:]))))
        assert np.abs(rows - solved(toeplitz(BANDS))).max() > 0.1


@pytest.mark.parametrize("name", KINDS)
def test_a_stream_goes_on_from_its_saved_state_with_the_same_bits(name):
    whole = stepped(PROCESSES[name])[0][:16]
    first, state = stepped(PROCESSES[name], 8)
    saved = jax.tree.map(lambda a: jnp.asarray(np.array(a)), state)
    second, _ = stepped(PROCESSES[name], 8, 8, saved)
    assert np.array_equal(np.concatenate([first, second]), whole)
    again, _ = stepped(PROCESSES[name], 8, 8)  # control: from a fresh state, another noise
    assert not np.isclose(again, second).any()


def test_the_noise_key_is_that_of_the_first_round_only():
    process = PROCESSES["banded inverse"]
    draw, fresh = jax.jit(lambda key, state: process.draw(key, state, D)), jax.jit(lambda: process.init(D))()
    _, state = draw(KEY, fresh)
    one, other = (draw(jax.random.key(number), state)[0] for number in (1, 2))
    assert np.array_equal(one, other)
    assert not np.isclose(one, draw(jax.random.key(1), fresh)[0]).any()


def test_each_round_of_a_tree_has_nodes_of_its_own():
    """Two trees share no node: sums over both have twice the variance, and no row comes again."""
    rows, _ = stepped(tree(4, variance_reduced=False), 16, d=4000)
    sums = np.asarray(rows).reshape(4, 4, 4000).sum(1)  # each the root of its tree
    tolerance = 6 / np.sqrt(4000)
    assert np.abs(np.cov(sums) - np.eye(4)).max() < tolerance * np.sqrt(2)
    repeated = np.asarray(rows)[:4].sum(0)
    assert abs(np.cov(repeated, repeated)[0, 1] - 1) < tolerance * np.sqrt(2)  # control: nodes used again


def test_what_a_process_states_of_its_matrix():
    assert PROCESSES["banded"].correlation == correlations.Banded(BANDS)
    assert PROCESSES["banded inverse"].correlation == correlations.BandedInverse(INVERSE)
    assert PROCESSES["buffered"].correlation == correlations.BufferedToeplitz(WEIGHTS, DECAYS)
    assert PROCESSES["short trees"].correlation == correlations.Trees(5, False)


NONE = "coefficients must be a list of at least one number"
test_bad_coefficients = refused(
    ([], NONE), (np.array(1.0), NONE), (np.ones((1, 1)), NONE), ([1.0, np.nan], "coefficients must be a finite"),
    ([0.0, 1.0], r"coefficients\[0\] must be a finite number > 0"), by=banded,
)  # fmt: skip
test_bad_inverse_coefficients = refused(([], NONE), ([-1.0], r"coefficients\[0\] must be"), by=banded_inverse)
test_bad_buffers = refused(
    *each(weights=[[], [0.0], [np.inf]], decays=[[1.0], [-0.1], [0.1, 0.2]]),
    by=lambda given: buffered(**({"weights": [0.5], "decays": [0.5]} | given)), pattern="^{} must be",
)  # fmt: skip
test_bad_trees = refused((0, "leaves must be an integer >= 1"), by=tree)
