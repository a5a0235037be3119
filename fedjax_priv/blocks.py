"""Clients in blocks, blocks over devices: memory is that of a block, and every core works.

Summands are added over blocks and devices, rows are stacked. Integer sums are the same for every block size and every
number of devices.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import CLIENTS, Algorithm, ClientData, Key


def clients_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """Mesh with one axis, `"clients"`, over the given JAX devices, or all of them."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (CLIENTS,))


def resolve_mesh(mesh: Mesh | Literal["auto"] | None) -> Mesh | None:
    """ "auto" is a mesh over all devices where there are several, and None where there is one.

    It is None as well where a device already works alone on its share of a larger program, as in a sweep.

    Raises:
      ValueError: neither of these, nor a mesh with the one automatic axis "clients".
    """
    if isinstance(mesh, str) and mesh == "auto":
        alone = jax.device_count() == 1 or jax.sharding.get_abstract_mesh().manual_axes
        return None if alone else clients_mesh()
    fits = isinstance(mesh, Mesh) and mesh.axis_names == (CLIENTS,) and mesh.axis_types == (AxisType.Auto,)
    if mesh is not None and not (fits and mesh.size):
        raise ValueError(f"mesh must be 'auto', None or a mesh as of clients_mesh(), got {mesh!r}")
    return mesh


def num_rows(rows: PyTree) -> int:
    """Length of the leading axis that all leaves share."""
    return jax.tree.leaves(rows)[0].shape[0]


def over_clients(
    fn: Callable[..., tuple[PyTree, PyTree]],
    shared: PyTree,
    rows: tuple[PyTree, ...],
    *,
    block: int,
    mesh: Mesh | None = None,
) -> tuple[PyTree, PyTree]:
    """Runs `fn` on blocks of at most `block` clients, spread over the devices of `mesh`.

    Args:
      fn: `(shared, valid [b], *rows [b, ...]) -> (summand, out [b, ...])`. Where `valid` is false the row is a ghost:
        it stands for no client, or for one that another block holds, and must add nothing to the summand. Arrays that
        depend on an earlier `over_clients` go through `shared`: JAX refuses a closure over them.
      shared: what every block is given whole.
      rows: pytrees of arrays `[n, ...]`.
      block: most clients a block holds; blocks are made as even as possible.
      mesh: devices to spread clients over; None is one device.

    Returns:
      The sum of the summands, and `out` stacked to `[n, ...]` without the ghosts.
    """
    _validate.integer(block=block)
    n, devices = num_rows(rows), mesh.size if mesh else 1
    local = math.ceil(n / devices)
    count = math.ceil(local / block)
    size = math.ceil(local / count)

    def shard(shared: PyTree, rows: PyTree) -> tuple[PyTree, PyTree]:
        first = jax.lax.axis_index(CLIENTS) * local if mesh else 0

        def run(number: Array) -> tuple[PyTree, PyTree]:
            start = jnp.minimum(number * size, local - size)  # the last block reaches back over its neighbour
            position = start + jnp.arange(size)
            valid = (position >= number * size) & (first + position < n)
            return fn(shared, valid, *jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), rows))

        def body(sums: PyTree, number: Array) -> tuple[PyTree, PyTree]:
            summand, out = run(number)
            return jax.tree.map(jnp.add, sums, summand), out

        shapes = jax.eval_shape(run, jnp.int32(0))[0]
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        sums, out = jax.lax.scan(body, zeros, jnp.arange(count))
        return jax.lax.psum(sums, CLIENTS) if mesh else sums, jax.tree.map(lambda a: _unblock(a, local), out)

    if mesh is None:
        return shard(shared, rows)
    rows = jax.tree.map(lambda a: _pad(a, local * devices), rows)
    split = PartitionSpec(CLIENTS)
    run = jax.shard_map(
        shard, mesh=mesh, in_specs=(PartitionSpec(), split), out_specs=(PartitionSpec(), split), check_vma=False
    )
    sums, out = run(shared, rows)
    return sums, jax.tree.map(lambda a: a[:n], out)


def _pad(rows: Array, size: int) -> Array:
    """Repeats the last row, so that what ghosts compute is finite."""
    missing = size - rows.shape[0]
    return jnp.concatenate([rows, jnp.broadcast_to(rows[-1:], (missing, *rows.shape[1:]))]) if missing else rows


def _unblock(blocks: Array, local: int) -> Array:
    """`[blocks, size, ...] -> [local, ...]`, without the rows the last block shares with its neighbour."""
    count, size = blocks.shape[:2]
    flat = blocks.reshape(count * size, *blocks.shape[2:])
    twice = count * size - local
    return jnp.concatenate([flat[: (count - 1) * size], flat[(count - 1) * size + twice :]]) if twice else flat


_fastest: dict = {}

CLEARLY = 0.95
"""A larger block is worth its memory if it takes at most this share of the time."""


def fastest_block(algorithm: Algorithm, key: Key, params: PyTree, data: ClientData) -> Algorithm:
    """Times one round in blocks of several sizes and returns the system with the fastest; remembers it.

    Doubles the block from 4 as long as a round gets clearly faster, since memory grows with it, and tries 2 and 1 if 4
    was the best. Runs on the host, outside jit: what it does is run `algorithm.step`.

    Raises:
      ValueError: the block of `algorithm` was already chosen.
    """
    if algorithm.in_blocks is None:
        raise ValueError("algorithm must have been made with block='auto'; this one has a block size already")
    shapes = tuple((a.shape, str(a.dtype)) for a in jax.tree.leaves((params, data)))
    remembered = (algorithm.in_blocks, shapes)
    if remembered not in _fastest:
        _fastest[remembered] = _measure(algorithm.in_blocks, key, params, data, algorithm.mesh)
    return algorithm.in_blocks(_fastest[remembered])


def _measure(in_blocks: Callable[[int], Algorithm], key: Key, params: PyTree, data: ClientData, mesh: Mesh | None):
    most = math.ceil(num_rows(data) / (mesh.size if mesh else 1))
    seconds: dict[int, float] = {}

    def faster(block: int, best: int, enough: float) -> bool:
        seconds[block] = _seconds_of_a_round(in_blocks(block), key, params, data)
        return seconds[block] < enough * seconds[best]

    start = best = min(4, most)
    seconds[best] = _seconds_of_a_round(in_blocks(best), key, params, data)
    while best < most and faster(block := min(2 * best, most), best, CLEARLY):
        best = block
    while best == start > 1 and faster(block := start // 2, best, 1.0):
        start = best = block
    return best


def _seconds_of_a_round(algorithm: Algorithm, key: Key, params: PyTree, data: ClientData) -> float:
    state = algorithm.init(key, params, data)
    step = jax.jit(algorithm.step)
    jax.block_until_ready(step(key, state, data))

    def once() -> float:
        start = time.perf_counter()
        jax.block_until_ready(step(key, state, data))
        return time.perf_counter() - start

    return statistics.median(once() for _ in range(3))
