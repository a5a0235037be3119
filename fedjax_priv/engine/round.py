"""The round: one pure function from (key, state, data) to (state, info), whatever the system.

cohort -> advertise -> [ train -> encode -> transmit -> lift ] in blocks -> sum -> receive -> disclose -> decode
       -> aggregate -> server optimizer -> commit
"""

import functools
from collections.abc import Callable, Mapping
from typing import Literal

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate, base
from fedjax_priv.engine.calls import calling
from fedjax_priv.engine.client_rows import only_rows, rows_of
from fedjax_priv.engine.memory_of_models import nothing_trained, who_trains
from fedjax_priv.engine.mesh import resolve_mesh
from fedjax_priv.engine.parts import (
    Parts,
    check_drawn,
    check_lies,
    check_params,
    check_rows,
    check_size,
    check_total,
    check_types,
    check_versions,
    checked_clients,
    combine_of,
    lists_of,
)
from fedjax_priv.engine.returned_by_parts import check_bools, check_direction, check_received
from fedjax_priv.engine.server_step import first_state, server_step
from fedjax_priv.engine.side_by_side import on_devices_of
from fedjax_priv.engine.state_placement import initial, placed
from fedjax_priv.engine.sums_of_updates import sums_suffice, train_and_sum
from fedjax_priv.engine.telling import single_numbers, told_by, total_size
from fedjax_priv.engine.transaction import commit, honest_groups, judge, order_status, round_status
from fedjax_priv.engine.upload import Uploaded, model_bits, train_and_upload, upload_bits
from fedjax_priv.engine.versions import by_version, handed_out, kept, ring, with_digests
from fedjax_priv.keys import each_named, named


def federated_round(
    *,
    cohort: base.Draw,
    local: base.Local,
    layers: base.Layer,
    channel: base.Channel,
    aggregate: base.Aggregator,
    server: optax.GradientTransformation | None = None,
    num_clients: int | None = None,
    block: int | None = None,
    mesh: Mesh | Literal["auto"] | None = "auto",
    observe: Callable[[base.View], PyTree] | None = None,
    release: base.Release | None = None,
    lying_server: base.LyingServer | None = None,
) -> base.Algorithm:
    """One round of a federated system as a pure function.

    Args:
      cohort: who takes part.
      local: training of a block of clients.
      layers: what happens to an update on its way to the server; a `stack`.
      channel: what happens to messages.
      aggregate: from the rows the server holds to one direction `[d]`.
      server: optimizer that takes the direction as a gradient; `optax.sgd(1.0)`, which is `w <- w - direction`, if not
        given.
      num_clients: clients the parts were made for; data of another number are refused. None: any number.
      block: most clients trained, encoded and unmasked at once. None: as many as fit the cache of a CPU core or the
        memory of an accelerator (`engine.side_by_side`).
      mesh: devices the clients are spread over; "auto" is all of them if there are several.
      observe: `RoundInfo.observed` is this function of what the server sees, such as `lambda view: view`, which takes
        O(n d) memory. `simulate` and `sweep` keep a dict of numbers by name, round by round.
      release: what rounds give away, for `ledger`; nothing is computed from it.
      lying_server: what the server does that does not follow the protocol, such as `attacks.split_lists(...)`; nothing
        if not given.

    Returns:
      The system. `init` and `step` may be called inside jit, vmap and scan. `jax.jit(step)` is compiled once for any
      number of rounds: `init` places its state where rounds leave it, in arrays that nobody else holds. A round is a
      transaction. With a bit of `RoundInfo.status` set, only `round` and the state of `cohort` have moved, what clients
      remember of the models they trained, and what `aggregate` returned as `Kept`; where models of earlier rounds are
      kept, the old one is that of the next round too. A client's rows move only if its upload was accepted.

    Raises:
      ValueError: a part of another type, a block below 1, an `observe` that is no function of the view, a mesh of other
        axes, layers that do not say how uploads combine, that combine another number of groups than the cohort draws,
        or that need a number of uploads which the channel hides, an `aggregate` that tells clients its numbers where
        they train earlier models, or a `lying_server` whose lies clients do not hear. Also, when `init` or `step` is
        called, data or a state of another number of clients, a cohort too large for an exact sum, a direction of
        another shape than `[d]`, a part that returns other arrays than `base` says, or a `server` that needs more than
        the direction and the parameters, such as the value of a loss; and when `init` is called, parameters that are
        not float32, or, outside jit, data of 2**31 samples or more.
    """
    if block is not None:
        _validate.integer(block=block)
    if observe is not None:
        _validate.function(1, "lambda view: view", observe=observe)
    server = optax.sgd(1.0) if server is None else server
    check_types(dict(cohort=cohort, local=local, layers=layers, channel=channel, aggregate=aggregate, server=server))
    combine, mesh = combine_of(layers, cohort, channel), resolve_mesh(mesh)

    check_versions(cohort, local, aggregate)
    check_lies(lying_server, cohort, layers, aggregate)
    one_model = cohort.versions == 1 and (lying_server is None or lying_server.models is None)
    training = local if one_model else by_version(local)
    placement = base.Placement(block, mesh)
    placed_layers = layers.placed(placement)
    parts = Parts(
        cohort, training, placed_layers, combine, channel, aggregate, server, num_clients, placement, observe,
        lying_server,
    )  # fmt: skip
    of = functools.partial
    there = of(on_devices_of, mesh)  # only the forms for its devices are traced
    lies = () if lying_server is None else lying_server.lies
    caveats = (*layers.caveats, *(f"the server does not follow the protocol: {lie}" for lie in lies))
    return base.Algorithm(
        there(of(_init, parts)), there(of(_step, parts)), mesh, block, of(_draw, parts), caveats, release,
        local.steps, lying_server, None if channel.arrivals is None else of(_arrivals, parts), bool(local.digest),
        cohort.period, cohort.by_coins,
    )  # fmt: skip


