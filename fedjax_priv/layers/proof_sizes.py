"""Sizes of published proofs that an upload is short."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType


def bulletproof_bits(value_bits: int, values: int) -> int:
    """How long is a proof that so many committed values are below `2**value_bits`?

    An aggregated Bulletproof (Bünz et al. 2018): `2 ceil(log2(bits values)) + 9` elements of a group of 256 bits.

    Examples:
      >>> bulletproof_bits(64, 1) // 8
      672
    """
    return 256 * (2 * math.ceil(math.log2(value_bits * values)) + 9)


def rofl_bits(num_params: int) -> int:
    """How much does a RoFL client (Lycklama et al., S&P 2023) send in addition to its upload?

    An ElGamal commitment, 64 bytes, to each coordinate, and a range proof over all of them, here of 32 bits each: the
    element of the field that is sent.
    """
    return 8 * 64 * num_params + bulletproof_bits(32, num_params)


def risefl_bits(num_params: int) -> int:
    """How much does a RiseFL client (Zhu et al., arXiv 2311.15310) send in addition to its upload?

    A commitment of 32 bytes to each coordinate, and proofs of 3,207,104 bytes about 1,000 projections: the size
    function of its code, with products of 44 bits and a sum of 100.
    """
    return 8 * (32 * num_params + 3_207_104)


EACH: Mapping[str, int | tuple] = MappingProxyType({"rofl": (), "risefl": 8 * 32})
"""Bits of a proof for each coordinate, if all cost the same; (): they do not."""

PROOF_BITS: Mapping[str, Callable[[int], int]] = MappingProxyType({"rofl": rofl_bits, "risefl": risefl_bits})
"""By scheme: bits of a client's proof for d coordinates."""
