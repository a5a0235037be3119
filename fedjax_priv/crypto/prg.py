"""Pseudorandom words from a seed, independent for each purpose and round.

`philox` and `threefry` are simulation-grade: their streams look random, but neither is claimed to resist an adversary,
and a seed has 64 bits. `chacha20` is the cipher of RFC 8439 with a seed of 256 bits.
"""

import math
import zlib
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt32

from fedjax_priv._validate import integer, one_of
from fedjax_priv.base import Key
from fedjax_priv.crypto import chacha20_stream, field, philox_stream
from fedjax_priv.crypto.block_stream import BlockStream, Round, Seed

SHARED_BY = 32
"""Words per spare word: more of them cost less and leave a larger bias, see `expand`."""


class Prg(NamedTuple):
    """A generator of raw words.

    The word at a position may depend on `count`, so both ends of a mask must ask for the same number.
    """

    words: Callable[..., Array]  # (seed [s, *seeds], purpose, round, count, part=0) -> uint32 [count, *seeds]
    seed_words: int = 2  # s
    stream: BlockStream | None = None  # whose `words` they are; None: they are not made in blocks


def _threefry_words(seed: Seed, purpose: str, round: Round, count: int, part: Round = 0) -> Array:
    if seed.ndim > 1:
        return jax.vmap(lambda s: _threefry_words(s, purpose, round, count, part), 1, 1)(seed)
    key = jax.random.wrap_key_data(seed, impl="threefry2x32")
    for number in (np.uint32(zlib.crc32(purpose.encode())), round, part):
        key = jax.random.fold_in(key, number)
    return jax.random.bits(key, (count,), jnp.uint32)


philox = Prg(philox_stream.STREAM.words, 2, philox_stream.STREAM)
threefry = Prg(_threefry_words)
chacha20 = Prg(chacha20_stream.STREAM.words, 8, chacha20_stream.STREAM)

GeneratorName = Literal["philox", "threefry", "chacha20"]
_NAMED = {"philox": philox, "threefry": threefry, "chacha20": chacha20}


def generator(prg: Prg | GeneratorName) -> Prg:
    """A generator by its name, or as it is.

    Raises:
      ValueError: there is none of this name, or JAX computes with 64 bits.

    Examples:
      >>> generator("chacha20").seed_words
      8
    """
    if jax.config.values["jax_enable_x64"]:
        raise ValueError("jax_enable_x64 must be False where masks are added, which are words of 32 bits, got True")
    if isinstance(prg, Prg):
        return prg
    one_of(_NAMED, prg=prg)
    return _NAMED[prg]


def seed_of(key: Key) -> Seed:
    """A seed of two words, from a key of any kind."""
    return jax.random.bits(key, (2,), jnp.uint32)


def bits(key: Key, purpose: str, shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """Random words of a key, uint32 `shape`, by Philox.

    On a CPU `jax.random.bits` takes several times as long for many words: it computes them in a loop over arrays.

    Examples:
      >>> bits(jax.random.key(0), "ranks", (2, 3)).shape
      (2, 3)
    """
    return philox.words(seed_of(key), purpose, 0, math.prod(shape)).reshape(shape)


def signs(seed: UInt32[Array, "2"], purpose: str, count: int) -> Float[Array, " count"]:
    """Random signs, from the lowest bits of words."""
    return 1 - 2 * (philox.words(seed, purpose, 0, count) & 1).astype(jnp.float32)


def elements(word: UInt32[Array, "*n"], spare: UInt32[Array, "*n"]) -> Array:
    """Field elements from two random words each, within 2**-59 of uniform: see `expand`."""
    return jnp.where(word < field.Q, word, field.canonical(spare))


def replace_outside(words: UInt32[Array, "d *seeds"], spare: UInt32[Array, "s *seeds"]) -> Array:
    """Replaces words outside the field by the spare word of their run of 32 words."""
    shared = jnp.repeat(field.canonical(spare), SHARED_BY, axis=0)[: len(words)]
    return jnp.where(words >= field.Q, shared, words)


def expand(seed: Seed, purpose: str, round: Round, d: int, prg: Prg | None = None, part: Round = 0) -> Array:
    """Elements of F_q, uint32 [d, *seeds], uniform if the words of the generator are.

    Of 2**32 words 5 lie outside the field. Folding them back to 0..4 would leave a bias of 5 / 2**32 = 2**-29.7 in each
    element. Instead, such a word is replaced by a spare word, one per 32 words; only a spare word that is outside the
    field too is folded, with probability e**2 for e = 5 / 2**32. Each element is then within e**2 = 2**-59.3 of uniform
    in total variation, and all d together within d (1 + 31 / 2) e**2 < d 2**-55, the probability that a word and its
    spare, or two words with the same spare, lie outside. For two million elements that is below 2**-34. The cost is one
    word more in 32.

    Args:
      seed: words, as many as the generator takes, `[s]`, or several seeds side by side, `[s, *seeds]`, which is
        cheaper for few words each. The two forms may order the words of a seed differently.
      purpose: names the domain; any string, static.
      round: number of the round; may be traced.
      d: number of elements, >= 1; the elements for a smaller `d` are not a prefix.
      prg: the generator; the one for seeds of this length if not given, `philox` for two words, else `chacha20`.
      part: number of the part, of a stream read in parts; may be traced.

    Raises:
      ValueError: `d` is not an integer >= 1.
    """
    integer(d=d)
    prg = (philox if len(seed) == philox.seed_words else chacha20) if prg is None else prg
    # Without the barrier, XLA on a CPU recomputes a spare word for each of its 32 words.
    words = lax.optimization_barrier(prg.words(seed, purpose, round, d + -(-d // SHARED_BY), part))
    return replace_outside(words[:d], words[d:])
