"""What thresholded opening tells the server and colluding users: sums at the coordinates that were opened."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from fedjax_priv import _validate
from fedjax_priv.base import View
from fedjax_priv.layers.secure_sum import bound_masks
from fedjax_priv.layers.secure_sum.thresholded_opening import Opened


class OpenedSums(NamedTuple):
    """By coordinate, whose values are in the sum that was opened."""

    honest: Int32[Array, " d"]  # honest survivors in it; 0 where fewer than the threshold sent
    sent: Int32[Array, ""]  # values that honest survivors sent, at all coordinates


def opened_honest(view: View, honest: Bool[Array, " n"], *, threshold: int, layer: str = "mask") -> OpenedSums:
    """How many honest survivors are in each sum that the server and the other users read.

    At a coordinate that `threshold` survivors sent, the server gets the sum of their values; colluding users take out
    theirs. Whether enough members answered is not looked at. `theory.sparse_secagg.opened_sum_fraction` has the law for
    SparseSecAgg's coordinates. It is an `observe` of `federated_round`, once the other arguments are bound; masks may
    be elided.

    Args:
      view: what the server sees of a round.
      honest: which clients of the cohort do not collude.
      threshold: t of the layer.
      layer: name of the `thresholded_masks`.

    Raises:
      ValueError: `threshold` is not an integer >= 1, or the system has no such layer, or another kind of layer there.
    """
    _validate.integer(threshold=threshold)
    _validate.one_of([name for name, one in view.header.items() if isinstance(one, Opened)], layer=layer)
    header = view.header[layer]
    sent = bound_masks.sent(header.located, len(header.contributors)) & honest[:, None]
    number = sent.sum(0, dtype=jnp.int32)
    return OpenedSums(jnp.where(header.contributors >= threshold, number, 0), number.sum())
