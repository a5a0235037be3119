"""Proofs that uploads are short, as options of several systems: their layer, and what they do not go with."""

from typing import Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Layer
from fedjax_priv.layers import validate_norm
from fedjax_priv.systems._arguments import HandsOn

PROOFS = HandsOn(validate_norm, ("proof", "verdict"))
NEEDS_BOUND = "norm_bound must be given with max_entry: the norm is proved, too"
NO_ENTRIES = "max_entry must not be given with noise in the sum: verdicts on entries would tell what it hides"


def validated(
    norm_bound: float | Array | None,
    levels: float | Array,
    *,
    group_size: int,
    max_entry: float | Array | None = None,
    clip: float | Array | None = None,
    noise_variance: float | Array | None = None,
    how: dict[str, Any],
) -> dict[str, Layer]:
    """The layer of proofs that uploads are short, by name; none without a bound.

    Args:
      norm_bound: of what a client adds to the sum, in its units.
      levels: grid points of the quantizer per unit.
      group_size: clients of a sum.
      max_entry: of what a client adds to the sum at a coordinate, in its units.
      clip: largest norm of what an honest client adds to the sum, without its noise.
      noise_variance: of the Skellam noise in uploads, in their units; None: no noise.
      how: options of `validate_norm`.

    Raises:
      ValueError: an argument is out of range or traced; options without a bound, or a bound that tells something of
        updates which noise hides.
    """
    if norm_bound is None:
        if max_entry is not None:
            raise ValueError(NEEDS_BOUND)
        without_bound(PROOFS.given(how))
        return {}
    given = {"norm_bound": norm_bound} if max_entry is None else {"norm_bound": norm_bound, "max_entry": max_entry}
    _validate.known(**given, levels=levels)
    _validate.positive(**given)
    _validate.positive(levels=levels)
    c, noise = float(levels), 0.0 if noise_variance is None else float(noise_variance)
    if max_entry is not None and max_entry > norm_bound:
        least = f"{float(norm_bound):g}, which bounds each entry"
        raise ValueError(f"max_entry must be at most norm_bound = {least}, got {float(max_entry):g}")
    if noise_variance is not None and (sentence := of_noisy_sums(norm_bound, max_entry, clip)):
        raise ValueError(sentence)
    entry = None if max_entry is None else c * float(max_entry)
    options = {"max_entry": entry, "noise_variance": c**2 * noise, "group_size": group_size, **how}
    return {"valid": validate_norm(c * float(norm_bound), **options)}


def without_bound(options: dict[str, Any]) -> None:
    """Refuses options of proofs where there are none.

    Raises:
      ValueError: there is one.
    """
    for name, value in options.items():
        raise ValueError(f"norm_bound must be given with {name}={value!r}: without one nothing is proved")


def of_noisy_sums(norm_bound: Any, max_entry: Any, clip: Any) -> str | None:
    """Why uploads with noise in them cannot have such proofs; None if they can.

    The server sees every verdict, and noise of one client hides little. So verdicts on honest uploads must not depend
    on their updates: all of them pass, but for a probability of 2**-39, a half for rounding and a half for noise.
    """
    if max_entry is not None:
        return NO_ENTRIES
    if _validate.is_known_below(norm_bound, clip):
        return (
            f"norm_bound must be at least clip = {float(clip):g} with noise in the sum, got {float(norm_bound):g}: "
            "verdicts would tell which honest updates are long"
        )
    return None
