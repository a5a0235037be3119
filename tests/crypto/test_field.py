import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, PartitionSpec

from fedjax_priv.crypto import field
from helpers import accelerator_forms

Q = 2**32 - 5
EDGES = [0, 1, 2, 4, 5, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**31 + 1, (Q - 1) // 2, (Q + 1) // 2, Q - 6, Q - 2, Q - 1]
elements = st.one_of(st.sampled_from(EDGES), st.integers(0, Q - 1))
SIZE = 64
pairs_of = st.lists(st.tuples(elements, elements), min_size=SIZE, max_size=SIZE)

add, sub, neg, mul, power, inverse, canonical = map(
    jax.jit, (field.add, field.sub, field.neg, field.mul, field.power, field.inverse, field.canonical)
)


def words(values):
    return jnp.asarray(np.array(values, np.uint32))


def ints(array):
    return np.asarray(array).astype(object)


def grid(values):
    a, b = np.meshgrid(np.array(values, np.uint32), np.array(values, np.uint32))
    return a.ravel(), b.ravel()


def check_arithmetic(a, b):
    x, y = ints(a), ints(b)
    assert (ints(add(a, b)) == (x + y) % Q).all()
    assert (ints(sub(a, b)) == (x - y) % Q).all()
    assert (ints(mul(a, b)) == (x * y) % Q).all()
    assert (ints(neg(a)) == -x % Q).all()
    assert ints(power(a, b)).tolist() == [pow(int(i), int(j), Q) for i, j in zip(x, y, strict=True)]


def test_arithmetic_on_all_pairs_of_edge_values():
    check_arithmetic(*map(jnp.asarray, grid(EDGES)))


@given(pairs_of)
def test_arithmetic_is_that_of_python_integers(pairs):
    check_arithmetic(*(words(column) for column in zip(*pairs, strict=True)))


def test_many_products():
    a, b = np.random.default_rng(0).integers(0, Q, (2, 200_000), dtype=np.uint64)
    expected = [int(x) * int(y) % Q for x, y in zip(a, b, strict=True)]
    assert ints(field.mul(words(a), words(b))).tolist() == expected


def test_both_halves_of_a_product_of_any_words():
    a, b = map(jnp.asarray, grid([*EDGES, Q, 2**32 - 1]))
    high, low = map(ints, field.product(a, b))
    assert (high == ints(a) * ints(b) >> 32).all()
    assert (low == ints(a) * ints(b) % 2**32).all()


def test_products_leave_the_width_of_integers_as_it_was():
    """Inside jit, vmap, scan, cond and eval_shape, and for scalars of NumPy."""
    a = jnp.arange(3, dtype=jnp.uint32)
    scanned = lambda x: jax.lax.scan(lambda c, y: (field.mul(c, y), jnp.arange(2)), np.uint32(3), x)
    chosen = lambda x: jax.lax.cond(x[0] == 0, lambda: field.mul(x, np.uint32(7)), lambda: x)
    for program in (jax.vmap(lambda x: field.mul(x, x)), scanned, chosen):
        assert jax.eval_shape(program, a) == jax.eval_shape(jax.jit(program), a)
        assert {leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.jit(program)(a))} == {4}
    assert jnp.arange(2).dtype == jnp.int32


def test_products_along_an_axis():
    a = np.random.default_rng(1).integers(0, Q, (7, 3), dtype=np.uint64)
    right = [functools.reduce(lambda x, y: x * y % Q, map(int, column)) for column in a.T]
    assert ints(field.prod(words(a))).tolist() == right
    with accelerator_forms():
        assert ints(field.prod(words(a))).tolist() == right


def test_every_word_outside_the_field_is_folded():
    a = words([Q - 1, *range(Q, 2**32)])
    assert ints(canonical(a)).tolist() == [Q - 1, 0, 1, 2, 3, 4]


@given(st.lists(elements.filter(bool), min_size=SIZE, max_size=SIZE))
def test_an_element_times_its_inverse_is_one(values):
    a = words(values)
    assert (mul(a, inverse(a)) == 1).all()
    assert ints(inverse(a)).tolist() == [pow(v, -1, Q) for v in values]


def test_zero_has_itself_as_inverse():
    assert inverse(words([0])) == 0


def test_two_is_a_primitive_root():
    factors = (2, 5, 19, 22_605_091)  # of q - 1
    assert np.prod(factors, dtype=object) == Q - 1
    assert all(factors[-1] % divisor for divisor in range(2, 4755))
    cofactors = words([(Q - 1) // factor for factor in factors])
    assert (power(words([2] * 4), cofactors) != 1).all()


@pytest.mark.parametrize("terms", [1, 3, 65_536])
def test_sum_of_the_largest_elements(terms):
    total = jax.jit(field.sum, static_argnums=1)(jnp.full((terms, 2), Q - 1, jnp.uint32), 0)
    assert ints(total).tolist() == [terms * (Q - 1) % Q] * 2


def test_sum_along_either_axis():
    a = np.random.default_rng(1).integers(0, Q, (5, 7), dtype=np.uint64).astype(np.uint32)
    for axis in (0, 1, -1):
        assert (ints(field.sum(jnp.asarray(a), axis)) == ints(a).sum(axis) % Q).all()


def test_sum_of_too_many_terms():
    with pytest.raises(ValueError, match="a must have at most 65536 terms along axis 0, got 65537"):
        field.sum(jnp.zeros(65_537, jnp.uint32))


def test_halves_join_to_what_they_stand_for():
    low, high = map(jnp.asarray, grid([*EDGES, Q, 2**32 - 1, 65_536 * 65_535]))
    assert (ints(field.join(low, high)) == (ints(low) + ints(high) * 2**16) % Q).all()
    a = words(EDGES)
    assert (field.join(*field.split(a)) == a).all()
    assert all(int(half.max()) < 2**16 for half in field.split(a))


def test_psum_over_devices():
    a = np.full((4, 3), Q - 1, np.uint32)
    a[1] = 7, 0, 2**31
    mesh = Mesh(np.array(jax.devices()[:4]), ("clients",))
    split, whole = PartitionSpec("clients"), PartitionSpec()
    total = jax.shard_map(lambda x: field.psum(x, "clients"), mesh=mesh, in_specs=split, out_specs=whole)(a)
    assert (ints(total)[0] == ints(a).sum(0) % Q).all()


def test_signed_integers_there_and_back():
    half = (Q - 1) // 2
    z = np.array([-half, 1 - half, -(2**16), -1, 0, 1, 2**16, half - 1, half], np.int32)
    a = field.from_signed(jnp.asarray(z))
    assert (ints(a) == z.astype(object) % Q).all()
    assert a[0] == half + 1
    assert (np.asarray(field.to_signed(a)) == z).all()


def test_alone_and_batched_alike():
    a, b = map(jnp.asarray, grid(EDGES))
    for f in (field.add, field.sub, field.mul, field.power):
        assert (jax.vmap(f)(a, b) == f(a, b)).all()
