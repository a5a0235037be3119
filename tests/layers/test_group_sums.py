import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedjax_priv.layers import field_sum, fixed_point_sum, float_sum
from fedjax_priv.layers.fixed_point import MOST_WHOLE, from_limbs, limbs_of_sum, to_limbs, to_parts
from fedjax_priv.layers.group_sums import MAX_UPLOADS, message_bits
from helpers import Q, same_bits

LOWEST = 2.0**-45  # what a fixed-point sum resolves


FIXED, FLOAT = fixed_point_sum(), float_sum()


@functools.partial(jax.jit, static_argnames="combine")
def combined(combine, y, alive, group):
    return combine.lower(combine.lift(y, alive, group))


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(
    ("make", "dtype"), [(field_sum, np.uint32), (fixed_point_sum, np.float32), (float_sum, np.float32)]
)
def test_sums_by_group_of_those_alive(make, dtype, groups):
    rng = np.random.default_rng(0)
    y = rng.integers(0, Q, (9, 5), dtype=np.uint32) if dtype == np.uint32 else rng.normal(size=(9, 5)).astype(dtype)
    y[4] = 0xFFFFFFFF if dtype == np.uint32 else np.nan  # not alive: whatever it holds must not be read
    alive, group = np.arange(9) != 4, np.arange(9) % groups
    received = combined(make(groups), y, alive, group)
    for g in range(groups):
        rows = y[alive & (group == g)]
        assert received.count[g] == len(rows)
        if dtype == np.uint32:
            assert (np.asarray(received.value[g]) == rows.astype(object).sum(0) % Q).all()
        else:
            np.testing.assert_allclose(received.value[g], rows.astype(np.float64).sum(0), rtol=1e-6, atol=1e-7)


@given(st.lists(st.floats(-32767, 32767, width=32), min_size=1, max_size=30))
def test_fixed_point_sum_is_the_exact_sum_rounded(values):
    """Against sums of Python fractions: each summand loses less than 2**-45, the total is rounded a few times."""
    x, padded = np.array(values, np.float32), np.full((30, 1), np.nan, np.float32)
    padded[: len(x), 0] = x
    got = float(combined(FIXED, padded, np.arange(30) < len(x), np.zeros(30, int)).value[0, 0])
    exact = float(np.sum(x.astype(np.float64)))
    assert abs(got - exact) <= len(x) * LOWEST + 3e-7 * abs(exact)


@jax.jit
def most_uploads_of(x):
    return from_limbs(*jax.tree.map(lambda limb: limb * MAX_UPLOADS, to_limbs(*to_parts(x))))


def test_fixed_point_sum_holds_the_most_uploads_of_the_largest_values():
    largest = np.nextafter(np.float32(2**15), np.float32(0))
    for x in (largest, -largest, np.float32(-1e-9)):
        got, exact = float(most_uploads_of(jnp.float32(x))), MAX_UPLOADS * float(x)
        assert abs(got - exact) <= 3e-7 * abs(exact) + MAX_UPLOADS * LOWEST


def test_fixed_point_sum_does_not_depend_on_order_and_a_float_sum_does():
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(1000, 8)) * 10.0 ** rng.integers(-6, 4, (1000, 1))).astype(np.float32)
    everyone, one_group = np.ones(1000, bool), np.zeros(1000, int)
    orders = [np.arange(1000), rng.permutation(1000), np.arange(1000)[::-1]]
    totals = lambda combine: [np.asarray(combined(combine, x[o], everyone, one_group).value) for o in orders]
    assert all(same_bits(t, totals(FIXED)[0]) for t in totals(FIXED))
    assert not all(same_bits(t, totals(FLOAT)[0]) for t in totals(FLOAT))


@pytest.mark.parametrize("rows", [1, 16, 2048, 2049])
def test_sums_of_many_large_values_of_one_sign(rows):
    """Blocks on either side of what an int32 holds."""
    largest = np.nextafter(np.float32(2**15), np.float32(0))
    for x in (largest, -largest, np.float32(-(2.0**-45)), np.float32(1.1)):
        y = np.full((rows, 1), x)
        total = combined(FIXED, y, np.ones(rows, bool), np.zeros(rows, int)).value[0, 0]
        exact = rows * int(float(x) * 2**45) / 2**45
        assert abs(float(total) - exact) <= 3e-7 * abs(exact)


def whole(limbs):
    """The integer that limbs stand for, by number."""
    return sum(np.asarray(limb).astype(object) << 15 * (3 - i) for i, limb in enumerate(limbs))


@pytest.mark.parametrize("rows", [1, MOST_WHOLE, MOST_WHOLE + 1, 2048])
def test_sums_of_64_and_of_32_bits_are_the_exact_sum(rows):
    """Of numbers of both signs and of all sizes, the largest and the smallest included; Python's integers add them."""
    rng, largest = np.random.default_rng(rows), np.nextafter(np.float32(2**15), np.float32(0))
    x = (rng.normal(size=(rows, 40)) * 2.0 ** rng.integers(-60, 12, (rows, 40))).astype(np.float32)
    x[:, 0], x[:, 1], x[:, 2], x[:, 3] = largest, -largest, -(2.0**-45), -(2.0**-46)
    exact = [sum(int(number) for number in column) for column in (x.astype(np.float64) * 2.0**45).T]
    assert whole(jax.jit(limbs_of_sum)(x)).tolist() == exact
    assert whole(to_limbs(*(part.sum(0) for part in to_parts(jnp.asarray(x))))).tolist() == exact


def test_message_bits_counts_the_arrays():
    assert message_bits((jnp.zeros((4, 3)), jnp.zeros((4,), jnp.uint8)), 4) == 3 * 32 + 8


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_parts_of_numbers_of_another_type_are_those_of_the_same_numbers(dtype):
    """2**20, the base of parts, is infinite in float16."""
    x = jnp.array([0.1, -3.0, 1e-3, 0.0], dtype)
    for got, want in zip(to_parts(x), to_parts(x.astype(jnp.float32)), strict=True):
        np.testing.assert_array_equal(got, want)
