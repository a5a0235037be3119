"""The round: one pure function from (key, state, data) to (state, info), whatever the system.

cohort -> advertise -> [ train -> encode -> transmit -> lift ] in blocks -> sum -> receive -> disclose -> decode
       -> aggregate -> server optimizer -> commit
"""

import functools
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import (
    Aggregator,
    Algorithm,
    Channel,
    ClientData,
    Cohort,
    Combine,
    Draw,
    Key,
    Layer,
    Link,
    Local,
    Received,
    Release,
    RoundInfo,
    RoundState,
    Sent,
    View,
)
from fedjax_priv.engine.blocks import over_clients
from fedjax_priv.engine.client_rows import only_rows, put_rows, rows_of
from fedjax_priv.engine.mesh import resolve_mesh
from fedjax_priv.engine.transaction import judge, round_status, settle, unless
from fedjax_priv.keys import named
from fedjax_priv.status import Status

DEFAULT_BLOCK = 8
"""Clients in a block: right for small models on a CPU. A block that was measured, `block="auto"`, can be faster."""


def federated_round(
    *,
    cohort: Draw,
    local: Local,
    layers: Layer,
    channel: Channel,
    aggregate: Aggregator,
    server: optax.GradientTransformation,
    num_clients: int | None = None,
    block: int | Literal["auto"] = DEFAULT_BLOCK,
    mesh: Mesh | Literal["auto"] | None = "auto",
    observe: Callable[[View], PyTree] | None = None,
    release: Release | None = None,
) -> Algorithm:
    """One round of a federated system as a pure function.

    Args:
      cohort: who takes part.
      local: training of a block of clients.
      layers: what happens to an update on its way to the server; a `stack`.
      channel: what happens to messages.
      aggregate: from the rows the server holds to one direction `[d]`.
      server: optimizer that is given the direction as a gradient; `optax.sgd(1.0)` is `w <- w - direction`.
      num_clients: clients the parts were made for; other data is refused. None: any number.
      block: clients trained and encoded at once. "auto" is measured: `simulate` asks `blocks.fastest_block`, which
        compiles and times a few.
      mesh: devices the clients are spread over; "auto" is all of them where there are several.
      observe: `RoundInfo.observed` is this function of what the server sees, such as `lambda view: view`, which takes
        O(n d) memory. `simulate` and `sweep` keep a dict of numbers by name, round by round.
      release: what rounds give away, for `ledger`; nothing is computed from it.

    Returns:
      The system. `init` and `step` may be called inside jit, vmap and scan. A round is a transaction: with a bit of
      `RoundInfo.status` set only `round` and the state of `cohort` have moved, and the rows of a client move only if
      its upload counted.

    Raises:
      ValueError: a block below 1, a mesh of other axes, layers that do not say how uploads combine or that combine
        another number of groups than the cohort draws, or that need a number of uploads which the channel hides; when
        `init` or `step` is called, data or a state of another number of clients, or a cohort too large for an exact
        sum.
    """
    combine = layers.combine
    if combine is None:
        raise ValueError("layers must end in one that says how uploads combine, such as plain() or pairwise_masks()")
    if cohort.num_groups != combine.num_groups:
        raise ValueError(
            f"cohort must draw as many groups as layers combine, {combine.num_groups}, got {cohort.num_groups}"
        )
    if layers.needs_count and channel.hides_count:
        raise ValueError("layers must not need the number of uploads, which channel hides (known_count=False)")
    mesh = resolve_mesh(mesh)
    in_blocks = functools.partial(
        federated_round,
        cohort=cohort, local=local, layers=layers, channel=channel, aggregate=aggregate, server=server,
        num_clients=num_clients, mesh=mesh, observe=observe, release=release,
    )  # fmt: skip
    if isinstance(block, str):
        _validate.one_of(("auto",), block=block)
    size = DEFAULT_BLOCK if isinstance(block, str) else block
    _validate.integer(block=size)

    def init(key: Key, params: PyTree, data: ClientData) -> RoundState:
        _check_clients(data, num_clients)
        n, d = data.count.shape[0], sum(p.size for p in jax.tree.leaves(params))
        _check_size(d)
        return RoundState(
            round=jnp.int32(0),
            draw=cohort.init(named(key, "cohort"), n),
            params=jax.tree.map(lambda p: jnp.asarray(p, p.dtype), params),  # a weak type would be traced twice
            memory=local.init(n, params),
            layers=layers.init(named(key, "layers"), n),
            aggregate=aggregate.init(d),
            server=server.init(params),
        )

    def draw(key: Key, state: PyTree, round: Array, count: ArrayLike) -> tuple[Cohort, PyTree]:
        return cohort.apply(named(jax.random.fold_in(key, round), "cohort"), state, round, count)

    def step(key: Key, state: RoundState, data: ClientData) -> tuple[RoundState, RoundInfo]:
        _check_clients(data, num_clients)
        who, draw_state = draw(key, state.draw, state.round, data.count)
        _check_rows(state, who, data)
        key = jax.random.fold_in(key, state.round)
        _check_uploads(who, combine)
        memory, carried, mine = rows_of(who, (state.memory, state.layers, data))
        private, public, opening = layers.advertise(named(key, "advertise"), carried, who)

        sums, (memory, carried, loss, sent, alive, uploads) = clients(
            key, state.params, public, (who, memory, private, mine)
        )

        received = channel.receive(named(key, "receive"), combine.lower(sums))
        online = channel.respond(named(key, "respond"), alive, who)
        header, closing = layers.disclose(private, public, sent.clear, alive, online)
        groups, group_status = judge(layers.decode(header, public, received), sent.status, alive, who)
        direction, opinion = aggregate.apply(named(key, "aggregate"), state.aggregate, groups)
        params, optimizer = descend(direction, state.server, state.params)

        status = round_status(groups, group_status, (params, optimizer, opinion))
        counted = alive & (groups.count > 0)[who.group] & (status == 0)
        state = RoundState(
            round=state.round + 1,
            draw=draw_state,
            params=unless(status, params, state.params),
            memory=put_rows(who, counted, memory, state.memory),
            layers=settle(who, counted, status, carried, state.layers),
            aggregate=unless(status, opinion, state.aggregate),
            server=unless(status, optimizer, state.server),
        )
        bits = {"model": model_bits(who, direction.size), **opening, "upload": upload_bits(sent, alive), **closing}
        seen = observe(_view(uploads, sent.clear, alive, public, header, received, channel)) if observe else ()
        measured = dict(sent.measured)
        return state, RoundInfo(direction, who.client, loss, bits, counted, group_status, status, measured, seen)

    def clients(key: Key, params: PyTree, public: PyTree, rows: tuple) -> tuple[PyTree, tuple]:
        """The client side: train, encode, transmit and add up, in blocks."""

        def train(shared: tuple, valid: Array, who: Cohort, memory: PyTree, private: PyTree, data: ClientData) -> tuple:
            params, _ = shared
            update, memory, loss = local.apply(named(key, "local"), memory, params, data, who)
            return who._replace(selected=who.selected & valid), memory, private, loss, update

        def upload(shared: tuple, who: Cohort, memory: PyTree, private: PyTree, loss: Array, update: Array) -> tuple:
            _, public = shared
            y, carried, sent = layers.encode(named(key, "encode"), private, public, update, who)
            sent = _by_client(sent, loss)
            y, alive = channel.transmit(named(key, "transmit"), y, who)
            uploads = only_rows(alive, y) if observe and not channel.superposes else ()
            return combine.lift(y, alive, who.group), (memory, carried, loss, sent, alive, uploads)

        shared = params, public
        spread = functools.partial(over_clients, shared=shared, rows=rows, block=size, mesh=mesh)
        if layers.whole:
            return upload(shared, *spread(lambda *block: ((), train(*block)))[1])
        return spread(lambda shared, *block: upload(shared, *train(shared, *block)))

    def descend(direction: Array, optimizer: PyTree, params: PyTree) -> tuple[PyTree, PyTree]:
        _, unravel = ravel_pytree(params)
        delta, optimizer = server.update(unravel(direction), optimizer, params)
        return optax.apply_updates(params, delta), optimizer

    return Algorithm(
        init, step, mesh, size, (lambda block: in_blocks(block=block)) if isinstance(block, str) else None, draw,
        layers.caveats, release,
    )  # fmt: skip


