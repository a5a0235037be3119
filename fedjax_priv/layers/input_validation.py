"""Uploads that are proved to be short before they are added to a secure sum, as in RoFL, EIFFeL, ACORN and RiseFL."""

import math
from typing import Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Sent
from fedjax_priv.crypto import field
from fedjax_priv.keys import named
from fedjax_priv.layers.noisy_norm import squared_noisy_bound
from fedjax_priv.layers.proof_sizes import Proof, bits_of_each, proof_bits
from fedjax_priv.layers.quantization import LARGEST
from fedjax_priv.layers.random_projections import LARGEST_BOUND, is_within_by_projections
from fedjax_priv.layers.range_check import largest_element
from fedjax_priv.layers.rounded_norm import IN_FLOAT32, is_within_any, squared_norm_bound
from fedjax_priv.layers.stacking import stateless

Verdict = Literal["strict", "projections"]

CAVEAT = "proofs of norms are ideal: sound and zero-knowledge by assumption; bits are those of the published sizes"
NOISY = "norms are proved of uploads with their noise: attackers, who add none, may send longer ones (accepted_norm)"


def validate_norm(
    max_norm: float | Array,
    *,
    max_entry: float | Array | None = None,
    noise_variance: float | Array = 0.0,
    proof: Proof = "risefl",
    verdict: Verdict = "strict",
    group_size: int | None = None,
) -> Layer:
    """The server accepts an upload only with a proof that its Euclidean norm is small; the others are in no sum.

    An ideal functionality: the predicate is computed on the field elements `[b, d]` that are summed, and the server
    learns one bit of each client. Soundness, zero knowledge and commitments are assumed; only the bits of the proof are
    counted. A rejected upload does not affect others: masks are recovered as if its sender had been lost. It stays
    hidden, because nobody opens its private mask. So masks without one, those of `enrolled_masks`, are refused.

    Insert it directly above the layer that sums in the field, below `quantize` and all attacks, in the grid points of
    `quantize`. Stochastic rounding makes a vector longer, so the predicate is
    `sum_l x_l**2 <= B2 = squared_norm_bound((1 + 2**-20) max_norm, d)`, which a vector clipped to `max_norm` in float32
    exceeds with probability below 2**-40; and, if given, `|x_l| <= ceil((1 + 2**-20) max_entry)` at each l, which no
    vector of such entries exceeds. With noise B2 is larger, about by `d noise_variance`: attackers, who add none, may
    send vectors that much longer. All is computed in integers, so it is the same in every block and on every device.

    Runs have `rejected`, whose proof fails, arrived or not, and `accepted_norm`, sqrt(B2) in grid points.

    RoFL: Lycklama et al., S&P 2023; EIFFeL: Roy Chowdhury et al., CCS 2022; RiseFL: Zhu et al., arXiv 2311.15310.

    Args:
      max_norm: Euclidean norm of an honest client's vector before rounding, in grid points, > 0.
      max_entry: magnitude of an honest client's vector at a coordinate, before rounding, in grid points, > 0 and at
        most `max_norm`; entries are not checked if not given. A client that clips its norm alone may be rejected.
      noise_variance: of the Skellam noise at each coordinate that the upload holds, in squared grid points, in
        [0, 2**28]. Not with `max_entry`.
      proof: whose size is counted: "rofl" proves every coordinate with commitments and range proofs; "risefl" proves
        random projections; "eiffel" sends shares of the update to all clients, who verify it.
      verdict: "strict" accepts what fulfils the predicate, as an ideal proof does; "projections" accepts by 1,000
        random projections, as RiseFL does, a vector 1.3 times too long about every second time
        (`theory.input_validation.acceptance`). The projections are the same for all clients of a round, so that
        attackers who send one vector are accepted together. They cost 1,000 d random numbers in each block.
      group_size: clients of a sum; needed for the size of "eiffel" only.

    Raises:
      ValueError: an argument is out of range or traced; or, when a round is traced, the bound is no element of the
        field, too large for projections, or the proof has 2**32 bits.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> x = jnp.array([[3, 4], [0, 5], [300, 400]], jnp.uint32)
      >>> valid = lambda layer: layer.encode(jax.random.key(0), (), (), x, cohort_of(3))[2].valid
      >>> print(valid(validate_norm(5.0)), valid(validate_norm(5.0, max_entry=3.5)))
      [ True  True False] [ True False False]
    """
    _validate.one_of(get_args(Proof), proof=proof)
    _validate.one_of(get_args(Verdict), verdict=verdict)
    max_norm, largest, variance = _checked_bounds(max_norm, max_entry, noise_variance)
    if group_size is not None:
        _validate.integer(group_size=group_size)
    each = bits_of_each(proof, group_size=group_size, largest=largest)
    if verdict == "projections" and proof != "risefl":
        raise ValueError(f"proof must be 'risefl' with verdict='projections', got {proof!r}, whose verdict is strict")

    def encode(
        key: Key, private: PyTree, public: PyTree, x: UInt32[Array, "b d"], cohort: Cohort
    ) -> tuple[UInt32[Array, "b d"], tuple, Sent]:
        del private, public, cohort
        d = x.shape[1]
        bound = squared_noisy_bound(squared_norm_bound(max_norm * IN_FLOAT32, d), variance, d)
        _check_bound(bound, max_norm, verdict)
        bits = proof_bits(proof, d, group_size=group_size, largest=largest)
        if bits + 32 * d >= 2**32:
            raise ValueError(f"proof must be shorter for {d} coordinates: {proof!r} has {bits} bits")
        valid = _is_short(named(key, "projections"), x, bound, verdict)
        if largest is not None:
            valid &= (jnp.abs(field.to_signed(x)) <= largest).all(1)
        norm = jnp.full(x.shape[:1], math.sqrt(bound), jnp.float32)
        measured = {"rejected": ~valid, "accepted_norm": norm}
        return x, (), Sent(jnp.uint32(bits), measured=measured, valid=valid, each=each)

    return stateless()._replace(encode=encode, caveats=(CAVEAT, NOISY) if variance else (CAVEAT,))