def _init(parts: Parts, key: base.Key, params: PyTree, data: base.ClientData) -> base.RoundState:
    _validate.part(base.ClientData, "data.stack_clients(examples, parts)", data=data)
    check_total(data)
    data = checked_clients(data, parts.num_clients)
    check_params(params)
    n, d = data.count.shape[0], sum(p.size for p in jax.tree.leaves(params))
    opinion = parts.aggregate.init(d)
    check_size(d, total_size(told_by(parts.aggregate, opinion)))
    state = base.RoundState(
        round=jnp.int32(0),
        draw=parts.cohort.init(named(key, "cohort"), n),
        params=params,
        memory=parts.local.init(n, params),
        layers=parts.layers.init(named(key, "layers"), n),
        aggregate=opinion,
        server=first_state(parts.server, params),
        versions=ring(params, parts.cohort.versions),
        trained=nothing_trained(parts.local, n),
        last=jnp.zeros(d) if parts.layers.needs_last else (),
    )
    return initial(state, parts.placement.mesh, (key, params, data))


_STAGES = ("cohort", "advertise", "local", "encode", "transmit", "receive", "respond", "aggregate")
"""The stages of a round that draw."""


def _step(
    parts: Parts, key: base.Key, state: base.RoundState, data: base.ClientData
) -> tuple[base.RoundState, base.RoundInfo]:
    _validate.part(base.RoundState, "system.init(key, params, data)", state=state)
    _validate.part(base.ClientData, "data.stack_clients(examples, parts)", data=data)
    data = checked_clients(data, parts.num_clients)
    own = jax.random.fold_in(key, state.round)
    keys = each_named(own, _STAGES)
    drawn, draw_state = parts.cohort.apply(keys["cohort"], state.draw, state.round, data.count)
    check_drawn(drawn, parts)
    check_rows(state, drawn, data)

    models = handed_out(parts.lying_server, own, state, data.count.shape[0])
    who, trained, sat_out = who_trains(parts.local, drawn, models, state.trained)
    if parts.layers.sums.digest:
        who = with_digests(parts.layers.sums.digest, who, models)
    known = {"last": state.last} if parts.layers.needs_last else {}
    private, public, opening = parts.layers.advertise(keys["advertise"], rows_of(who, state.layers), who, **known)
    told = told_by(parts.aggregate, state.aggregate)
    start = base.Told(state.params, told) if told else models
    uploads = train_and_sum if sums_suffice(parts, state.memory, private, data) else train_and_upload
    sums, uploaded = uploads(parts, keys, state, start, data, who, private, public)
    received = _receive(parts, keys["receive"], parts.combine.lower(sums))
    header, closing = _open_secrets(parts, keys["respond"], who, private, public, uploaded)
    rows = parts.layers.decode(header, public, received)
    groups, group_status = judge(rows, uploaded.sent.refused, uploaded.alive, who)
    direction, moved = _descend(parts, keys["aggregate"], state, groups)
    status = round_status(groups, group_status, moved, parts.aggregate.needs_rows) | order_status(drawn, data)
    counted = uploaded.alive & (groups.count > 0)[who.group] & (status == 0)
    after = kept(commit(state, who, counted, status, uploaded, moved._replace(draw=draw_state, trained=trained)))

    sent = {
        "model": model_bits(drawn, direction.size + total_size(told)),
        **opening,
        "upload": upload_bits(uploaded),
        **closing,
    }
    seen = _observed(parts, who, uploaded, public, header, received, groups, direction)
    measured = _measured(parts, who, draw_state, told, sat_out, uploaded)
    trains = who.selected & (data.count[who.client] > 0)
    loss = jnp.where(trains, uploaded.loss, 0)
    info = base.RoundInfo(direction, who.client, loss, trains, sent, counted, group_status, status, measured, seen)
    return placed(after, parts.placement.mesh), info


