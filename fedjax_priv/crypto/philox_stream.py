"""Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), and the streams made of it.

The key is the seed, and the counter is (block, CRC-32 of the purpose's name, round, part): two rounds never use the
same counter, nor do two parts of a stream, nor two purposes whose names differ in their CRC-32.
"""

import zlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Integer, UInt32

from fedjax_priv.crypto import field
from fedjax_priv.engine.side_by_side import by_platform

Seed = UInt32[Array, "2 *seeds"]
Round = int | Integer[Array, ""]

_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
MANY = 4096
"""From so many words of one seed on, blocks are laid out in four rows. It is an order like any other, but runs depend
on it.
"""


@jax.jit  # traced once per shape in a program
def philox4x32(counter: tuple[Array, ...], key: tuple[Array, ...]) -> tuple[Array, ...]:
    """Ten rounds of Philox: four counter words and two key words, uint32 of one shape or scalars, give four words."""
    alike = sum(jnp.zeros_like(word) for word in (*counter, *key))  # gives all words one shape and placement
    state = tuple(word + alike for word in counter), tuple(word + alike for word in key)
    for _ in range(10):
        state = _round(*state)
    return state[0]


def _round(counter: tuple[Array, ...], key: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The next counter and the next key."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    high0, low0 = field.product(c0, _MULTIPLIERS[0])
    high1, low1 = field.product(c2, _MULTIPLIERS[1])
    xor = lax.bitwise_xor  # `^` takes several times as long to trace
    c0, c2 = xor(xor(high1, c1), k0), xor(xor(high0, c3), k1)
    return (c0, low1, c2, low0), (k0 + _WEYL[0], k1 + _WEYL[1])


def layout(count: int, *, alone: bool = True) -> tuple[int, int]:
    """Rows and columns of the blocks of a stream of `count` words, of one seed alone or of several side by side.

    Words are in the order of rows; in a row the first words of all blocks, then the second words, and so on.
    """
    rows = 4 if alone and count >= MANY else 1
    return rows, -(-count // (4 * rows))


def blocks(
    number: Array, seed: Seed | tuple[Array, Array], purpose: str, round: Round, part: Round = 0
) -> tuple[Array, ...]:
    """The four words of each block of a stream: `number` and the two halves of `seed` have shapes that broadcast."""
    tag, round, part = (
        jnp.asarray(n).astype(jnp.uint32) for n in (np.uint32(zlib.crc32(purpose.encode())), round, part)
    )
    return philox4x32((number, tag, round, part), (seed[0], seed[1]))


def words(seed: Seed, purpose: str, round: Round, count: int, part: Round = 0) -> Array:
    """The stream of each seed, uint32 `[count, *seeds]`."""
    rows, columns = layout(count, alone=seed.ndim == 1)
    first = jnp.arange(rows, dtype=jnp.uint32) * np.uint32(columns)
    lanes = runs_of_blocks(first, columns, seed, purpose, round, part)
    return jnp.concatenate(lanes, axis=1).reshape(-1, *seed.shape[1:])[:count]


def runs_of_blocks(
    first: UInt32[Array, " r"], length: int, seed: Seed, purpose: str, round: Round, part: Round = 0
) -> tuple[Array, ...]:
    """The four words of the blocks in runs that start at `first`, `[r, length, *seeds]`; each is written to memory."""

    def words_of(column: Array) -> tuple[Array, ...]:
        number = first.reshape(-1, *(1,) * column.ndim) + column[None]
        wide = seed.reshape(2, *(1,) * number.ndim, *seed.shape[1:])
        return blocks(number[(..., *(None,) * (seed.ndim - 1))], wide, purpose, round, part)

    at_once = lambda: words_of(jnp.arange(length, dtype=jnp.uint32))
    return by_platform(lambda: _in_one_loop(length, words_of), at_once)


def _in_one_loop(length: int, words_of: Callable[[Array], tuple[Array, ...]]) -> tuple[Array, ...]:
    """The four words of a block from one evaluation of Philox.

    XLA on a CPU writes several arrays in one loop only where they are results of one reduction; else it runs Philox for
    each of the four. So both halves of a run are "summed", each with zeros of the other.
    """
    half = -(-length // 2)
    start = jnp.array([[0], [length - half]], jnp.uint32)  # halves share a block if their number is odd
    lanes = words_of(start + jnp.arange(half, dtype=jnp.uint32)[None])
    place = lax.broadcasted_iota(jnp.int32, lanes[0].shape, 1)
    alone = [jnp.where(place == h, lane, 0) for lane in lanes for h in (0, 1)]
    sums = add_together(alone, 1)
    joined = zip(sums[::2], sums[1::2], strict=True)
    return tuple(jnp.concatenate([first[:, : length - half], second], 1) for first, second in joined)


def add_together(terms: list[Array], axis: int) -> tuple[Array, ...]:
    """Sums of several uint32 arrays of one shape along an axis, from one loop over all of them."""
    add = lambda sums, terms: tuple(a + b for a, b in zip(sums, terms, strict=True))
    return tuple(lax.reduce(terms, [np.uint32(0)] * len(terms), add, (axis,)))
