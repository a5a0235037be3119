"""Clients in blocks, blocks over devices: memory holds one block, and every core works.

Summands are added over blocks and devices; rows are stacked. Integer sums are the same for every block size and every
number of devices.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import CLIENTS
from fedjax_priv.engine.batches import joined
from fedjax_priv.engine.side_by_side import on_devices_of, side_by_side

_WHOLE = PartitionSpec()


def num_rows(rows: PyTree) -> int:
    """Length of the leading axis that all leaves share."""
    return jax.tree.leaves(rows)[0].shape[0]


def over_clients(
    fn: Callable[..., tuple[PyTree, PyTree]],
    shared: PyTree,
    rows: tuple[PyTree, ...],
    *,
    row_bytes: int,
    work: Array | None = None,
    device: Array | None = None,
    block: int | None = None,
    mesh: Mesh | None = None,
    shared_spec: PyTree = _WHOLE,
) -> tuple[PyTree, PyTree]:
    """Runs `fn` on blocks of clients, spread over the devices of `mesh`.

    Args:
      fn: `(shared, valid [b], *rows [b, ...]) -> (summand, out [b, ...])`. A row that is not `valid` is a ghost: it
        stands for no client, or for a client of another block, and must add nothing to the summand. Arrays that depend
        on an earlier `over_clients` go through `shared`: JAX refuses a closure over them.
      shared: what every block gets whole.
      rows: pytrees of arrays `[n, ...]`.
      row_bytes: what `fn` holds for a client in addition to its `rows`, about.
      work: `[n]`, what a client takes, in any unit; clients of about the same share a block, where one waits for all.
        None: neighbours share a block.
      device: `[n]`, the number of the device that a client must be computed on. Every device then gets all rows, and
        leaves out blocks in which it has no client. None: each device computes as many clients as the others.
      block: most clients a block holds; blocks are made as even as possible. None: as many as fit the cache of a CPU
        core, or the memory of an accelerator (`engine.side_by_side`).
      mesh: devices to spread clients over; None is one device.
      shared_spec: how `shared` lies on the mesh, whole if not given; a block gets all that its device holds.

    Returns:
      The sum of the summands, and `out` stacked to `[n, ...]` without the ghosts.
    """
    n, devices = num_rows(rows), mesh.size if mesh else 1
    local = math.ceil(n / devices) if device is None else n

    def in_blocks(
        most: int, shared: PyTree, rows: PyTree, work: Array | None, device: Array | None
    ) -> tuple[PyTree, PyTree]:
        here = jax.lax.axis_index(CLIENTS) if mesh else 0
        if device is None:
            sums, out = _run_blocks(fn, here * local + jnp.arange(local) < n, most, shared, rows, work)
        else:
            sums, out = _run_blocks(_unless_empty(fn), device == here, most, shared, rows, _last(work, device == here))
        return jax.lax.psum(sums, CLIENTS) if mesh else sums, out

    if block is not None:
        _validate.integer(block=block)
        shard = functools.partial(in_blocks, block)
    else:
        shard = side_by_side(in_blocks, row_bytes + _bytes_of_a_row(rows), local)
    if mesh is None:
        return shard(shared, rows, work, None)
    if device is None:
        rows, work = jax.tree.map(lambda a: _pad(a, local * devices), (rows, work))
    split = PartitionSpec(CLIENTS)
    of_rows = split if device is None else _WHOLE
    run = jax.shard_map(
        on_devices_of(mesh, shard), mesh=mesh, in_specs=(shared_spec, of_rows, of_rows, _WHOLE),
        out_specs=(_WHOLE, split), check_vma=False,
    )  # fmt: skip
    sums, out = run(shared, rows, work, device)
    place = slice(n) if device is None else device * n + jnp.arange(n)
    return sums, jax.tree.map(lambda a: a[place], out)


def _run_blocks(
    fn: Callable[..., tuple[PyTree, PyTree]],
    real: Array,
    most: int,
    shared: PyTree,
    rows: PyTree,
    work: Array | None,
) -> tuple[PyTree, PyTree]:
    """The rows of one device, of which those that are not `real` are ghosts, in blocks of at most `most`."""
    local = num_rows(rows)
    count = math.ceil(local / most)
    if count == 1:
        summand, out = fn(shared, real, *rows)
        return jax.tree.map(_from_zero, summand), out
    size = math.ceil(local / count)
    order = None if work is None else jnp.argsort(work, stable=True)
    part = lambda a, start: jax.lax.dynamic_slice_in_dim(a, start, size)

    @functools.partial(jax.jit, inline=True)  # traced once, for its shapes and for the loop
    def run(number: Array) -> tuple[PyTree, PyTree]:
        start = jnp.minimum(number * size, local - size)  # the last block reaches back over its neighbour
        place = start + jnp.arange(size)
        client = place if order is None else part(order, start)
        valid = (place >= number * size) & real[client]
        block = jax.tree.map(lambda a: part(a, start) if order is None else a[client], rows)
        return fn(shared, valid, *block)

    def body(sums: PyTree, number: Array) -> tuple[PyTree, PyTree]:
        summand, out = run(number)
        return jax.tree.map(jnp.add, sums, summand), out

    shapes = jax.eval_shape(run, jnp.int32(0))[0]
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    sums, out = jax.lax.scan(body, zeros, jnp.arange(count))
    out = jax.tree.map(lambda a: joined(a, local), out)
    if order is None:
        return sums, out
    back = jnp.argsort(order)
    return sums, jax.tree.map(lambda a: a[back], out)


def _unless_empty(fn: Callable[..., tuple[PyTree, PyTree]]) -> Callable[..., tuple[PyTree, PyTree]]:
    """`fn`, which is not computed for a block of ghosts alone."""

    def run(shared: PyTree, valid: Array, *block: PyTree) -> tuple[PyTree, PyTree]:
        zeros = lambda: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(fn, shared, valid, *block))
        return jax.lax.cond(valid.any(), lambda: fn(shared, valid, *block), zeros)

    return run


def _last(work: Array | None, mine: Array) -> Array:
    """By this the clients of a device are the last ones, in the order of their work, if any."""
    return jnp.where(mine, 0 if work is None else work, -1)


def _from_zero(summand: Array) -> Array:
    """0.0 for -0.0, as in a sum over several blocks."""
    return summand + jnp.zeros_like(summand) if jnp.issubdtype(summand.dtype, jnp.inexact) else summand


def _bytes_of_a_row(rows: PyTree) -> int:
    return sum(a.size // a.shape[0] * a.dtype.itemsize for a in jax.tree.leaves(rows))


def _pad(rows: Array, size: int) -> Array:
    """Repeats the last row, so that what padded rows compute is finite."""
    missing = size - rows.shape[0]
    return jnp.concatenate([rows, jnp.broadcast_to(rows[-1:], (missing, *rows.shape[1:]))]) if missing else rows
