"""Walker's alias method: draws from a table of probabilities in integer arithmetic, by two random words each.

Source: Walker 1977; the table is filled as by Vose 1991, with integers that add up exactly.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from fedjax_priv.crypto.prg import bits
from fedjax_priv.keys import Key

BITS = 62
"""Probabilities are multiples of 2**-62."""
_LOW_BITS = 30


class AliasTable(NamedTuple):
    """2**s equally likely places: below the threshold the outcome is the place, above it `other`."""

    high: UInt32[np.ndarray, " m"]  # threshold, all bits but the lowest 30
    low: UInt32[np.ndarray, " m"]  # its lowest 30 bits
    other: UInt32[np.ndarray, " m"]


def alias_table(probability: np.ndarray) -> AliasTable:
    """The table of `P[outcome = i] = probability[i]`, `[at most 2**31]`, each rounded to a multiple of 2**-62.

    What rounding leaves over goes to the likeliest outcome.
    """
    index_bits = max(1, (probability.size - 1).bit_length())
    weight = np.zeros(2**index_bits, np.int64)
    weight[: probability.size] = np.rint(probability * 2.0**BITS)
    weight[np.argmax(weight)] += 2**BITS - weight.sum()
    threshold, other = _fill(weight.tolist(), 2 ** (BITS - index_bits))
    return AliasTable(
        (threshold >> _LOW_BITS).astype(np.uint32), (threshold & (2**_LOW_BITS - 1)).astype(np.uint32), other
    )


def _fill(left: list[int], capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Vose: an outcome that does not fill its place gets the rest filled by one that overfills its own."""
    other = np.arange(len(left), dtype=np.uint32)
    poor = [i for i, weight in enumerate(left) if weight < capacity]
    rich = [i for i, weight in enumerate(left) if weight > capacity]
    while poor:
        i, j = poor.pop(), rich[-1]
        other[i] = j
        left[j] -= capacity - left[i]
        if left[j] <= capacity:
            rich.pop()
            if left[j] < capacity:
                poor.append(j)
    return np.array(left, np.int64) % capacity, other  # a full place needs no threshold: it is its own other


def draw(table: AliasTable, first: UInt32[Array, " d"], second: UInt32[Array, " d"]) -> UInt32[Array, " d"]:
    """Outcomes from random words; the two lowest bits of `second` are not used."""
    rest_bits = 32 - (table.other.size - 1).bit_length()
    place = first >> rest_bits
    high, low = first & np.uint32(2**rest_bits - 1), second >> (32 - _LOW_BITS)
    at_high, at_low = jnp.asarray(table.high)[place], jnp.asarray(table.low)[place]
    below = (high < at_high) | ((high == at_high) & (low < at_low))
    return jnp.where(below, place, jnp.asarray(table.other)[place])


def symmetric(key: Key, d: int, table: AliasTable, purpose: str) -> Int32[Array, " d"]:
    """`d` independent numbers of a symmetric law: magnitudes from the table, and a random bit for the sign."""
    first, second = bits(key, purpose, (2, d))
    size = draw(table, first, second).astype(jnp.int32)
    return jnp.where((second & 1) == 1, -size, size)
