"""Sums that honest clients cannot have: what a server can check of a masked sum by its size."""

import math

import jax.numpy as jnp

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Layer, Received, absent
from fedjax_priv.crypto import field
from fedjax_priv.layers.rounded_norm import IN_FLOAT32
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.status import Status


def check_range(largest: int, max_terms: int) -> Layer:
    """The server leaves out a sum of S uploads with a coordinate beyond `S largest`: `IMPLAUSIBLE`.

    Put it above the innermost layer of a sum in the field, below `quantize` and noise. It costs no message. A sum of
    honest clients always passes. A sum with uniform elements passes at a coordinate with probability `(2 S largest + 1)
    / q`, and at all d coordinates with the d-th power of it. So the check detects random elements of Byzantine clients,
    and rounds in which masks bound to different models did not cancel. It does not detect attackers that stay within
    the range: f of them move a sum by `f largest` and by what the honest members leave free.

    Args:
      largest: magnitude of an honest client's element, rounding and noise included; see `largest_element`.
      max_terms: most uploads in a sum.

    Raises:
      ValueError: an argument is no integer >= 1, or sums of `max_terms` such elements fill the field, so that every sum
        would pass; or, when a round is traced, uploads have factors, which a number of uploads does not bound.

    Examples:
      >>> grid = quantize(100.0, max_terms=10)
      >>> send = stack(clip=clip(1.0), grid=grid, range=check_range(100, max_terms=10), send=plain_field())
    """
    _validate.integer(largest=largest)
    _validate.integer(max_terms=max_terms)
    must_be_useful(largest, max_terms, f"largest must be at most {{most}} for {max_terms} terms", f"{largest}")

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[tuple, tuple, Bits]:
        if not absent(cohort.factor):
            raise ValueError("check_range must be left out where uploads have factors: it counts uploads")
        return (), (), {}

    def decode(received: Received) -> Received:
        size = jnp.abs(field.to_signed(received.value))
        beyond = (size > largest * received.count[:, None]).any(1) & (received.count > 0)
        before = 0 if absent(received.status) else received.status
        return received._replace(status=before | jnp.where(beyond, int(Status.IMPLAUSIBLE), 0))

    return stateless(decode=decode)._replace(advertise=advertise, needs_count=True)


def must_be_useful(largest: int, max_terms: int, allowed: str, got: str) -> None:
    """Raises ValueError if sums of `max_terms` elements of this size fill the field; `{most}` is what may be."""
    most = (field.HALF - 1) // max_terms
    if largest > most:
        raise ValueError(f"{allowed.format(most=most)}, or every sum would pass, got {got}")


def largest_element(levels: float, max_norm: float, noise: int = 0) -> int:
    """The largest magnitude of a coordinate of a clipped update on the grid: `ceil(levels max_norm)`, and noise.

    `clip` and the product with `levels` round, for which there is 2**-20 of the norm more.

    Args:
      levels: grid points per unit.
      max_norm: of `clip`.
      noise: the largest magnitude of a client's noise at a coordinate, in grid points.

    Raises:
      ValueError: `levels` or `max_norm` is not > 0, or `noise` is no integer >= 0.

    Examples:
      >>> largest_element(100.0, 0.5), largest_element(100.0, 0.5, noise=7)
      (51, 58)
    """
    _validate.positive(levels=levels, max_norm=max_norm)
    whole = _validate.integer(at_least=0, noise=noise)
    return math.ceil(float(levels) * float(max_norm) * IN_FLOAT32) + whole
