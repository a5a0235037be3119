"""Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), and the streams made of it.

The key is the seed, two words, and the counter is (block, CRC-32 of the purpose's name, round, part).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from fedjax_priv.crypto import field
from fedjax_priv.crypto.block_stream import BlockStream

_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


@functools.partial(jax.jit, static_argnames="rolled")  # traced once per shape in a program
def philox4x32(counter: tuple[Array, ...], key: tuple[Array, ...], rolled: bool = False) -> tuple[Array, ...]:
    """Ten rounds of Philox: four counter words and two key words, uint32 of one shape or scalars, give four words.

    Args:
      rolled: in a loop, which is a tenth to compile and takes longer for many words.
    """
    alike = sum(jnp.zeros_like(word) for word in (*counter, *key))  # gives all words one shape and placement
    counter, key = (tuple(word + alike for word in words) for words in (counter, key))
    if rolled:
        passed = lambda number: tuple(word * number.astype(jnp.uint32) for word in _WEYL)
        return lax.fori_loop(0, 10, lambda number, counter: _round(counter, key, passed(number)), counter)
    for number in range(10):
        counter = _round(counter, key, tuple(np.multiply(_WEYL, number, dtype=np.uint32)))
    return counter


@jax.jit  # traced and lowered once for ten
def _round(counter: tuple[Array, ...], key: tuple[Array, ...], passed: tuple[Array, ...]) -> tuple[Array, ...]:
    """The next counter. `passed` is what to add to the first key: XLA folds such sums at once, a chain one by one."""
    (c0, c1, c2, c3), (k0, k1) = counter, (word + more for word, more in zip(key, passed, strict=True))
    high0, low0 = field.product(c0, _MULTIPLIERS[0])
    high1, low1 = field.product(c2, _MULTIPLIERS[1])
    xor = lax.bitwise_xor  # `^` takes several times as long to trace
    c0, c2 = xor(xor(high1, c1), k0), xor(xor(high0, c3), k1)
    return c0, low1, c2, low0


def _block(
    number: Array, tag: Array, round: Array, part: Array, seed: tuple[Array, ...], rolled: bool = False
) -> tuple[Array, ...]:
    return philox4x32((number, tag, round, part), seed, rolled)


STREAM = BlockStream(_block, lanes=4, rows=4, parts=2, brief=functools.partial(_block, rolled=True))
"""Blocks of four words, from a seed of two."""
