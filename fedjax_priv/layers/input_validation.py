"""Uploads whose norm is proved to be small before they are added to a secure sum, as in RoFL, ACORN and RiseFL."""

import math
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Sent
from fedjax_priv.crypto import field
from fedjax_priv.layers.proof_sizes import EACH, PROOF_BITS
from fedjax_priv.layers.quantization import LARGEST
from fedjax_priv.layers.rounded_norm import IN_FLOAT32, is_within_any, squared_norm_bound
from fedjax_priv.layers.stacking import stateless

Proof = Literal["rofl", "risefl"]

CAVEAT = "proofs of norms are ideal: sound and zero-knowledge by assumption; bits are those of the published sizes"


def validate_norm(max_norm: float | Array, *, proof: Proof = "risefl") -> Layer:
    """The server accepts an upload only with a proof that its Euclidean norm is small; the others are in no sum.

    An ideal functionality: the predicate is computed on the very field elements `[b, d]` that are summed, and the
    server learns one bit of each client. Soundness, zero knowledge and commitments are assumed; only the bits of the
    proof are counted. A rejected upload costs nobody else: masks are recovered as if its sender had been lost, and its
    own mask, which nobody opens, keeps it hidden. Runs have `rejected`: whose proof fails, arrived or not.

    Insert it directly above the layer that sums in the field, below `quantize` and all attacks, in the grid points of
    `quantize`. Stochastic rounding makes a vector longer, so the predicate is
    `sum_l x_l**2 <= squared_norm_bound((1 + 2**-20) max_norm, d)`, which a vector clipped to `max_norm` in
    float32 exceeds with probability below 2**-40. It is computed in integers, so it is the same in every block and on
    every device.

    RoFL: Lycklama et al., S&P 2023; RiseFL: Zhu et al., arXiv 2311.15310.

    Args:
      max_norm: Euclidean norm of an honest client's vector before rounding, in grid points, > 0.
      proof: whose size is counted: "rofl" proves every coordinate with commitments and range proofs; "risefl" proves
        random projections. See `theory.input_validation`.

    Raises:
      ValueError: an argument is out of range or traced; or, when a round is traced, the bound is no element of the
        field, or the proof has 2**32 bits.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> x = jnp.array([[3, 4], [300, 400]], jnp.uint32)
      >>> print(validate_norm(5.0).encode(jax.random.key(0), (), (), x, cohort_of(2))[2].valid)
      [ True False]
    """
    _validate.one_of(tuple(PROOF_BITS), proof=proof)
    _validate.known(max_norm=max_norm)
    max_norm = float(_validate.positive(max_norm=max_norm))

    def encode(key: Key, x: UInt32[Array, "b d"], cohort: Cohort) -> UInt32[Array, "b d"]:
        del key, cohort
        return x

    def check(x: Array, y: Array) -> Sent:
        del y
        bound = squared_norm_bound(max_norm * IN_FLOAT32, x.shape[1])
        if math.isqrt(bound) > LARGEST:
            raise ValueError(f"max_norm must be below {LARGEST:.0f} grid points, got {max_norm:g}: choose fewer levels")
        valid = is_within_any(field.to_signed(x), bound)
        bits = PROOF_BITS[proof](x.shape[1])
        if bits + 32 * x.shape[1] >= 2**32:
            raise ValueError(f"proof must be shorter for {x.shape[1]} coordinates: {proof!r} has {bits} bits")
        return Sent(jnp.uint32(bits), measured={"rejected": ~valid}, valid=valid, each=EACH[proof])

    return stateless(encode, sent=check)._replace(caveats=(CAVEAT,))