def _check_clients(data: ClientData, num_clients: int | None) -> None:
    n = data.count.shape[0]
    if num_clients not in (None, n):
        raise ValueError(f"num_clients must be the number of clients in data, {n}, got {num_clients}")


def _check_size(d: int) -> None:
    if 32 * (d + 1) >= 2**32:
        raise ValueError(f"params must have fewer than {2**27 - 1} elements, as bits are counted in uint32, got {d}")


def _check_rows(state: RoundState, who: Cohort, data: ClientData) -> None:
    """Client state and samples have a row for everyone, or for the cohort in its order."""
    n, k = data.count.shape[0], who.client.shape[0]
    for name, tree in (("state", (state.memory, state.layers)), ("data", data.examples)):
        for rows in jax.tree.leaves(tree):
            if rows.shape[0] not in (n, k):
                raise ValueError(f"{name} must be of as many clients as data has, {n}, got {rows.shape[0]}")


def _check_uploads(who: Cohort, combine: Combine) -> None:
    most = combine.max_uploads
    if most is not None and who.client.size > most:
        raise ValueError(f"cohort must hold at most {most} clients for an exact sum, got {who.client.size}")


def _by_client(sent: Sent, loss: Array) -> Sent:
    """Bits and status a row a client; a training loss that is not finite is a status too."""
    status = jnp.where(jnp.isfinite(loss), 0, int(Status.NOT_FINITE))
    return sent._replace(bits=jnp.broadcast_to(jnp.uint32(sent.bits), loss.shape), status=sent.status | status)


def _view(
    uploads: PyTree, clear: PyTree, alive: Array, public: PyTree, header: PyTree, received: Received, channel: Channel
) -> View:
    who = () if channel.superposes else alive
    return View(uploads, only_rows(alive, clear), who, public, header, only_rows(~alive, clear), received)


def model_bits(who: Cohort, d: int) -> Link:
    """The model, to every client that takes part."""
    return Link(jnp.zeros_like(who.client, jnp.uint32), jnp.where(who.selected, jnp.uint32(32 * d), 0))


def upload_bits(sent: Sent, alive: Array) -> Link:
    """What arrived."""
    up = jnp.where(alive, sent.bits, 0).astype(jnp.uint32)
    return Link(up, jnp.zeros_like(up))
