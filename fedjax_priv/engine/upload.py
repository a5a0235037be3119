"""The clients' half of a round, in blocks: train, encode, transmit and add up."""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, PyTree

from fedjax_priv.base import ClientData, Cohort, Key, Link, Local, RoundState, Sent, absent
from fedjax_priv.engine.blocks import num_rows, over_clients
from fedjax_priv.engine.calls import calling
from fedjax_priv.engine.client_rows import only_rows, rows_of
from fedjax_priv.engine.live_bytes import live_bytes
from fedjax_priv.engine.parts import Parts, check_rejected
from fedjax_priv.engine.returned_by_parts import check_carried, check_training, check_transmitted
from fedjax_priv.engine.samples import of_block, samples_of
from fedjax_priv.engine.side_by_side import is_of_cpus
from fedjax_priv.status import Status


class Uploaded(NamedTuple):
    """What clients did and sent; one row per client of the cohort."""

    memory: PyTree  # [n, ...], of local training
    layers: PyTree  # [n, ...], state of the layers
    loss: Float[Array, " n"]
    sent: Sent
    alive: Bool[Array, " n"]  # the upload arrived and is valid
    uploads: PyTree  # [n, ...], what arrived; () where nobody observes it
    rejected: PyTree = ()  # bool [n], the upload arrived and is not valid; (): none is ever rejected

    @property
    def arrived(self) -> Bool[Array, " n"]:
        """Whose upload the server holds."""
        return self.alive if absent(self.rejected) else self.alive | self.rejected


def train_and_upload(
    parts: Parts,
    keys: Mapping[str, Key],
    state: RoundState,
    start: PyTree,
    data: PyTree,
    who: Cohort,
    private: PyTree,
    public: PyTree,
) -> tuple[PyTree, Uploaded]:
    """The sum of all lifted uploads that arrived, and what each client did; `start` is what each is given."""
    mesh, whole = parts.placement.mesh, PartitionSpec()
    memory = rows_of(who, state.memory)
    of_any = is_of_cpus(mesh) and not parts.layers.whole
    mine = samples_of(parts.local, who, data, mesh, blocks_in_order=True, of_any=of_any)
    open_block = parts.placement.block is None
    held = bytes_of_training(parts.local, keys["local"], memory, start, of_block(*mine[:2]), who) if open_block else 0
    of_layers = jax.eval_shape(lambda layers: layers, state.layers)
    train, upload = functools.partial(_train, parts, keys), functools.partial(_upload, parts, keys, of_layers)
    spread = functools.partial(
        over_clients,
        shared=(start, public, mine.shared),
        shared_spec=(whole, whole, mine.spec),
        rows=(who, memory, private, mine.by_client),
        row_bytes=held,
        work=jnp.where(who.selected, mine.by_client.count, 0),
        device=mine.device,
        **parts.placement._asdict(),
    )
    if parts.layers.whole:
        return upload(public, *spread(lambda *block: ((), train(*block)))[1])
    return spread(lambda shared, *block: upload(shared[1], *train(shared, *block)))


def bytes_of_training(local: Local, key: Key, memory: PyTree, params: PyTree, data: ClientData, who: Cohort) -> int:
    """What a client holds in addition to its rows while it trains: weights, activations, gradients and an update."""
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (key, memory, params, data, who))
    return math.ceil(live_bytes(local.apply, *shapes) / num_rows(who))


def _train(
    parts: Parts,
    keys: Mapping[str, Key],
    shared: tuple,
    valid: Array,
    who: Cohort,
    memory: PyTree,
    private: PyTree,
    data: PyTree,
) -> tuple:
    params, _, among = shared
    who = who._replace(selected=who.selected & valid)
    count = jnp.where(who.selected, data.count, 0)  # what is not asked for takes no time
    data = of_block(data, among)._replace(count=count)
    with calling("local.apply", params=params, examples=data.examples):
        made = parts.local.apply(keys["local"], memory, params, data, who)
    update, memory, loss = check_training(made, who.client.size, memory)
    return who, memory, private, loss, update


def _upload(
    parts: Parts,
    keys: Mapping[str, Key],
    of_layers: PyTree,
    public: PyTree,
    who: Cohort,
    memory: PyTree,
    private: PyTree,
    loss: Array,
    update: Array,
) -> tuple[PyTree, Uploaded]:
    x, carried, sent = parts.layers.encode(keys["encode"], private, public, update, who)
    check_carried(carried, who.client.size, of_layers)
    sent = by_client(sent, loss, who)
    with calling("channel.transmit", y=x):
        made = parts.channel.transmit(keys["transmit"], x, who)
    y, arrived = check_transmitted(made, who)
    if parts.channel.measure:
        measured = dict(sent.measured)
        sent = sent._replace(measured=measured | dict(parts.channel.measure(x, y, who, measured)))
    uploads = only_rows(arrived, y) if parts.observe is not None and not parts.channel.superposes else ()
    checked = not absent(sent.valid)
    if checked:
        check_rejected(parts.layers)
    alive, rejected = (arrived & sent.valid, arrived & ~sent.valid) if checked else (arrived, ())
    return parts.combine.lifted(y, alive, who), Uploaded(memory, carried, loss, sent, alive, uploads, rejected)


def by_client(sent: Sent, loss: Array, who: Cohort) -> Sent:
    """`Sent` as the round uses it: bits by client, NOT_FINITE for a bad loss, notes between layers emptied.

    An honest client's own status is then among the reasons to refuse it.
    """
    status = sent.status | jnp.where(jnp.isfinite(loss), 0, int(Status.NOT_FINITE))
    refused = sent.refused | jnp.where(who.byzantine, 0, status)
    bits = jnp.broadcast_to(jnp.uint32(sent.bits), loss.shape)
    return sent._replace(bits=bits, status=status, refused=refused, unused=(), each=())


def model_bits(who: Cohort, d: int) -> Link:
    """Bits down: the model and what is told with it, `d` numbers in all, go to every client that takes part."""
    return Link(jnp.zeros_like(who.client, jnp.uint32), jnp.where(who.selected, jnp.uint32(32 * d), 0))


def upload_bits(uploaded: Uploaded) -> Link:
    """Bits up: those that arrived."""
    up = jnp.where(uploaded.arrived, uploaded.sent.bits, 0).astype(jnp.uint32)
    return Link(up, jnp.zeros_like(up))
