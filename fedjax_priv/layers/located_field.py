"""Field elements at the coordinates that each client selects, in the clear, with a bitmap of these coordinates.

`thresholded_masks` covers such uploads with the masks of a committee.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Layer, Link, SecureSum, Sent
from fedjax_priv.crypto import key_agreement
from fedjax_priv.keys import named, per_client
from fedjax_priv.layers.group_sums import counted, field_sum, message_bits
from fedjax_priv.layers.secure_sum import bitmap, sharing
from fedjax_priv.layers.secure_sum.circle import arrange
from fedjax_priv.layers.secure_sum.masked_sum import pairs_of
from fedjax_priv.layers.sparse_mask import sparse_protocol
from fedjax_priv.layers.sparsification import Sparse
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.status import Status


def on_sparse_values(layer: Layer) -> Layer:
    """A layer that takes and makes vectors, put on the values of a `Sparse`; their positions stay.

    Raises:
      ValueError: `layer` is not a `Layer`.

    Examples:
      >>> grid = on_sparse_values(quantize(2.0**16, 10))
      >>> send = stack(top=top_k(1000, 50), quantize=grid, send=plain_sparse_field(1000))
    """
    _validate.part(Layer, "layers.quantize(2.0**16, 10)", layer=layer)

    def encode(key: Key, private: Any, public: Any, x: Sparse, cohort: Cohort) -> tuple[Sparse, Any, Sent]:
        y, state, sent = layer.encode(key, private, public, x.value, cohort)
        return Sparse(y, x.position), state, sent

    return layer._replace(encode=encode)


def plain_sparse_field(num_params: int) -> Layer:
    """The innermost layer below a sparsifier of field elements: their exact sum at all coordinates, `[1, d]`.

    A message has 32 bits for each value and a bitmap of d bits, which the server sees.

    Args:
      num_params: coordinates of an update, d.

    Raises:
      ValueError: `num_params` is not an integer >= 1.

    Examples:
      >>> from fedjax_priv.testing import cohort_of, run_layer
      >>> from fedjax_priv.layers.sparsification import Sparse
      >>> x = Sparse(jnp.array([[5, 7], [1, 2]], jnp.uint32), jnp.array([[0, 3], [3, 2]]))
      >>> found = run_layer(plain_sparse_field(4), jax.random.key(0), x, cohort_of(2), jnp.array([True, True]))
      >>> print(found["received"].value, found["sent"].bits)
      [[5 0 2 8]] 68
    """
    _validate.integer(num_params=num_params)

    def encode(key: Key, private: tuple, public: tuple, x: Sparse, cohort: Cohort) -> tuple[Array, tuple, Sent]:
        del key, private, public, cohort
        empty = jnp.zeros(num_params, jnp.uint32)
        y = jax.vmap(lambda value, position: empty.at[position].set(value))(*x)
        located = jax.vmap(lambda position: bitmap.pack(jnp.zeros(num_params, bool).at[position].set(True)))(x.position)
        return y, (), Sent(counted(32 * x.value.shape[1] + num_params), clear=located)

    return stateless(combine=field_sum())._replace(encode=encode, sums=SecureSum(selects=True))


class Paired(NamedTuple):
    """What a client knows alone."""

    slot: Int[Array, " n"]  # its row in the roster
    key: UInt32[Array, "n 2"]  # exponent of the key agreement


def paired_coordinates(
    *,
    alpha: float | Array,
    group_size: int,
    neighbours: int | Literal["all"] = "all",
    expand: Literal["skip", "dense"] = "skip",
) -> Layer:
    """The coordinates of SparseSecAgg without its masks: uploads `[b, d]` in F_q, cut to what a client's pairs select.

    Pairs agree on keys, and on coordinates by them; nothing is shared or opened. A message has 32 bits for each value
    and a bitmap of d bits. A client sends a fraction p = 1 - (1 - alpha / peers)**peers of its coordinates.

    Args:
      alpha: as in `layers.sparse_mask.sparse_protocol`, as are the others.
      group_size: most clients of a round.
      neighbours: of a client's pairs.
      expand: how ones are drawn.

    Raises:
      ValueError: as `sparse_protocol`.

    Examples:
      >>> pairs = paired_coordinates(alpha=0.1, group_size=10)
      >>> masks = thresholded_masks(pairs, num_values=1000, group_size=10, threshold=3)
    """
    terms = sparse_protocol(alpha=alpha, group_size=group_size, neighbours=neighbours, expand=expand, elide=True)

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[Paired, sharing.Roster, Bits]:
        del state
        secret = per_client(key_agreement.secret_key, named(key, "key"), cohort.client)
        circle = jax.lax.optimization_barrier(arrange(cohort, None if terms.quorum.complete else named(key, "graph")))
        public, nothing = key_agreement.public_key(secret), jnp.zeros_like(secret)
        roster = sharing.Roster(
            cohort.client, cohort.round, public, nothing, cohort.group, cohort.selected, circle,
            key_agreement.directory(public),
        )  # fmt: skip
        others, bits = jnp.maximum(sharing.group_holders(terms.quorum, roster), 1) - 1, message_bits(public[0])
        link = Link(jnp.where(cohort.selected, bits, 0), others * bits)
        return Paired(jnp.arange(cohort.client.size), secret), roster, {"advertise": link}

    def encode(
        key: Key, private: Paired, roster: sharing.Roster, x: Array, cohort: Cohort
    ) -> tuple[Array, tuple, Sent]:
        del key, cohort
        pairs = pairs_of(terms, roster, private.slot, private.key, roster.selected, x.shape[1])
        located = jax.vmap(bitmap.pack)(pairs.chosen)
        bits = bitmap.bits_with(located, x.shape[1])
        crowded = sharing.is_crowded(terms.quorum, roster, private.slot)
        refused = jnp.where(pairs.overflow | crowded, int(Status.CAP_OVERFLOW), 0)
        return jnp.where(pairs.chosen, x, 0), (), Sent(bits, refused=refused, clear=located)

    return stateless(combine=field_sum())._replace(advertise=advertise, encode=encode, sums=SecureSum(selects=True))
