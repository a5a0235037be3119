"""A cohort by hand, and one round of a single layer."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from fedjax_priv.base import Cohort, Key, Layer


def cohort_of(n: int, *, group: Any = None, weight: Any = None, round: int = 0) -> Cohort:
    """`n` clients, all honest and selected; by default of equal weight and in one group.

    Examples:
      >>> print(cohort_of(4, group=[0, 0, 1, 1]).group)
      [0 0 1 1]
    """
    ones = _row(np.ones(n), np.float32)  # from NumPy: nothing is compiled
    return Cohort(
        client=_row(np.arange(n), np.int32),
        round=_row(np.full(n, round), np.int32),
        weight=_row(np.full(n, 1 / n) if weight is None else weight, np.float32),
        selected=_row(np.ones(n), bool),
        byzantine=_row(np.zeros(n), bool),
        group=_row(np.zeros(n) if group is None else group, np.int32),
        gain=ones,
        participation=ones,
        staleness=_row(np.zeros(n), np.int32),
    )


def _row(values: Any, dtype: Any) -> Array:
    return jnp.asarray(values if isinstance(values, jax.Array) else np.asarray(values, dtype), dtype)


def survivors(n: int, lost: Any = ()) -> Bool[Array, " n"]:
    """Everyone but the clients `lost`.

    Examples:
      >>> print(survivors(4, lost=[1]))
      [ True False  True  True]
    """
    alive = np.ones(n, bool)
    alive[np.asarray(lost, int)] = False
    return jnp.asarray(alive)


def layer_round(
    layer: Layer,
    key: Key,
    x: PyTree,
    cohort: Cohort,
    alive: Array,
    online: Array | None = None,
    spoil: Callable | None = None,
) -> dict[str, Any]:
    """One round of a layer that ends in a sum; returns all that its halves return, by name.

    Args:
      layer: it draws from `key`.
      x: updates, `[n, ...]`, of the clients of `cohort`.
      alive: bool `[n]`, whose upload arrives.
      online: bool `[n]`, who is there when masks are opened; None: all that are alive.
      spoil: corrupts the private rows after encoding.

    Raises:
      ValueError: `layer` does not say how uploads combine.

    Examples:
      >>> from fedjax_priv.layers import average, plain, stack
      >>> send, x = stack(average=average(), send=plain()), jnp.array([[1.0], [3.0], [9.0]])
      >>> found = layer_round(send, jax.random.key(0), x, cohort_of(3), survivors(3, lost=[2]))
      >>> print(found["received"].value)
      [[2.]]
    """
    online = alive if online is None else online
    state = layer.init(key, cohort.client.size)
    private, public, opening = layer.advertise(key, state, cohort)
    y, state, sent = layer.encode(key, private, public, x, cohort)
    header, closing = layer.disclose(spoil(private) if spoil else private, public, sent.clear, alive, online)
    if layer.combine is None:
        raise ValueError("layer must end in one with a `combine`, such as stack(it=..., send=plain()); got None")
    received = layer.decode(header, public, layer.combine.lower(layer.combine.lifted(y, alive, cohort)))
    return {
        "received": received, "header": header, "sent": sent, "upload": y, "private": private, "public": public,
        "bits": {**opening, **closing}, "state": state,
    }  # fmt: skip


run_layer = jax.jit(layer_round, static_argnames=("layer", "spoil"))
"""`layer_round`, compiled once for each layer and shapes."""


def wire(upload: PyTree) -> int:
    """Bits of each client's message: the size of its arrays.

    Examples:
      >>> wire(jnp.zeros((10, 3), jnp.float32))  # bits of a client
      96
    """
    leaves = [np.asarray(a) for a in jax.tree.leaves(upload)]
    return sum(8 * a.nbytes for a in leaves) // len(leaves[0])