def _is_short(key: Key, x: UInt32[Array, "b d"], bound: int, verdict: Verdict) -> Array:
    if verdict == "projections":
        return is_within_by_projections(key, x, bound)
    return is_within_any(field.to_signed(x), bound)


def _checked_bounds(
    max_norm: float | Array, max_entry: float | Array | None, noise_variance: float | Array
) -> tuple[float, int | None, float]:
    """The norm, the largest magnitude of a field element, and the variance."""
    _validate.known(max_norm=max_norm, noise_variance=noise_variance)
    max_norm = float(_validate.positive(max_norm=max_norm))
    variance = float(_validate.non_negative(noise_variance=noise_variance))
    if max_entry is None:
        return max_norm, None, variance
    _validate.known(max_entry=max_entry)
    _validate.positive(max_entry=max_entry)
    if max_entry > max_norm:
        raise ValueError(
            f"max_entry must be at most max_norm = {max_norm:g}, got {float(max_entry):g}: it bounds entries"
        )
    if variance:
        raise ValueError(
            f"max_entry must not be given with noise_variance, got {float(max_entry):g}: noise has no such bound"
        )
    return max_norm, largest_element(1.0, float(max_entry)), variance


def _check_bound(bound: int, max_norm: float, verdict: Verdict) -> None:
    """Refuses bounds that no field element reaches, and those whose projections are no field elements."""
    if verdict == "projections" and bound > LARGEST_BOUND:
        raise ValueError(
            f"max_norm must be below {math.isqrt(LARGEST_BOUND)} grid points with verdict='projections', got "
            f"{max_norm:g}: choose fewer levels"
        )
    if math.isqrt(bound) > LARGEST:
        raise ValueError(f"max_norm must be below {LARGEST:.0f} grid points, got {max_norm:g}: choose fewer levels")