def _draw(parts: Parts, key: base.Key, state: PyTree, round: ArrayLike, count: ArrayLike) -> tuple[base.Cohort, PyTree]:
    """A state that was fetched to the host is NumPy arrays, and draws compute with those of JAX."""
    state, round, count = jax.tree.map(jnp.asarray, state), jnp.asarray(round), jnp.asarray(count, jnp.int32)
    return parts.cohort.apply(named(jax.random.fold_in(key, round), "cohort"), state, round, count)


def _arrivals(parts: Parts, key: base.Key, round: Array, who: base.Cohort) -> Array:
    """Whose upload the channel does not lose; it is one that states this."""
    arrivals = parts.channel.arrivals
    assert arrivals is not None
    return arrivals(named(jax.random.fold_in(key, round), "transmit"), who) & who.selected


def _receive(parts: Parts, key: base.Key, sums: base.Received) -> base.Received:
    with calling("channel.receive", value=sums.value):
        return check_received("channel.receive", parts.channel.receive(key, sums))


def _open_secrets(
    parts: Parts, key: base.Key, who: base.Cohort, private: PyTree, public: PyTree, uploaded: Uploaded
) -> tuple[PyTree, PyTree]:
    """What the survivors who are still there disclose, and how many bits that takes."""
    alive = uploaded.alive
    with calling("channel.respond", alive=alive):
        online = check_bools("channel.respond", "online", parts.channel.respond(key, alive, who), alive.size) & alive
    disclose = parts.layers.disclose
    if parts.lying_server is not None and parts.lying_server.lists is not None:
        disclose = functools.partial(disclose, lists=lists_of(parts.lying_server, alive, who))
    return disclose(private, public, uploaded.sent.clear, alive, online)


def _descend(
    parts: Parts, key: base.Key, state: base.RoundState, groups: base.Received
) -> tuple[Array, base.RoundState]:
    """One direction from the groups' rows, and a step of the server's optimizer along it."""
    flat, unravel = ravel_pytree(state.params)
    with calling("aggregate.apply", value=groups.value):
        made = parts.aggregate.apply(key, state.aggregate, groups)
    direction, opinion = check_direction(made, flat.size, state.aggregate)
    params, optimizer = server_step(parts.server, unravel(direction), state.server, state.params)
    last = direction if parts.layers.needs_last else ()
    return direction, state._replace(params=params, server=optimizer, aggregate=opinion, last=last)


def _observed(
    parts: Parts,
    who: base.Cohort,
    uploaded: Uploaded,
    public: PyTree,
    header: PyTree,
    received: base.Received,
    groups: base.Received,
    direction: Array,
) -> PyTree:
    """What `observe` makes of the server's view; () without it."""
    if parts.observe is None:
        return ()
    arrived, clear = uploaded.arrived, uploaded.sent.clear
    view = base.View(
        uploads=uploaded.uploads,
        clear=only_rows(arrived, clear),
        alive=() if parts.channel.superposes else uploaded.alive,
        public=public,
        header=header,
        unsent=only_rows(~arrived, clear),
        received=received,
        rows=groups,
        honest=honest_groups(groups, uploaded.alive, who),
        direction=direction,
    )
    return parts.observe(view)


def _measured(
    parts: Parts, who: base.Cohort, draw: PyTree, told: Mapping[str, PyTree], sat_out: Mapping, uploaded: Uploaded
) -> dict[str, PyTree]:
    """What layers measured, and for each client the numbers that clients are told, and those of the draw."""
    of_draw = parts.cohort.measures(who, draw) if parts.cohort.measures else {}
    numbers = {**single_numbers(told), **of_draw, **sat_out}
    each = {name: jnp.broadcast_to(a, who.client.shape) for name, a in numbers.items()}
    return dict(uploaded.sent.measured) | each
