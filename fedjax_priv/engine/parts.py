"""The parts of one system, as the stages of a round get them; checks that they fit each other and the data."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, PyTree

from fedjax_priv import _validate, base


class Parts(NamedTuple):
    """The arguments of `federated_round`, checked."""

    cohort: base.Draw
    local: base.Local
    layers: base.Layer  # computed where `placement` says
    combine: base.Combine  # that of `layers`
    channel: base.Channel
    aggregate: base.Aggregator
    server: optax.GradientTransformation
    num_clients: int | None
    placement: base.Placement
    observe: Callable[[base.View], PyTree] | None
    lying_server: base.LyingServer | None = None


def check_types(parts: Mapping[str, Any]) -> None:
    """Checks that each argument of `federated_round` is a part of its type.

    Raises:
      ValueError: one is not, such as a factory that was not called, or a function of it takes other arguments; the
        message has an example, or the arguments.
    """
    for name, (kind, example) in _TYPES.items():
        _validate.part(kind, example, **{name: parts[name]})
    for (name, field), arguments in _ARGUMENTS.items():
        _validate.takes(arguments, **{f"{name}.{field}": getattr(parts[name], field)})


_TYPES = {
    "cohort": (base.Draw, "clients.everyone()"),
    "local": (base.Local, "clients.local_sgd(loss, ...)"),
    "layers": (base.Layer, "layers.stack(send=layers.plain())"),
    "channel": (base.Channel, "channels.erasure(0.1)"),
    "aggregate": (base.Aggregator, "aggregators.mean(), or from_host(function)"),
    "server": (optax.GradientTransformation, "optax.sgd(1.0)"),
}
_ARGUMENTS = {
    ("cohort", "init"): "key, n",
    ("cohort", "apply"): "key, state, round, count",
    ("local", "init"): "n, params",
    ("local", "apply"): "key, memory, params, data, cohort",
    ("channel", "transmit"): "key, y, cohort",
    ("channel", "receive"): "key, received",
    ("channel", "respond"): "key, alive, cohort",
    ("aggregate", "init"): "d",
    ("aggregate", "apply"): "key, state, received",
    ("server", "init"): "params",
    ("server", "update"): "updates, state, params",
}


def combine_of(layers: base.Layer, cohort: base.Draw, channel: base.Channel) -> base.Combine:
    """How uploads become rows.

    Raises:
      ValueError: `layers` do not say so, combine another number of groups than `cohort` draws, need a count of uploads
        that `channel` hides, or take something else of several antennas than `channel` gives.
    """
    combine = layers.combine
    if combine is None:
        raise ValueError("layers must end in one that says how uploads combine, such as plain() or pairwise_masks()")
    if cohort.num_groups != combine.num_groups:
        more = max(cohort.num_groups, combine.num_groups)
        raise ValueError(
            f"cohort must draw as many groups as layers sum, {combine.num_groups}, got {cohort.num_groups}: "
            f"everyone(num_groups={more}) goes with plain(num_groups={more}), or combine=float_sum({more}) of your own"
        )
    if layers.needs_count and channel.hides_count:
        raise ValueError("layers must not need the number of uploads, which channel hides (known_count=False)")
    if layers.antennas != channel.antennas:
        raise ValueError(
            f"layers must take of several antennas what channel gives, {channel.antennas}, got {layers.antennas}: "
            "blind_mean(...) goes with antenna_array(...), both with one every_antenna and coordinates_per_use"
        )
    return combine


def check_versions(cohort: base.Draw, local: base.Local, aggregate: base.Aggregator) -> None:
    """Checks that clients which train models of earlier rounds are told nothing else with the model, nor refuse one.

    Raises:
      ValueError: they are, and would get numbers of another round; or they do.
    """
    if cohort.versions > 1 and local.digest:
        raise ValueError("local must not be once_per_model(...) where cohort lets clients train earlier models")
    if cohort.versions > 1 and aggregate.tells:
        raise ValueError("aggregate must not tell clients its numbers where cohort lets them train earlier models")


def check_lies(
    lying_server: base.LyingServer | None, cohort: base.Draw, layers: base.Layer, aggregate: base.Aggregator
) -> None:
    """Checks that clients act on the lies they are told.

    Raises:
      ValueError: `lying_server` is of another type, lies about survivors to layers that have no lists of them, or hands
        out models where clients train earlier ones or are told numbers with the model; or layers need digests of them.
    """
    if layers.sums.digest and (cohort.versions > 1 or aggregate.tells):
        raise ValueError("layers must not bind the model where clients train earlier ones or are told more than it")
    if lying_server is None:
        return
    _validate.part(base.LyingServer, "attacks.split_lists(10, threshold=6)", lying_server=lying_server)
    if lying_server.models is not None:
        _validate.takes("key, state", models=lying_server.models)
        if cohort.versions > 1 or aggregate.tells:
            raise ValueError("lying_server must hand out no models where clients train earlier ones or are told more")
    if lying_server.lists is not None:
        _validate.takes("alive, cohort", lists=lying_server.lists)
        if not layers.sums.by_list:
            raise ValueError("layers must open secrets by lists of survivors, such as pairwise_masks(), to lie about")


def check_rejected(layers: base.Layer) -> None:
    """Checks, of layers that reject uploads, that what is opened instead does not show them.

    Raises:
      ValueError: it does.
    """
    if layers.sums.shows_rejected:
        raise ValueError(
            "layers must end in masks that hide rejected uploads, such as pairwise_masks(), below validate_norm(): "
            "those of enrolled_masks() are taken off them, as off those that were lost"
        )


def lists_of(lying_server: base.LyingServer, alive: Array, cohort: base.Cohort) -> base.Lists:
    """What each client is told of the survivors.

    Raises:
      ValueError: it is no bool array `[n, n]`.
    """
    assert lying_server.lists is not None
    told, n = lying_server.lists(alive, cohort), alive.size
    if jnp.shape(told) != (n, n) or jnp.result_type(told) != jnp.bool_:
        raise ValueError(f"lists must return bool ({n}, {n}), got {jnp.result_type(told)} {jnp.shape(told)}")
    colluding = jnp.isin(cohort.client, jnp.array(lying_server.colluding, jnp.int32))
    return base.Lists(jnp.asarray(told), colluding)


def check_params(params: PyTree) -> None:
    """Checks that all leaves are float32, which updates, client state and counts of bits are made for; not none."""
    if not sum(np.size(leaf) for leaf in jax.tree.leaves(params)):
        raise ValueError("params must have at least one number, got none")
    for path, leaf in jax.tree.leaves_with_path(params):
        if getattr(leaf, "dtype", type(leaf)) != np.float32:
            got = getattr(leaf, "dtype", type(leaf).__name__)
            raise ValueError(f"params must have float32 leaves, got {got} in params{jax.tree_util.keystr(path)}")


def checked_clients(data: base.ClientData, num_clients: int | None) -> base.ClientData:
    """The data, with counts of a type that holds sums, of as many clients as the parts expect."""
    n = data.count.shape[0]
    if num_clients not in (None, n):
        raise ValueError(f"num_clients must be the number of clients in data, {n}, got {num_clients}")
    return data._replace(count=jnp.asarray(data.count, jnp.int32))


def check_total(data: base.ClientData) -> None:
    """Checks, where the host has the counts, that their sum is an int32."""
    if isinstance(data.count, Tracer) or not getattr(data.count, "is_fully_addressable", True):
        return
    if (total := int(np.asarray(data.count).sum(dtype=np.int64))) >= 2**31:
        raise ValueError(f"data.count must add to fewer than 2**31 samples, got {total}")


def check_size(d: int, told: int = 0) -> None:
    """Checks that the bits of a model, and of the `told` numbers that go with it, fit in uint32."""
    if 32 * (d + max(told, 1)) >= 2**32:
        most = 2**27 - max(told, 1)
        raise ValueError(f"params must have fewer than {most} elements, as bits are counted in uint32, got {d}")


def check_drawn(who: base.Cohort, parts: Parts) -> None:
    """Checks what a cohort carries against what layers and channel can take.

    Raises:
      ValueError: uploads have factors and `layers` cannot multiply them, or are more than a sum can hold; clients do
        not know their gains and `channel` takes what they know for the truth; or one of cohort and `channel` alone has
        several antennas.
    """
    if not base.absent(who.factor) and parts.combine.times is None:
        raise ValueError("layers must end in one whose sums may be weighed, such as plain_field() or coded_masks()")
    if not base.absent(who.coefficient) and not parts.channel.turns:
        raise ValueError("channel must be true_gains(...) where clients do not know their gains, got another one")
    if isinstance(who.antennas, base.Antennas) != bool(parts.channel.antennas):
        raise ValueError("channel must be antenna_array(...) where the server has several antennas, and only there")
    most, k = parts.combine.max_uploads, who.client.shape[0]
    if most is not None and k > most:
        raise ValueError(f"cohort must hold at most {most} clients for an exact sum, got {k}")


def check_rows(state: base.RoundState, who: base.Cohort, data: base.ClientData) -> None:
    """Checks that client state and samples have a row for everyone, or for the cohort in its order.

    Raises:
      ValueError: they have another number of rows.
    """
    n, k = data.count.shape[0], who.client.shape[0]
    for name, tree in (("state", (state.memory, state.layers)), ("data", data.examples)):
        for rows in jax.tree.leaves(tree):
            if rows.shape[0] not in (n, k):
                raise ValueError(f"{name} must have one row per client of data, {n}, got {rows.shape[0]}")
