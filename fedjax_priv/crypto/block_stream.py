"""Streams of a generator that makes words in blocks, from a seed and a counter; which blocks, and in what order.

The counter names the block, the purpose (by the CRC-32 of its name), the round and the part: two rounds never use the
same counter, nor do two parts of a stream, nor two purposes whose names differ in their CRC-32.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Integer, UInt32

from fedjax_priv.engine.side_by_side import by_platform

Seed = UInt32[Array, "s *seeds"]
Round = int | Integer[Array, ""]

MANY = 4096
"""From so many words of one seed on, blocks are laid out in several rows. It is an order like any other, but runs
depend on it.
"""
FEW = 256
"""Fewer blocks side by side take longer to compile than to compute."""


class BlockStream(NamedTuple):
    """A generator of blocks of words."""

    cipher: Callable[..., tuple[Array, ...]]  # (number, tag, round, part, seed: tuple of words) -> words of the block
    lanes: int  # words of a block
    rows: int  # of blocks, in streams of `MANY` words or more
    parts: int  # in which a CPU computes a run of blocks
    brief: Callable[..., tuple[Array, ...]] | None = None  # `cipher` for few blocks on a CPU: it compiles faster

    def layout(self, count: int, *, alone: bool = True) -> tuple[int, int]:
        """Rows and columns of the blocks of a stream of `count` words, of one seed alone or of several side by side.

        Words are in the order of rows; in a row the first words of all blocks, then the second words, and so on.
        """
        rows = self.rows if alone and count >= MANY else 1
        return rows, -(-count // (self.lanes * rows))

    def blocks(self, number: Array, seed: Seed | tuple[Array, ...], purpose: str, round: Round) -> tuple[Array, ...]:
        """The words of each block of a stream: `number` and the words of `seed` have shapes that broadcast."""
        return self._blocks(self.cipher, number, seed, purpose, round, 0)

    def _blocks(
        self, cipher: Callable, number: Array, seed: Seed | tuple[Array, ...], purpose: str, round: Round, part: Round
    ) -> tuple[Array, ...]:
        tag, round, part = (
            jnp.asarray(n).astype(jnp.uint32) for n in (np.uint32(zlib.crc32(purpose.encode())), round, part)
        )
        return cipher(number, tag, round, part, tuple(seed[i] for i in range(len(seed))))

    def words(self, seed: Seed, purpose: str, round: Round, count: int, part: Round = 0) -> Array:
        """The stream of each seed, uint32 `[count, *seeds]`."""
        rows, columns = self.layout(count, alone=seed.ndim == 1)
        first = jnp.arange(rows, dtype=jnp.uint32) * np.uint32(columns)
        lanes = self.runs_of_blocks(first, columns, seed, purpose, round, part)
        return jnp.concatenate(lanes, axis=1).reshape(-1, *seed.shape[1:])[:count]

    def runs_of_blocks(
        self, first: UInt32[Array, " r"], length: int, seed: Seed, purpose: str, round: Round, part: Round = 0
    ) -> tuple[Array, ...]:
        """The words of the blocks in runs that start at `first`, `[r, length, *seeds]`; each is written to memory."""

        def words_of(column: Array, cipher: Callable = self.cipher) -> tuple[Array, ...]:
            number = first.reshape(-1, *(1,) * column.ndim) + column[None]
            wide = seed.reshape(len(seed), *(1,) * number.ndim, *seed.shape[1:])
            return self._blocks(cipher, number[(..., *(None,) * (seed.ndim - 1))], wide, purpose, round, part)

        column = lambda: jnp.arange(length, dtype=jnp.uint32)
        brief = self.brief
        # Parts that are the same block again leave the loop, and XLA evaluates the cipher for each word.
        few = length < self.parts or first.size * length * seed[0].size < FEW
        if brief is not None and few:
            on_cpu = lambda: words_of(column(), brief)
        else:
            on_cpu = lambda: _in_one_loop(length, words_of, self.parts)
        return by_platform(on_cpu, lambda: words_of(column()))


def _in_one_loop(length: int, words_of: Callable[[Array], tuple[Array, ...]], parts: int) -> tuple[Array, ...]:
    """The words of a block from one evaluation of its cipher.

    XLA on a CPU writes several arrays in one loop only where they are results of one reduction; else it evaluates the
    cipher for each of them. So the parts of a run are "summed", each with zeros of the others.
    """
    size = -(-length // parts)
    start = np.minimum(np.arange(parts) * size, length - size)  # parts share blocks if their number does not divide
    lanes = words_of(jnp.asarray(start[:, None], jnp.uint32) + jnp.arange(size, dtype=jnp.uint32)[None])
    place = lax.broadcasted_iota(jnp.int32, lanes[0].shape, 1)
    sums = add_together([jnp.where(place == p, lane, 0) for lane in lanes for p in range(parts)], 1)
    kept = [*np.diff(start), size]
    pieces = [piece[:, : kept[number % parts]] for number, piece in enumerate(sums)]
    return tuple(jnp.concatenate(pieces[i : i + parts], 1) for i in range(0, len(pieces), parts))


def add_together(terms: list[Array], axis: int) -> tuple[Array, ...]:
    """Sums of several uint32 arrays of one shape along an axis, from one loop over all of them."""
    add = lambda sums, terms: tuple(a + b for a, b in zip(sums, terms, strict=True))
    return tuple(lax.reduce(terms, [np.uint32(0)] * len(terms), add, (axis,)))
