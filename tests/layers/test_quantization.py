import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.layers import plain_field, quantize, stack
from fedjax_priv.layers.quantization import largest_summand
from fedjax_priv.status import Status
from helpers import Q, cohort_of, refuses, run_layer, survivors

KEY = jax.random.key(1)


def encoded(x, levels, max_terms=4):
    x = jnp.asarray(x, jnp.float32)
    layer = stack(quantize=quantize(levels, max_terms), send=plain_field())
    return run_layer(layer, KEY, x, cohort_of(len(x)), survivors(len(x)))


def test_values_are_the_two_neighbours_on_the_grid():
    """Eqs. 15-17: floor(c z) or floor(c z) + 1, and q + z below zero."""
    x = np.array([[0.3, -0.3, 2.0, -2.0, 0.0]] * 2)
    z = np.asarray(encoded(x, 8.0)["upload"]).astype(np.int64)
    z = np.where(z > Q // 2, z - Q, z)
    low = np.floor(8.0 * x.astype(np.float32)).astype(int)
    assert ((z == low) | (z == low + 1)).all()
    assert (z[:, 2:] == [16, -16, 0]).all()


@pytest.mark.parametrize("levels", [1.0, 3.0, 64.0])
def test_mean_and_variance(levels):
    """Unbiased, with variance f (1 - f) / c^2 for the fractional part f of c z: at most 1 / (4 c^2)."""
    x = np.float32([-1.7, -0.25, 0.1, 0.5, 3.9])
    n = 20_000
    rows = np.tile(x, (n, 1))
    z = np.asarray(encoded(rows, levels, max_terms=1)["upload"]).astype(np.int64)
    value = np.where(z > Q // 2, z - Q, z) / levels
    fraction = np.float64(np.float32(levels) * x) % 1
    variance = fraction * (1 - fraction) / levels**2
    assert (np.abs(value.mean(0) - x) <= 5 * np.sqrt(variance / n) + 1e-6).all()
    assert (np.abs(value.var(0) - variance) <= 5 * 0.5 / levels**2 / np.sqrt(n)).all()
    assert (variance <= 1 / (4 * levels**2)).all()


def test_every_value_is_rounded_by_itself():
    """Half of the values go up, whatever others of the client, other clients or other rounds do.

    The norm of a rounded update is bounded as that of a sum of independent errors.
    """
    n = 128
    halves, layer = jnp.full((n, n), 0.5), quantize(1.0, n)
    up = lambda key: np.asarray(layer.encode(key, (), (), halves, cohort_of(n))[0]).astype(int) * 2 - 1
    first, second = up(KEY), up(jax.random.key(2))
    away = lambda products: np.abs(products / n - np.eye(n) * (products[0, 0] == n)).max()
    for products in (first @ first.T, first.T @ first, first @ second.T, first.T @ second):
        assert away(products) < 6 / np.sqrt(n)


@pytest.mark.parametrize(("x", "status"), [(1.0, 0), (np.nan, Status.NOT_FINITE), (-np.inf, Status.NOT_FINITE)])
def test_what_is_not_finite_sets_its_bit(x, status):
    assert encoded([[0.0, x], [0.0, 1.0]], 8.0)["sent"].status.tolist() == [status, 0]


def test_a_sum_that_sets_no_bit_cannot_wrap():
    """The largest value that passes, max_terms times, is at most (q - 1) / 2; a little more sets the bit."""
    for max_terms in (2, 5, 1000):
        limit = (Q - 1) // 2 // max_terms
        below = np.float32(limit) * (1 - 2.0**-20)
        passes, fails = encoded([[below], [-1.001 * below]], 1.0, max_terms)["sent"].status.tolist()
        assert (passes, fails) == (0, Status.FIELD_OVERFLOW)
        assert max_terms * (int(below) + 1) <= (Q - 1) // 2


@pytest.mark.parametrize("max_terms", [1, 2, 4000, 65_535, 1_000_000])
def test_the_largest_summand_passes_and_so_many_add_up(max_terms):
    """Each rounded up, in exact integers."""
    for levels in (1.0, 3.0, 2.0**20):
        x = largest_summand(levels, max_terms)
        assert encoded([[x], [-x]], levels, max_terms)["sent"].status.tolist() == [0, 0]
        assert max_terms * math.ceil(np.float32(levels) * np.float32(x)) <= (Q - 1) // 2


def test_the_most_terms_that_are_allowed_leave_room_for_zero():
    most = 2**30 - 2
    assert encoded([[0.0], [-1.0]], 1.0, most)["sent"].status.tolist() == [0, Status.FIELD_OVERFLOW]


test_bad_arguments = refuses(
    quantize,
    (0.0, 2, "^levels must be"),
    (np.inf, 2, "^levels must be"),
    (1.0, 0, "^max_terms must be"),
    (1.0, 2**30, r"^max_terms must be at most \(q-1\)/4 = 1073741822, .*, got 1073741824"),
)
