"""Sizes of published proofs that an upload is short."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

Proof = Literal["rofl", "risefl", "eiffel"]


def proof_bits(proof: Proof, num_params: int, *, group_size: int | None = None, largest: int | None = None) -> int:
    """How much does a client send in addition to its upload?

    Args:
      proof: by which scheme.
      num_params: d, coordinates of the upload.
      group_size: N, clients of the sum; EIFFeL's size depends on it.
      largest: magnitude that each coordinate is proved to have at most; None: only the norm is proved.

    Examples:
      >>> proof_bits("eiffel", 1000, group_size=20), proof_bits("risefl", 1000, largest=127)
      (640000, 25920712)
    """
    return _BITS[proof](num_params, group_size, largest)


def bits_of_each(proof: Proof, *, group_size: int | None = None, largest: int | None = None) -> int | tuple:
    """Bits of a proof for each coordinate, if all cost the same; (): they do not.

    Examples:
      >>> bits_of_each("risefl"), bits_of_each("rofl")
      (256, ())
    """
    if proof == "eiffel":
        return 32 * _known(group_size)
    return 8 * 32 if proof == "risefl" and largest is None else ()


def bulletproof_bits(value_bits: int, values: int) -> int:
    """How long is a proof that so many committed values are below `2**value_bits`?

    An aggregated Bulletproof (Bünz et al. 2018): `2 ceil(log2(bits values)) + 9` elements of a group of 256 bits.

    Examples:
      >>> bulletproof_bits(64, 1) // 8
      672
    """
    return 256 * (2 * math.ceil(math.log2(value_bits * values)) + 9)


def range_bits(num_params: int, largest: int) -> int:
    """How long is a proof that each of so many committed values is from -`largest` to `largest`?

    A Bulletproof that `largest + v` and `largest - v` are below the next power of two above `2 largest`, for every v:
    their commitments follow from that to v.

    Examples:
      >>> range_bits(4, 127) == bulletproof_bits(8, 2 * 4)
      True
    """
    return bulletproof_bits((2 * largest).bit_length(), 2 * num_params)


def rofl_bits(num_params: int, largest: int | None = None) -> int:
    """How much does a RoFL client (Lycklama et al., S&P 2023) send in addition to its upload?

    An ElGamal commitment, 64 bytes, to each coordinate, and a range proof over all of them: of 32 bits each, the
    element of the field that is sent, or of the range that is proved.
    """
    ranges = bulletproof_bits(32, num_params) if largest is None else range_bits(num_params, largest)
    return 8 * 64 * num_params + ranges


def risefl_bits(num_params: int, largest: int | None = None) -> int:
    """How much does a RiseFL client (Zhu et al., arXiv 2311.15310) send in addition to its upload?

    A commitment of 32 bytes to each coordinate, and proofs of 3,207,104 bytes about 1,000 projections: the size
    function of its code, with products of 44 bits and a sum of 100. It proves no ranges of coordinates itself; with
    `largest` there is a Bulletproof about the committed coordinates, too.
    """
    ranges = 0 if largest is None else range_bits(num_params, largest)
    return 8 * (32 * num_params + 3_207_104) + ranges


def eiffel_bits(num_params: int, group_size: int) -> int:
    """How much does an EIFFeL client (Roy Chowdhury et al., CCS 2022) send in addition to its upload, at least?

    A Shamir share of its whole update, 32 bits for each coordinate, to each of the `group_size` clients, who verify the
    predicate on their shares. What else the proof takes is not counted, whichever predicate it is.
    """
    return 32 * group_size * num_params


def _known(group_size: int | None) -> int:
    if group_size is None:
        raise ValueError("group_size must be given with proof='eiffel', which sends a share to every client")
    return group_size


_BITS: Mapping[str, Callable[[int, int | None, int | None], int]] = MappingProxyType({
    "rofl": lambda d, group_size, largest: rofl_bits(d, largest),
    "risefl": lambda d, group_size, largest: risefl_bits(d, largest),
    "eiffel": lambda d, group_size, largest: eiffel_bits(d, _known(group_size)),
})  # fmt: skip
