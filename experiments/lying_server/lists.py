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
    left = residuals(view, protocol, Colluders(helps, *only_rows(helps, secrets)))
    total = np.zeros(values.shape[1], np.int64)
    np.add.at(total, left.coordinate, left.value.astype(np.int64))
    signed = np.asarray(field.to_signed(jnp.asarray(total % int(field.Q), jnp.uint32)))
    return Read(sorted({*left.client.tolist()}), signed, int(view.header["mask"].online.sum()))


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
