"""What is left of a sum once colluding clients have taken out what they know.

They know their own uploads before masking, noise included. Two vectors: what the others sent, and the same less as many
times what one colluder sent, which has power where clients draw the same noise.
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
from fedjax_priv.layers.rotation import hadamard, signs

Rows = Callable[[Seen], tuple[Float[Array, "n d"], Bool[Array, " n"]]]
"""What each client sent, and which rows are in the sum."""


def left_of_updates(colluding: int) -> list[Vector]:
    """Of a mean of the updates of local training, whose noise is in them."""

    def left(seen: Seen) -> Array:
        direction, counted = jnp.where(seen.info.status == 0, seen.info.direction, 0.0), seen.info.counted
        theirs = _colluders(seen, counted, colluding)
        return counted.sum().astype(jnp.float32) * direction - theirs.astype(jnp.float32) @ seen.updates

    return _vectors(left, lambda seen: (seen.updates, seen.info.counted), colluding)


def left_of_field(colluding: int, bits: int | None = None) -> list[Vector]:
    """Of the sum of client 0's group, in grid points, in F_q or modulo 2**bits; masks must be elided.

    It reads rows of colluders, and the sum of the others: nothing that masks would hide.
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
    """The last ones that are there, never client 0."""
    others = there & (seen.who.client != 0)
    return others & (jnp.cumsum(others[::-1])[::-1] <= colluding)


def _field_rows(seen: Seen) -> tuple[Array, Array]:
    """Uploads on all coordinates, and who is in the group of client 0 and arrived."""
    view, group = seen.info.observed, seen.who.group
    rows = field.to_signed(view.uploads).astype(jnp.float32)
    rows = on_all_coordinates(view, rows, seen.info.direction.size)
    return rows, view.alive & (group == group[jnp.argmax(seen.who.client == 0)])


def _rotated_back(bits: int, seen: Seen) -> tuple[Array, Array]:
    """As `_field_rows`, of uploads modulo 2**bits below `rotate`."""
    view = seen.info.observed
    rows = centred(view.uploads, bits).astype(jnp.float32)
    rows = hadamard(rows) * signs(view.public["rotate"], rows.shape[1])[None]
    return rows[:, : seen.info.direction.size], view.alive
