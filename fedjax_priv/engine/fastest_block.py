"""The fastest number of clients in a block, measured."""

import math
import statistics
import time
from collections.abc import Callable

import jax
from jax.sharding import Mesh
from jaxtyping import PyTree

from fedjax_priv.base import Algorithm, ClientData, Key
from fedjax_priv.engine.blocks import num_rows

_fastest: dict = {}

CLEARLY = 0.95
"""A larger block is worth its memory if a round takes at most this fraction of the time."""


def fastest_block(algorithm: Algorithm, key: Key, params: PyTree, data: ClientData) -> Algorithm:
    """Times one round in blocks of several sizes, returns the system with the fastest, and remembers it.

    Doubles the block from 4 as long as a round gets clearly faster, since memory grows with it, and tries 2 and 1 if 4
    was the best. It runs `algorithm.step` on the host, outside jit.

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
