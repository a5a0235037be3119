"""Random coordinates: distinct and uniform, without sorting all of them."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Key
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.keys import each_named

TOLERANCE = 2.0**-40
"""Distance in total variation from a uniform set of coordinates, for ideal random bits."""
AT_ONCE = 8
"""Rounds of the shuffle that are one kernel on a GPU or TPU: it starts far fewer, and compiles in as little time."""


def random_coordinates(key: Key, num_params: int, k: int) -> Int32[Array, " k"]:
    """`k` distinct numbers below `num_params`; all sets of `k` are equally likely.

    They are the images of 0 to k - 1 under the swap-or-not shuffle (Hoang, Morris, Rogaway: "An enciphering scheme
    based on a card shuffle", CRYPTO 2012), a permutation that costs O(k log num_params) to evaluate at k points. A
    round pairs x with K - x modulo num_params for a random K, and swaps each pair or not by a random bit. The bits are
    hashes of 32-bit words: simulation-grade, as the generators of `crypto.prg`.

    Args:
      key: a typed key.
      num_params: number of coordinates, d, below 2**31.
      k: coordinates to draw, at most d.

    Returns:
      The coordinates, in no particular order.

    Raises:
      ValueError: `num_params` or `k` is not an integer >= 1, or is too large.
    """
    check_sizes(num_params, k=k)
    count = num_rounds(num_params, k)
    keys = each_named(key, ("salt", "pairing"))
    salts = jax.random.bits(keys["salt"], (count,), jnp.uint32)
    pairing = jax.random.randint(keys["pairing"], (count,), 0, num_params).astype(jnp.uint32)

    def shuffle(x: Array, draw: tuple[Array, Array]) -> tuple[Array, None]:
        pairing, salt = draw
        partner = jnp.where(x <= pairing, pairing - x, pairing + jnp.uint32(num_params) - x)
        return jnp.where(_bit(jnp.maximum(x, partner), salt), partner, x), None

    even = jnp.arange(k + k % 2, dtype=jnp.uint32)  # loops of odd length are 40 times slower in XLA of JAX 0.10
    shuffled = lambda unroll: jax.lax.scan(shuffle, even, (pairing, salts), unroll=unroll)[0]
    return by_platform(lambda: shuffled(1), lambda: shuffled(AT_ONCE))[:k].astype(jnp.int32)


def num_rounds(num_params: int, k: int) -> int:
    """Rounds that bring the set within `TOLERANCE` of uniform, by the bound of Hoang, Morris and Rogaway.

    After r rounds q values are within 2 d**1.5 / (r + 2) ((q + d) / (2 d))**(r/2 + 1) of q draws without replacement. A
    set is as far from uniform as its complement, so q is the smaller of `k` and `d - k`.
    """
    shrinks = math.log((min(k, num_params - k) + num_params) / (2 * num_params))
    rounds = 1
    while math.log(2 / (rounds + 2)) + 1.5 * math.log(num_params) + (rounds / 2 + 1) * shrinks > math.log(TOLERANCE):
        rounds += 1
    return rounds


def check_sizes(num_params: int, **k: int) -> int:
    """d as Python's integer; ValueError unless 1 <= k <= num_params < 2**31, where k is given by its name."""
    ((name, number),) = k.items()
    num_params = _validate.integer(**k, num_params=num_params)
    if num_params >= 2**31:
        raise ValueError(f"num_params must be an integer below 2**31, got {num_params}")
    if number > num_params:
        raise ValueError(f"{name} must be at most num_params = {num_params}, got {number}")
    return num_params


def _bit(words: UInt32[Array, " k"], salt: UInt32[Array, ""]) -> Array:
    """A random bit per word: the highest of a hash (two rounds of xor, shift and multiply) of word xor salt."""
    mixed = words ^ salt
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x21F0AAAD)
    mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(0x735A2D97)
    return (mixed ^ (mixed >> 15)) >> 31 == 1
