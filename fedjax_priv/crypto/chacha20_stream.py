"""ChaCha20 (Bernstein 2008) as in RFC 8439, section 2.3, and the streams made of it.

The key is the seed, eight words; the block counter is the number of the block, and the nonce is (CRC-32 of the
purpose's name, round, part). There is no multiplication in it: additions, rotations and exclusive or of 32-bit words.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from fedjax_priv.crypto.block_stream import BlockStream

_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4")
_COLUMNS = (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)
_DIAGONALS = (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)


@functools.partial(jax.jit, static_argnames="rolled")  # traced once per shape in a program
def chacha20(
    key: tuple[Array, ...], counter: Array, nonce: tuple[Array, ...], *, rolled: bool = False
) -> tuple[Array, ...]:
    """The block function: 8 key words, the block counter and 3 nonce words, uint32 of one shape or scalars.

    Args:
      key: of 256 bits.
      counter: number of the block.
      nonce: of 96 bits.
      rolled: a loop over the rounds, which compiles ten times as fast and runs several times as long.

    Returns:
      The 16 words of the block. The bytes of the RFC are those of the words, the lowest byte first.

    Examples:
      >>> zero = jnp.uint32(0)
      >>> print(f"{chacha20((zero,) * 8, zero, (zero,) * 3)[0]:08x}")  # RFC 8439, appendix A.1, vector 1
      ade0b876
    """
    given = (*key, counter, *nonce)
    alike = sum(jnp.zeros_like(word) for word in given)  # gives all words one shape and placement
    start = [word + alike for word in (*_CONSTANTS, *given)]
    if rolled:
        state = lax.fori_loop(0, 10, lambda _, state: _double_round(state), start)
    else:
        state = functools.reduce(lambda state, _: _double_round(state), range(10), start)
    return tuple(lax.add(a, b) for a, b in zip(state, start, strict=True))


def _double_round(state: list[Array]) -> list[Array]:
    state = list(state)
    for places in (*_COLUMNS, *_DIAGONALS):
        changed = quarter_round(*(state[place] for place in places))
        for place, word in zip(places, changed, strict=True):
            state[place] = word
    return state


def quarter_round(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array, Array, Array]:
    """RFC 8439, section 2.1."""
    a = lax.add(a, b)
    d = _rotated(lax.bitwise_xor(d, a), 16)
    c = lax.add(c, d)
    b = _rotated(lax.bitwise_xor(b, c), 12)
    a = lax.add(a, b)
    d = _rotated(lax.bitwise_xor(d, a), 8)
    c = lax.add(c, d)
    b = _rotated(lax.bitwise_xor(b, c), 7)
    return a, b, c, d


def _rotated(word: Array, left: int) -> Array:
    """By `lax`, as operators take several times as long to trace."""
    by = lambda bits: lax.full_like(word, bits)
    return lax.bitwise_or(lax.shift_left(word, by(left)), lax.shift_right_logical(word, by(32 - left)))


def _block(number: Array, tag: Array, round: Array, part: Array, seed: tuple, **how: bool) -> tuple[Array, ...]:
    return chacha20(seed, number, (tag, round, part), **how)


STREAM = BlockStream(_block, lanes=16, rows=8, parts=4, brief=functools.partial(_block, rolled=True))
"""Blocks of 16 words, from a seed of eight."""
