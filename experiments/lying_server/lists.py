"""One round of masked uploads, of which the server tells clients what it likes."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fedjax_priv.base import Layer, Lists, LyingServer, View
from fedjax_priv.crypto import field
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers import pairwise_masks
from fedjax_priv.layers.secure_sum.masked_sum import Protocol
from fedjax_priv.leakage import Colluders, residuals, secagg_protocol
from fedjax_priv.testing import cohort_of


class Secure(NamedTuple):
    """A secure sum of everybody."""

    num_clients: int
    threshold: int
    consistency: bool = False


class Read(NamedTuple):
    """What the server reads with colluders."""

    clients: list[int]  # honest ones that still hide each other
    total: np.ndarray  # the sum over them, in grid points
    opened: int  # clients that opened shares


def read(secure: Secure, values: np.ndarray, lies: LyingServer | None, colluding: range, attempt: int = 0) -> Read:
    """The smallest sum that the server reads of values `[n, d]` in grid points, each round with new keys."""
    n = secure.num_clients
    helps = jnp.asarray(np.isin(np.arange(n), colluding))
    told = jnp.ones((n, n), bool)
    if lies is not None and lies.lists is not None:
        told = lies.lists(told[0], cohort_of(n))
    x = field.from_signed(jnp.asarray(values, jnp.int32))
    view, secrets = _round(_layer(secure), jax.random.key(attempt), x, told, helps)
    protocol = secagg_protocol(group_size=n, threshold=secure.threshold)
    who, total = left_together(view, protocol, values.shape[1], Colluders(helps, *only_rows(helps, secrets)))
    return Read(who, total, int(view.header["mask"].online.sum()))


def left_together(
    view: View, protocol: Protocol, d: int, colluders: Colluders | None = None
) -> tuple[list[int], np.ndarray]:
    """Whom the server still reads together of a round, and the sum over them in grid points, `[d]`."""
    left, total = residuals(view, protocol, colluders), np.zeros(d, np.int64)
    np.add.at(total, left.coordinate, left.value.astype(np.int64))
    signed = np.asarray(field.to_signed(jnp.asarray(total % int(field.Q), jnp.uint32)))
    return sorted({*left.client.tolist()}), signed


@functools.lru_cache
def _layer(secure: Secure) -> Layer:
    return pairwise_masks(group_size=secure.num_clients, threshold=secure.threshold, consistency=secure.consistency)


@functools.partial(jax.jit, static_argnums=0)
def _round(layer: Layer, key: Array, x: Array, told: Bool[Array, "n n"], helps: Bool[Array, " n"]) -> tuple:
    n = len(x)
    who, everyone = cohort_of(n), jnp.ones(n, bool)
    private, public, _ = layer.advertise(key, layer.init(key, n), who)
    upload, _, sent = layer.encode(key, private, public, x, who)
    header, _ = layer.disclose(private, public, sent.clear, everyone, everyone, lists=Lists(told, helps))
    return View(upload, sent.clear, everyone, {"mask": public}, {"mask": header}, ()), (private.key, private.shares)


def same_list(members: np.ndarray) -> LyingServer:
    """Everybody is told the same survivors: a lie that no check of lists finds."""
    return LyingServer(lists=lambda alive, cohort: jnp.broadcast_to(jnp.asarray(members)[None], (alive.size,) * 2))
