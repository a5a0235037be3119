"""A generator that is linear in its seed up to small errors: `G(s) = A s + e` over F_q (learning with errors).

`G(s) + G(s')` is `G(s + s')` with the sum of the errors.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Int32, UInt32

from fedjax_priv import _validate
from fedjax_priv.crypto import field, matrix
from fedjax_priv.crypto.prg import Prg, expand, philox

BAND = 1024
"""Rows of A that are held at once."""
MOST_COINS = 32
"""Coins of each sign in an error: bits of a word."""


def check_coins(coins: int) -> None:
    """Raises ValueError unless it is an integer from 0 to `MOST_COINS`."""
    _validate.integer(at_least=0, coins=coins)
    if coins > MOST_COINS:
        raise ValueError(f"coins must be at most the bits of a word = {MOST_COINS}, got {coins}")


def noiseless(secrets: UInt32[Array, "b k"], round: Array, d: int, prg: Prg = philox) -> UInt32[Array, "b d"]:
    """`A s` of each secret, for the public A `[d, k]` of a round: words of a seed that everybody knows.

    Ideal hardness: `A s + e` is taken to be as good as uniform. It is simulation-grade; the security of no length k is
    estimated. `A s` alone hides nothing from who knows k of the d numbers it masks.
    """
    bands = -(-d // BAND)
    band = lambda part: matrix.matmul(secrets, public_matrix(round, part, secrets.shape[1], prg))
    return jnp.moveaxis(lax.map(band, jnp.arange(bands)), 0, 1).reshape(len(secrets), -1)[:, :d]


def public_matrix(round: Array, part: Array | int, length: int, prg: Prg = philox) -> UInt32[Array, "k w"]:
    """A band of rows of A, transposed."""
    public = jnp.zeros(prg.seed_words, jnp.uint32)
    return expand(public, "public matrix", round, length * BAND, prg, part).reshape(length, BAND)


def errors(seed: UInt32[Array, "b s"], round: Array, d: int, coins: int, prg: Prg = philox) -> Int32[Array, "b d"]:
    """Centred binomial errors, the heads of `coins` coins less those of as many others: of variance coins / 2."""
    kept = np.uint32(2**coins - 1)

    def of(seed: Array) -> Array:
        heads = lax.population_count(prg.words(seed, "errors", round, 2 * d) & kept).astype(jnp.int32)
        return heads[:d] - heads[d:]

    return jax.vmap(of)(seed)


def nearest(value: UInt32[Array, "..."], spacing: int) -> Int[Array, "..."]:
    """The x whose multiple `spacing x` is nearest to the integer in [-(q-1)/2, (q-1)/2] of an element."""
    signed = field.to_signed(value)
    whole, rest = jnp.divmod(jnp.abs(signed), jnp.int32(spacing))
    return jnp.sign(signed) * (whole + (rest > spacing // 2).astype(jnp.int32))


_MOST_EXACT = 2**15
"""Coins of a sign, of all clients; the exact tail of more takes minutes."""


@functools.lru_cache(maxsize=64)
def spacing_of(group_size: int, coins: int, num_values: int, failure: float) -> int:
    """An odd Delta for which a sum of `Delta x + e` of so many clients rounds to the sum of x.

    Certain is `2 coins N + 1`, as the sum of errors is `coins N` at most. With `failure` above 0 it is 2 b + 1 for the
    smallest b with `2 d P[Bin(2 coins N, 1/2) > coins N + b] <= failure`, from the exact tail; if `coins N`
    is above 2^15, by the bound of `spacing_of_weighed`.

    Examples:
      >>> spacing_of(100, 21, 165_000, 0.0), spacing_of(100, 21, 165_000, 1e-12)
      (4201, 559)
    """
    most = coins * group_size
    if failure == 0:
        return 2 * most + 1
    if most > _MOST_EXACT:
        return spacing_of_weighed(group_size, coins, num_values, failure, 1)
    allowed = math.floor(failure / (2 * num_values) * 2.0**900) << 2 * most >> 900  # of 2**(2 most) outcomes
    outcomes, tail, above = 1, 0, 2 * most  # ways to get so many heads; more heads
    while above > most and tail + outcomes <= allowed:
        tail += outcomes
        outcomes = outcomes * above // (2 * most - above + 1)
        above -= 1
    return 2 * (above - most) + 1


def spacing_of_weighed(group_size: int, coins: int, num_values: int, failure: float, largest: int) -> int:
    """As `spacing_of`, where each upload is multiplied by an integer w of at most `largest`, and its error with it.

    Certain is `2 coins N largest + 1`. A sum of errors is one of `2 coins N` terms of +-w/2, so it exceeds b somewhere
    with probability at most `2 d exp(-(b + 1)^2 / (coins N largest^2))` (Hoeffding): with `failure` above 0, Delta is
    2 b + 1 for the smallest b for which that is at most `failure`.

    Examples:
      >>> spacing_of_weighed(10, 21, 165_000, 0.0, 64), spacing_of_weighed(10, 21, 165_000, 1e-12, 64)
      (26881, 11777)
      >>> spacing_of_weighed(10, 21, 165_000, 1e-12, 1), spacing_of(10, 21, 165_000, 1e-12)  # the bound, and exactly
      (185, 175)
    """
    most = coins * group_size * largest
    if failure == 0:
        return 2 * most + 1
    deviation = largest * math.sqrt(coins * group_size * math.log(2 * num_values / failure))
    return 2 * min(most, math.ceil(deviation) - 1) + 1
