import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.crypto import lagrange, matrix
from helpers import Q, accelerator_forms, refuses

RNG = np.random.default_rng(0)


def product(a, b):
    return np.asarray(jax.jit(matrix.matmul)(a, b))


def elements(*shape):
    return RNG.integers(0, Q, shape, dtype=np.uint32)


LEAST = [Q - 0x80808080, Q - 0x80008000]
LARGEST = [0x7F7F7F7F, 0x7FFF7FFF]
"""All of whose limbs, bytes and halves, are the least, or the largest."""
EDGES = np.array([0, 1, 5, 127, 128, 32_767, 32_768, Q // 2, Q // 2 + 1, Q - 1, Q - 128, Q - 129, Q - 32_769] + [
    edge + by for edge in LEAST + LARGEST for by in (-6, -5, -1, 0, 1, 5)
], np.uint32)  # fmt: skip


def test_elements_where_limbs_carry():
    """Each with each, in one sum and in sums of one term, in both forms."""
    a, b = EDGES[:, None], EDGES[None]
    all_at_once = np.tile(EDGES, (3, 1)), np.roll(EDGES, 4)[:, None]
    for left, right in [(a, b), all_at_once]:
        expected = left.astype(object) @ right.astype(object) % Q
        assert (product(left, right) == expected).all()
        with accelerator_forms():
            assert (product(left, right) == expected).all()


@pytest.mark.parametrize(("n", "m", "w"), [(3, 5, 7), (2, 300, 5), (1, 1, 1)])
def test_products_in_the_field(n, m, w):
    """Against Python integers, with the largest elements in a row and a column."""
    a, b = elements(n, m), elements(m, w)
    a[0], b[:, 0] = Q - 1, Q - 1
    assert (product(a, b) == a.astype(object) @ b.astype(object) % Q).all()


@pytest.mark.parametrize(("terms", "columns"), [(256, 700), (matrix.MAX_TERMS, 9)])
def test_columns_in_tiles(terms, columns):
    """Up to the most terms there may be, with the largest sums of limbs; on a CPU there are several tiles."""
    extremes = np.array([Q - 1, *LEAST, *LARGEST], np.uint32)
    a, b = np.tile(extremes[:, None], (1, terms)), elements(terms, columns)
    b[:, : len(extremes)] = extremes
    expected = a.astype(object) @ b.astype(object) % Q
    assert (product(a, b) == expected).all()
    with accelerator_forms():
        assert (product(a, b) == expected).all()


def test_products_side_by_side_and_one_after_the_other():
    """Traced again under `vmap`, 64 bits are kept."""
    a, b = elements(2, 40), elements(3, 2, 40, 5)
    a[0] = Q - 1
    in_turn = jax.jit(jax.vmap(lambda b: jax.lax.map(lambda b: matrix.matmul(jnp.asarray(a), b), b)))
    assert (np.asarray(in_turn(b)) == a.astype(object) @ b.astype(object) % Q).all()


def evaluated(points, values, at):
    """The polynomial through the points, by Lagrange's formula in Python integers."""
    total = 0
    for j, (x, y) in enumerate(zip(points, values, strict=True)):
        weight = y
        for m, other in enumerate(points):
            if m != j:
                weight = weight * (at - other) * pow(x - other, -1, Q) % Q
        total += weight
    return total % Q


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3, 4], [1, 3, 4], [2]])
def test_values_of_polynomials_at_other_points(chosen):
    """At new points, and at one that it goes through."""
    points, at = elements(5), elements(4)
    at[1] = points[chosen[-1]]
    values = elements(5)
    weights = jax.jit(lagrange.basis)(points, at, jnp.isin(jnp.arange(5), jnp.array(chosen)))
    found = matrix.matmul(weights, jnp.asarray(values)[:, None])[:, 0]
    own = [[int(a[j]) for j in chosen] for a in (points, values)]
    assert found.tolist() == [evaluated(*own, int(x)) for x in at]


test_bad_arguments = refuses(
    lambda m: jax.eval_shape(matrix.matmul, jnp.zeros((1, m), jnp.uint32), jnp.zeros((m, 1), jnp.uint32)),
    (2**14 + 1, "a must have at most 16384 columns, got 16385"),
)
