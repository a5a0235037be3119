"""Puts uploads back on all coordinates of the model, by public messages."""

from collections.abc import Mapping

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from fedjax_priv.base import View
from fedjax_priv.crypto import field
from fedjax_priv.crypto.sketch import Projection
from fedjax_priv.layers.common_subset import announced
from fedjax_priv.layers.sparsification import Sparse


def upload_of(view: View, place: ArrayLike, num_params: int, *, dense: bool = False) -> Float[Array, " d"]:
    """An upload in the clear, as numbers on all coordinates. It was sent dense, sparse, or as elements of F_q.

    Args:
      view: of the server.
      place: the client's row in the cohort.
      num_params: d.
      dense: as in `layers.jl`, if updates were projected.
    """
    sent = view.uploads
    if isinstance(sent, Sparse):
        return jnp.zeros(num_params).at[sent.position[place]].set(sent.value[place], mode="drop")
    row = sent[place]
    numbers = field.to_signed(row).astype(jnp.float32) if row.dtype == jnp.uint32 else row
    return on_all_coordinates(view, numbers[None], num_params, dense=dense)[0]


def on_all_coordinates(
    view: View, rows: Float[Array, "n m"], num_params: int, *, dense: bool = False
) -> Float[Array, "n d"]:
    """Puts the numbers that clients sent at their coordinates, which public seeds or the union of proposals tell."""
    public, header = (part if isinstance(part, Mapping) else {} for part in (view.public, view.header))
    if "sketch" in public:
        return Projection(num_params, rows.shape[1], dense).back(public["sketch"], rows)
    if "common" in public:
        places = announced(public["common"], num_params, rows.shape[1])
    elif "conspar" in header:
        places = header["conspar"]
    else:
        return rows[:, :num_params]
    return jnp.zeros((len(rows), num_params)).at[:, places].set(rows, mode="drop")
