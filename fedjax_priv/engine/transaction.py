"""A round as a transaction: which groups and which rounds fail, and which state everybody keeps."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from fedjax_priv.base import ClientData, Cohort, Kept, Received, RoundState, absent
from fedjax_priv.engine.client_rows import put_rows, rows_where
from fedjax_priv.engine.upload import Uploaded
from fedjax_priv.status import Status

SERVER = ("params", "server", "aggregate", "last")
"""What the server computes of a round, among the fields of `RoundState`."""


def judge(groups: Received, refused: Array, alive: Array, who: Cohort) -> tuple[Received, Array]:
    """Leaves out each group that is refused for a member's upload or by the server, not recovered, or not finite.

    Returns:
      The groups, `count` 0 where left out, and their status `[g]`: the reasons, 0 for a group without members. A client
      whose group has no row makes all groups fail.
    """
    num_groups = groups.count.shape[0]
    flags = jnp.array([bit for bit in Status if bit], jnp.int32)
    raised = alive[:, None] & (refused[:, None] & flags[None, :] > 0)
    members = jax.ops.segment_sum(
        jnp.concatenate([who.selected[:, None], raised], 1).astype(jnp.int32), who.group, num_groups
    )
    reasons = jnp.where(members[:, 1:] > 0, flags[None, :], 0).sum(1)
    told = jnp.zeros(num_groups, jnp.int32) if absent(groups.status) else groups.status
    lost = jnp.where((groups.count == 0) & (members[:, 0] > 0) & (told == 0), int(Status.NOT_RECOVERED), 0)
    finite = [jnp.isfinite(rows.reshape(num_groups, -1)).all(1) for rows in jax.tree.leaves(groups.value)]
    broken = jnp.where((groups.count > 0) & ~jnp.stack(finite).all(0), int(Status.NOT_FINITE), 0)
    stray = (who.selected & ((who.group < 0) | (who.group >= num_groups))).any()
    group_status = reasons | told | lost | broken | jnp.where(stray, int(Status.CAP_OVERFLOW), 0)
    return groups._replace(count=jnp.where(group_status == 0, groups.count, 0)), group_status


def honest_groups(groups: Received, alive: Array, who: Cohort) -> Bool[Array, " g"]:
    """Groups that are there, and to which no Byzantine client's upload was added; one that was lost does no harm."""
    attacked = jax.ops.segment_sum((alive & who.byzantine).astype(jnp.int32), who.group, groups.count.shape[0])
    return (groups.count > 0) & (attacked == 0)


def round_status(groups: Received, group_status: Array, moved: RoundState, needs_rows: bool) -> Array:
    """A round fails if no group is left, for the groups' reasons, or if what the server would keep is not finite.

    An aggregator that needs no rows needs no group.
    """
    reasons = jnp.bitwise_or.reduce(group_status)
    reasons = jnp.where(reasons > 0, reasons, int(Status.NOT_RECOVERED))
    finite = jnp.stack([jnp.isfinite(a).all() for a in _at_stake(moved)]).all()
    enough = (groups.count > 0).any() if needs_rows else True
    return jnp.where(enough, jnp.where(finite, 0, int(Status.NOT_FINITE)), reasons)


def order_status(who: Cohort, data: ClientData) -> Array:
    """A round fails if a cohort as large as the population is not that in order: rows would be those of others."""
    n = data.count.shape[0]
    moved = (who.client != jnp.arange(n)).any() if who.client.size == n else False
    return jnp.where(moved, int(Status.OUT_OF_ORDER), 0)


def _at_stake(moved: RoundState) -> list[Array]:
    """What the server keeps of a round that succeeds, but for what it keeps in any case: buffers may be large."""

    def of(node: PyTree) -> list[Array]:
        if not isinstance(node, Kept):
            return [node]
        either = zip(jax.tree.leaves(node.counted), jax.tree.leaves(node.lost), strict=True)
        return [good for good, bad in either if good is not bad]

    nodes = jax.tree.leaves([getattr(moved, name) for name in SERVER], is_leaf=_is_kept)
    return [leaf for node in nodes for leaf in of(node)]


def commit(
    state: RoundState, who: Cohort, counted: Array, status: Array, uploaded: Uploaded, moved: RoundState
) -> RoundState:
    """The state after the round; `moved` is the old one except for the draw and for what the server computed.

    A Byzantine client whose own checks failed keeps its state, as an honest one does, whose upload was rejected.
    """
    server = {name: _unless(status, getattr(moved, name), getattr(state, name)) for name in SERVER}
    sound = uploaded.sent.status == 0
    memory = put_rows(who, counted & sound, uploaded.memory, state.memory)
    layers = _next_layers(who, counted, sound, status, uploaded.layers, state.layers)
    return moved._replace(round=state.round + 1, memory=memory, layers=layers, **server)


def _next_layers(who: Cohort, counted: Array, sound: Array, status: Array, carried: PyTree, old: PyTree) -> PyTree:
    """Client state of the layers: new where the upload was accepted, or as `Kept` says."""
    moves = counted & sound

    def each(new: PyTree, old: PyTree) -> PyTree:
        if not isinstance(new, Kept):
            return put_rows(who, moves, new, old)
        lost = new.lost if new.unsound is None else rows_where(counted, new.unsound, new.lost)
        return put_rows(who, who.selected & (status == 0), rows_where(moves, new.counted, lost), old)

    return jax.tree.map(each, carried, old, is_leaf=_is_kept)


def _unless(status: Array, new: PyTree, old: PyTree) -> PyTree:
    """The new state, or the old one if a bit is set; where the new one is `Kept`, as that says."""

    def each(new: PyTree, old: PyTree) -> PyTree:
        good, bad = (new.counted, new.lost) if isinstance(new, Kept) else (new, old)
        return jax.tree.map(lambda a, b: a if a is b else jnp.where(status == 0, a, b), good, bad)

    return jax.tree.map(each, new, old, is_leaf=_is_kept)


def _is_kept(node: PyTree) -> bool:
    return isinstance(node, Kept)
