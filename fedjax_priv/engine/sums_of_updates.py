"""The clients' half of a round of which only a sum of scaled updates of few samples is wanted: no client has a row.

Local training may state that it knows norms and weighted sums of its updates, layers that they do nothing but multiply
each update by a number which depends on its norm, a channel that it changes no upload, and a sum that it takes what has
been summed. Where all do and nobody observes uploads, clients are trained in chunks that depend neither on the block
nor on the devices, so that these change no bit. Draws, bits on the wire and status are those of single rows.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv.base import ClientData, Cohort, Key, Local, RoundState, Scaled
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.parts import Parts
from fedjax_priv.engine.samples import of_block, samples_of
from fedjax_priv.engine.upload import Uploaded, by_client

CHUNK = 64
"""Most clients of a chunk. On a CPU, larger ones are no faster by client; one without a selected client takes no
time."""


FEW_SAMPLES = 32
"""Samples of a client's step up to which a sum is faster than rows: a gradient of more samples for each client costs
less than its norm without it. On a CPU they cost the same at 15 samples for softmax regression and a CNN, and at 80 for
an MLP (`experiments/results/scaling/sums_of_updates.json`)."""


def sums_suffice(parts: Parts, memory: PyTree, private: PyTree, data: ClientData) -> bool:
    """Whether every part of a round can do without rows, clients keep nothing from round to round, and rows cost more.

    Args:
      parts: of the round.
      memory: of clients, from their training.
      private: what clients keep of the layers' first messages.
      data: of the population.
    """
    able = all(_without_rows(parts)) and parts.observe is None and not jax.tree.leaves((memory, private))
    return able and _samples_of_step(parts.local, data) <= FEW_SAMPLES


def _samples_of_step(local: Local, data: ClientData) -> int:
    """The samples of which a client's gradient is the mean; 1 if nothing is known of its steps."""
    if local.steps is None:
        return 1
    return local.steps.batch_size or jax.tree.leaves(data.examples)[0].shape[1]


def _without_rows(parts: Parts) -> tuple[Any, Any, Any, Any]:
    """What training, layers, channel and sum do without rows; None where one cannot."""
    return parts.local.updates, parts.layers.scale, parts.channel.arrivals, parts.combine.lift_sum


def train_and_sum(
    parts: Parts,
    keys: Mapping[str, Key],
    state: RoundState,
    start: PyTree,
    data: PyTree,
    who: Cohort,
    private: PyTree,
    public: PyTree,
) -> tuple[PyTree, Uploaded]:
    """As `train_and_upload`; the loss of clients that are not selected is 0."""
    del state  # of clients: they have none
    n = who.client.size
    count = math.ceil(n / CHUNK)
    size = math.ceil(n / count)
    selected_first = jnp.argsort(~who.selected, stable=True)  # so that chunks at the end may be without any
    chunks = lambda a: _split(jnp.asarray(a)[selected_first], count, size)
    mesh = parts.placement.mesh
    mine = samples_of(parts.local, who, data, mesh, blocks_in_order=False)
    sums, uploaded = over_clients(
        functools.partial(_sum_of_chunk, parts, keys, private),
        (start, public, mine.shared),
        jax.tree.map(chunks, (who, mine.by_client)),
        row_bytes=1,
        block=1,
        mesh=mesh,
    )
    place = jnp.argsort(selected_first)
    return sums, jax.tree.map(lambda a: a.reshape(count * size, *a.shape[2:])[place], uploaded)


def _split(rows: Array, count: int, size: int) -> Array:
    """`[n, ...] -> [count, size, ...]`; rows that are missing are 0, which no selected client is."""
    missing = count * size - rows.shape[0]
    return jnp.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1)).reshape(count, size, *rows.shape[1:])


def _sum_of_chunk(
    parts: Parts, keys: Mapping[str, Key], private: PyTree, shared: tuple, valid: Array, *rows: PyTree
) -> tuple[PyTree, Uploaded]:
    """A block of one chunk."""
    who, data = jax.tree.map(lambda a: a[0], rows)
    params, public, among = shared
    who, data = who._replace(selected=who.selected & valid[0]), of_block(data, among)
    updates_of, scale, arrivals, lift_sum = _without_rows(parts)

    def train() -> tuple[PyTree, Uploaded]:
        updates = updates_of(keys["local"], params, data, who)
        loss = jnp.where(who.selected, updates.loss, 0)
        size = jax.eval_shape(updates.weighted_sum, updates.norm, who.selected).size
        update = Scaled(updates.norm, jnp.ones_like(updates.norm), size)
        update, carried, sent = scale(keys["encode"], private, public, update, who)
        alive = arrivals(keys["transmit"], who) & who.selected
        total = updates.weighted_sum(update.factor, alive & (update.factor != 0))
        uploaded = Uploaded((), carried, loss, by_client(sent, loss, who), alive, ())
        return lift_sum(total, alive.sum(dtype=jnp.int32)), uploaded

    def rest() -> tuple[PyTree, Uploaded]:
        return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(train))

    sums, uploaded = jax.lax.cond(who.selected.any(), train, rest)
    return sums, jax.tree.map(lambda a: a[None], uploaded)
