"""Sums by group: how uploads become the rows the server holds. They add by `+` over blocks and devices."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Combine, Received, RowsOptional
from fedjax_priv.crypto import field
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.layers.fixed_point import MOST_PARTS, from_limbs, limbs_of_sum, to_limbs, to_parts, without_gradient

MAX_UPLOADS = 65_535
"""Most uploads in an exact sum: 16-bit halves in uint32, 15-bit limbs in int32."""


def sum_by_group(values: Array, group: Int[Array, " b"], num_groups: int) -> Array:
    """`[b, ...] -> [g, ...]`, exact for integers."""
    if num_groups == 1 and values.dtype == jnp.float32:  # a product with ones is faster on a CPU
        return jnp.matmul(jnp.ones((1, len(values))), values, precision="highest")
    if num_groups == 1:
        return values.sum(0, keepdims=True, dtype=values.dtype)
    return jax.ops.segment_sum(values, group, num_groups)


def _group_sum(
    num_groups: int, split: Callable[..., tuple], join: Callable[..., Array], max_uploads: int | None = MAX_UPLOADS
) -> Combine:
    """`split(y)` gives parts that are added separately; `join` turns their sums into the sum."""

    def add(y: PyTree, alive: Array, group: Array) -> tuple[Array, ...]:
        return tuple(_add_alive(part, alive, group, num_groups) for part in split(y))

    return _combine(num_groups, add, join, max_uploads)


def _combine(
    num_groups: int, add: Callable[..., tuple], join: Callable[..., Array], max_uploads: int | None
) -> Combine:
    _validate.integer(num_groups=num_groups)

    def lift(y: Array, alive: Bool[Array, " b"], group: Int[Array, " b"]) -> PyTree:
        count = sum_by_group(alive.astype(jnp.int32), group, num_groups)
        return count, [add(columns, alive, group) for columns in _in_even_number(y)]

    def lower(sums: PyTree) -> Received:
        count, parts = sums
        return Received(jnp.concatenate([join(*columns) for columns in parts], axis=1), count)

    return Combine(lift, lower, num_groups, max_uploads)


def _in_even_number(y: Array) -> list[Array]:
    """An even number of columns, and the odd one: loops of odd length are 14 times slower in XLA of JAX 0.10."""
    even = y.shape[1] // 2 * 2
    return [columns for columns in (y[:, :even], y[:, even:]) if columns.shape[1]]


def _add_alive(part: Array, alive: Array, group: Array, num_groups: int) -> Array:
    return sum_by_group(rows_where(alive, part, jnp.zeros((), part.dtype)), group, num_groups)


def float_sum(num_groups: int = 1) -> Combine:
    """Sum of float uploads; its bits depend on block size and number of devices.

    Examples:
      >>> sums = float_sum()
      >>> y, alive = jnp.array([[1.0], [2.0], [4.0]]), jnp.array([True, False, True])
      >>> print(sums.lower(sums.lift(y, alive, jnp.zeros(3, int))).value)  # of those whose upload arrived
      [[5.]]
    """
    return _of_sums_too(_group_sum(num_groups, lambda y: (y,), lambda total: total, None))


def field_sum(num_groups: int = 1) -> Combine:
    """Exact sum in F_q of at most 65,535 uploads `[b, d]` of field elements.

    Examples:
      >>> sums = field_sum(num_groups=2)
      >>> y, alive, group = jnp.array([[5], [7], [1]], jnp.uint32), jnp.array([True, True, True]), jnp.array([0, 0, 1])
      >>> received = sums.lower(sums.lift(y, alive, group))
      >>> print(received.value.tolist(), received.count)
      [[12], [1]] [2 1]
    """
    return _group_sum(num_groups, field.split, field.join)._replace(modulus=FIELD.size)


def exact_sum(modulus: Modulus, num_groups: int = 1) -> Combine:
    """Exact sum of uploads `[b, d]` of elements of a modulus: `field_sum`, or any number of uploads modulo 2**bits."""
    if modulus is FIELD:
        return field_sum(num_groups)
    join = lambda total: modulus.add(total, jnp.zeros_like(total))
    return _group_sum(num_groups, lambda y: (y,), join, None)._replace(modulus=modulus.size)


def fixed_point_sum(num_groups: int = 1) -> Combine:
    """Sum of float uploads in fixed point, 15 bits before the point and 45 after it: the same bits in any order.

    Exact except for the part of a summand below 2**-45, for magnitudes below 2**15 and at most 65,535 uploads.

    Examples:
      >>> sums = fixed_point_sum()
      >>> y, alive = jnp.array([[1e4], [1e-8], [-1e4]]), jnp.array([True, True, True])
      >>> print(f"{float(sums.lower(sums.lift(y, alive, jnp.zeros(3, int))).value[0, 0]):.2e}")  # a float sum loses it
      1.00e-08
    """

    def in_parts(y: Array, alive: Array, group: Array) -> tuple[Array, ...]:
        parts = to_parts(y)
        if len(y) > MOST_PARTS:
            return tuple(_add_alive(limb, alive, group, num_groups) for limb in to_limbs(*parts))
        return to_limbs(*(_add_alive(part, alive, group, num_groups) for part in parts))

    def in_64_bits(y: Array, alive: Array, group: Array) -> tuple[Array, ...]:
        del group
        return tuple(limb[None] for limb in limbs_of_sum(rows_where(alive, y, jnp.zeros((), y.dtype))))

    def add(y: Array, alive: Array, group: Array) -> tuple[Array, ...]:
        form = in_64_bits if num_groups == 1 else in_parts
        return by_platform(form, in_parts, without_gradient(y), alive, group)

    return _of_sums_too(_combine(num_groups, add, from_limbs, MAX_UPLOADS))


def _of_sums_too(combine: Combine) -> Combine:
    """Lifts a sum of floats as it lifts an upload, but counts those that are in it."""

    def lift_sum(total: Float32[Array, " d"], number: Int[Array, ""]) -> PyTree:
        _, parts = combine.lift(total[None], number[None] > 0, jnp.zeros(1, jnp.int32))
        return number[None], parts

    return combine._replace(lift=RowsOptional(combine.lift, lift_sum)) if combine.num_groups == 1 else combine


def element_bits(modulus: Modulus, y: UInt32[Array, "b d"]) -> UInt32[Array, ""]:
    """Bits of a message of one row of elements."""
    return message_bits(y, len(y)) // 32 * np.uint32(modulus.bits)


def message_bits(message: PyTree, rows: int = 1) -> UInt32[Array, ""]:
    """Bits of a message per sender: the size of its arrays over `rows`.

    Raises:
      ValueError: a sender's message has 2**32 bits or more.
    """
    return counted(sum(8 * a.size * a.dtype.itemsize for a in jax.tree.leaves(message)) // rows)


def counted(bits: int) -> UInt32[Array, ""]:
    """So many bits of a message, or the most that messages of a round may have.

    Raises:
      ValueError: 2**32 bits or more, which would be counted as fewer.
    """
    if bits >= 2**32:
        raise ValueError(f"a message must have fewer than 2**32 bits (512 MiB), got {bits}")
    return jnp.uint32(bits)
