"""What is left of a sum after colluding clients have subtracted what they know.

They know their own uploads before masking, noise included. There are two vectors: the sum of what the h other clients
sent, and this sum minus h times one colluder's upload. In the second one, noise that all clients share cancels.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv.audit.readings import Vector
from fedjax_priv.audit.whole_uploads import on_all_coordinates
from fedjax_priv.audit.worlds import Seen
from fedjax_priv.crypto import field
from fedjax_priv.crypto.modulus import centred
from fedjax_priv.layers.rotation import rotated_back

Rows = Callable[[Seen], tuple[Float[Array, "n d"], Bool[Array, " n"]]]
"""What each client sent, and which rows are in the sum."""


def left_of_updates(colluding: int) -> list[Vector]:
    """What is left of a mean of updates whose noise is added in local training."""

    def left(seen: Seen) -> Array:
        direction, counted = jnp.where(seen.info.status == 0, seen.info.direction, 0.0), seen.info.counted
        theirs = _colluders(seen, counted, colluding)
        return counted.sum().astype(jnp.float32) * direction - theirs.astype(jnp.float32) @ seen.updates

    return _vectors(left, lambda seen: (seen.updates, seen.info.counted), colluding)


def left_of_field(colluding: int, bits: int | None = None) -> list[Vector]:
    """What is left of the sum of client 0's group, in grid points, in F_q or modulo 2**bits; masks must be elided.

    The result depends only on the colluders' uploads and on the sum of the others, which masks would not hide.
    """
    rows_of = _field_rows if bits is None else functools.partial(_rotated_back, bits)

    def left(seen: Seen) -> Array:
        rows, there = rows_of(seen)
        return (there & ~_colluders(seen, there, colluding)).astype(jnp.float32) @ rows

    return _vectors(left, rows_of, colluding)


def _vectors(left: Vector, rows_of: Rows, colluding: int) -> list[Vector]:
    def without_shared_noise(seen: Seen) -> Array:
        rows, there = rows_of(seen)
        theirs = _colluders(seen, there, colluding)
        honest = (there & ~theirs).sum().astype(jnp.float32)
        return left(seen) - jnp.where(theirs.any(), honest, 0.0) * rows[jnp.argmax(theirs)]

    return [left, without_shared_noise] if colluding else [left]


def _colluders(seen: Seen, there: Array, colluding: int) -> Bool[Array, " n"]:
    """The colluders: the last clients that are there, never client 0."""
    others = there & (seen.who.client != 0)
    return others & (jnp.cumsum(others[::-1])[::-1] <= colluding)


def _field_rows(seen: Seen) -> tuple[Array, Array]:
    """Uploads on all coordinates, and whose upload is in the group of client 0 and arrived."""
    view, group = seen.info.observed, seen.who.group
    rows = field.to_signed(view.uploads).astype(jnp.float32)
    rows = on_all_coordinates(view, rows, seen.info.direction.size)
    return rows, view.alive & (group == group[jnp.argmax(seen.who.client == 0)])


def _rotated_back(bits: int, seen: Seen) -> tuple[Array, Array]:
    """As `_field_rows`, for uploads modulo 2**bits that were rotated; it undoes the rotation."""
    view = seen.info.observed
    rows = centred(view.uploads, bits).astype(jnp.float32)
    return rotated_back(view.public["rotate"], rows)[:, : seen.info.direction.size], view.alive
