"""Pseudorandom words from a seed of two field elements, independent for each purpose and round.

Simulation-grade: the streams look random, but neither generator is claimed to resist an adversary, and a seed has 64
bits. Philox is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Its key is the
seed, and its counter is (block, CRC-32 of the purpose's name, round, part): two rounds never use the same counter, nor
do two parts of a stream, nor two purposes whose names differ in their CRC-32.
"""

import functools
import zlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Integer, UInt32

from fedjax_priv._validate import integer
from fedjax_priv.crypto import field

Seed = UInt32[Array, "2 *seeds"]
Round = int | Integer[Array, ""]

_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_ROWS, _MANY = 4, 4096
"""From `_MANY` words on, Philox blocks are laid out in `_ROWS` rows. It is an order like any other, but runs depend on
it."""
_SHARED_BY = 32
"""Words per spare word: more of them cost less and leave a larger bias, see `expand`."""


class Prg(NamedTuple):
    """A generator of raw words.

    The word at a position may depend on `count`, so both ends of a mask must ask for the same number.
    """

    words: Callable[..., Array]  # (seed [2, *seeds], purpose, round, count, part=0) -> uint32 [count, *seeds]


@jax.jit  # traced once per shape in a program
def philox4x32(counter: tuple[Array, ...], key: tuple[Array, ...]) -> tuple[Array, ...]:
    """Ten rounds of Philox: four counter words and two key words, uint32 of one shape or scalars, give four words."""
    alike = sum(jnp.zeros_like(word) for word in (*counter, *key))  # gives all words one shape and placement
    state = tuple(word + alike for word in counter), tuple(word + alike for word in key)
    for _ in range(10):
        state = _philox_round(*state)
    return state[0]


def _philox_round(counter: tuple[Array, ...], key: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The next counter and the next key."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    high0, low0 = field.product(c0, _MULTIPLIERS[0])
    high1, low1 = field.product(c2, _MULTIPLIERS[1])
    return (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0), (k0 + _WEYL[0], k1 + _WEYL[1])


def _tag(purpose: str) -> np.uint32:
    return np.uint32(zlib.crc32(purpose.encode()))


def _philox_words(seed: Seed, purpose: str, round: Round, count: int, part: Round = 0) -> Array:
    """Row by row, first words of all blocks, then second words, ...: interleaving is 8 times slower on a CPU."""
    rows = _ROWS if seed.ndim == 1 and count >= _MANY else 1
    columns = -(-count // (4 * rows))
    tag, round, part = (jnp.asarray(number).astype(jnp.uint32) for number in (_tag(purpose), round, part))

    def words_of(column: Array) -> tuple[Array, ...]:
        row = jnp.arange(rows, dtype=jnp.uint32).reshape(-1, *(1,) * column.ndim)
        block = (row * np.uint32(columns) + column[None])[(..., *(None,) * (seed.ndim - 1))]
        return philox4x32((block, tag, round, part), tuple(limb[(None,) * (column.ndim + 1)] for limb in seed))

    forms = functools.partial(_in_one_loop, columns, words_of), functools.partial(_as_they_are, columns, words_of)
    words = lax.platform_dependent(cpu=forms[0], default=forms[1])
    return jnp.concatenate(words, axis=1).reshape(-1, *seed.shape[1:])[:count]


def _as_they_are(columns: int, words_of: Callable[[Array], tuple[Array, ...]]) -> tuple[Array, ...]:
    return words_of(jnp.arange(columns, dtype=jnp.uint32))


def _in_one_loop(columns: int, words_of: Callable[[Array], tuple[Array, ...]]) -> tuple[Array, ...]:
    """The four words of a block from one evaluation of Philox.

    XLA on a CPU writes several arrays in one loop only where they are results of one reduction; else it runs Philox for
    each of the four. So both halves of the columns are "summed", each with zeros of the other.
    """
    half = -(-columns // 2)
    start = jnp.array([[0], [columns - half]], jnp.uint32)  # halves share a column if their number is odd
    words = words_of(start + jnp.arange(half, dtype=jnp.uint32)[None])
    place = lax.broadcasted_iota(jnp.int32, words[0].shape, 1)
    alone = [jnp.where(place == h, word, 0) for word in words for h in (0, 1)]
    add = lambda sums, terms: tuple(a | b for a, b in zip(sums, terms, strict=True))
    sums = lax.reduce(alone, [np.uint32(0)] * len(alone), add, (1,))
    return tuple(
        jnp.concatenate([first[:, : columns - half], second], 1)
        for first, second in zip(sums[::2], sums[1::2], strict=True)
    )


def _threefry_words(seed: Seed, purpose: str, round: Round, count: int, part: Round = 0) -> Array:
    if seed.ndim > 1:
        return jax.vmap(lambda s: _threefry_words(s, purpose, round, count, part), 1, 1)(seed)
    key = jax.random.wrap_key_data(seed, impl="threefry2x32")
    for number in (_tag(purpose), round, part):
        key = jax.random.fold_in(key, number)
    return jax.random.bits(key, (count,), jnp.uint32)


philox = Prg(_philox_words)
threefry = Prg(_threefry_words)


def replace_outside(words: UInt32[Array, "d *seeds"], spare: UInt32[Array, "s *seeds"]) -> Array:
    """Replaces words outside the field by the spare word of their run of 32 words."""
    shared = jnp.repeat(field.canonical(spare), _SHARED_BY, axis=0)[: len(words)]
    return jnp.where(words >= field.Q, shared, words)


def expand(seed: Seed, purpose: str, round: Round, d: int, prg: Prg = philox, part: Round = 0) -> Array:
    """Elements of F_q, uint32 [d, *seeds], uniform if the words of the generator are.

    Of 2**32 words 5 lie outside the field. Folding them back to 0..4 would leave a bias of 5 / 2**32 = 2**-29.7 in each
    element. Instead, such a word is replaced by a spare word, one per 32 words; only a spare word that is outside the
    field too is folded, with probability e**2 for e = 5 / 2**32. Each element is then within e**2 = 2**-59.3 of uniform
    in total variation, and all d together within d (1 + 31 / 2) e**2 < d 2**-55, the probability that a word and its
    spare, or two words with the same spare, lie outside. For two million elements that is below 2**-34. The cost is one
    word more in 32.

    Args:
      seed: two field elements, `[2]`, or several seeds side by side, `[2, *seeds]`, which is cheaper for few words
        each. The two forms may order the words of a seed differently.
      purpose: names the domain; any string, static.
      round: number of the round; may be traced.
      d: number of elements, >= 1; the elements for a smaller `d` are not a prefix.
      prg: the generator.
      part: number of the part, of a stream read in parts; may be traced.

    Raises:
      ValueError: `d` is not an integer >= 1.
    """
    integer(d=d)
    # Without the barrier, XLA on a CPU recomputes a spare word for each of its 32 words.
    words = lax.optimization_barrier(prg.words(seed, purpose, round, d + -(-d // _SHARED_BY), part))
    return replace_outside(words[:d], words[d:])
