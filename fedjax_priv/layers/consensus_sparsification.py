"""Consensus sparsification (ConSpar, the first part of FedREP): all clients send the coordinates that any of them
proposes.

Every client proposes a few coordinates in the clear, and all send those in the union I. So a secure sum below needs no
positions, and distances between clients depend only on the values on I.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Kept, Key, Layer, Link, Received, Sent
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.keys import each_named, named, per_client
from fedjax_priv.layers.coordinate_sets import check_sizes, random_coordinates
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.layers.sparsification import Sparse, check_width
from fedjax_priv.layers.stacking import stateless
from fedjax_priv.status import Status

Proposals = Int32[Array, "m n"]
"""The coordinates each client proposes."""

CoordinateAttack = Callable[[Key, Float32[Array, "m d"], Proposals, Bool[Array, " m"]], Proposals]
"""`(key, vectors [m, d], proposals [m, n], honest [m]) -> [m, n]`: what each client would propose if it were Byzantine.

`proposals` are what all clients would propose if honest, distinct in a row, as must be those returned. A row may depend
on the honest rows and on itself. Draws are by row.
"""


def conspar(
    num_params: int, num_coordinates: int, *, alpha: float | Array = 0.0, attack: CoordinateAttack | None = None
) -> Layer:
    """Cuts updates `[m, d]` plus memory to the round's union of proposals: uploads `[m, K]`, rows `Sparse [g, K]`.

    A client proposes n coordinates: those of its n largest magnitudes, each replaced with probability alpha by a random
    coordinate outside the ones it keeps. The server announces the union I in ascending order; the client sends its
    values on I and keeps the others for its next update, or all of them if its upload is lost. I takes up to K = min(m
    n, d) places. Unused places are zero and cost no bits, so layers below must send the same number of bits for every
    value and say it (`base.Sent.each`), as masks of all coordinates do. A proposal that is not n distinct coordinates
    is ignored. The layer looks across clients: O(m d) memory.

    The phase "propose" counts proposals up and the union down, indices of ceil(log2 d) bits; the phase "model" counts
    the aggregate on I, 32 bits a value, since clients know the rest of the model.

    Args:
      num_params: coordinates of an update, d.
      num_coordinates: coordinates a client proposes, n.
      alpha: in [0, 1]; hides which proposals are true (Theorem 2 of FedREP). May be traced.
      attack: on the proposals of Byzantine clients; None: they propose honestly.

    Raises:
      ValueError: a size is not an integer >= 1, `num_coordinates` is above `num_params`, alpha is outside [0, 1] (a
        traced one sets `NOT_FINITE`), `attack` is no function of four arguments or, when a round is traced, updates or
        the attack's proposals have another shape, or a layer below does not say what a value costs.

    Source: FedREP, Section 3 and Algorithm 1.

    Examples:
      >>> send = stack(vote=conspar(1000, 5, alpha=0.1), quantize=quantize(2.0**16, 10), send=plain_field())
    """
    num_params = check_sizes(num_params, num_coordinates=num_coordinates)
    alpha = _validate.fraction(alpha=alpha)
    if attack is not None:
        _validate.function(4, "attacks.random_set()", coordinate_attack=attack)

    def encode(key: Key, memory: Array, public: tuple, x: Array, cohort: Cohort) -> tuple[Array, Kept, Sent]:
        check_width(x, num_params)
        v = x + memory
        sent = _proposals(key, v, cohort, num_coordinates, alpha, attack)
        position = union(sent, num_params)
        y = v.at[:, position].get(mode="fill", fill_value=0)
        unused = (position == num_params).sum(dtype=jnp.uint32)
        kept = v.at[:, position].set(0, mode="drop")
        status, out_of_range = range_status(v, jnp.inf), jnp.where(jnp.isnan(alpha), int(Status.NOT_FINITE), 0)
        go_on = Kept(counted=kept, lost=rows_where(status == 0, v, memory))
        return y, go_on, Sent(0, status, out_of_range, sent, unused=unused)

    def decode(position: Array, public: tuple, received: Received) -> Received:
        value = jnp.where(position < num_params, received.value, 0)
        return received._replace(value=Sparse(value, jnp.broadcast_to(position, value.shape)))

    return stateless(whole=True)._replace(
        init=lambda key, n: jnp.zeros((n, num_params), jnp.float32),
        advertise=lambda key, state, cohort: (state, (), {}),
        encode=encode,
        disclose=lambda private, public, clear, alive, online: _announced(clear, num_coordinates, num_params),
        decode=decode,
    )


def _proposals(
    key: Key, v: Array, cohort: Cohort, n: int, alpha: float | Array, attack: CoordinateAttack | None
) -> Proposals:
    """What each client proposes; d, which is no coordinate, for those that take no part."""
    choose = lambda key, v: propose(key, v, n, alpha)
    own = jax.vmap(choose)(per_client(lambda key: key, named(key, "propose"), cohort.client), v)
    if attack is not None:
        forged = attack(named(key, "attack"), v, own, cohort.selected & ~cohort.byzantine)
        if (shape := jnp.shape(forged)) != own.shape:
            raise ValueError(f"coordinate_attack must return proposals of shape {own.shape}, got {shape}")
        own = jnp.where(cohort.byzantine[:, None], forged, own)
    return jnp.where(cohort.selected[:, None], own, v.shape[1])


def _announced(proposals: Proposals, num_coordinates: int, num_params: int) -> tuple[Int32[Array, " K"], Bits]:
    """The union, and bits of clients that took part: proposals up, the union and the aggregate on it down."""
    position = union(proposals, num_params)
    index_bits = max(1, (num_params - 1).bit_length())
    size = (position < num_params).sum(dtype=jnp.uint32)
    took_part = (proposals != num_params).any(1)
    one = lambda bits: jnp.where(took_part, jnp.uint32(bits), 0)
    proposed = Link(one(num_coordinates * index_bits), one(index_bits * size))
    return position, {"propose": proposed, "model": Link(one(0), one(32 * size))}


def propose(key: Key, v: Float32[Array, " d"], n: int, alpha: float | Array) -> Int32[Array, " n"]:
    """One client's proposal: distinct coordinates, the largest magnitudes or, each with probability alpha, random ones.

    They are in ascending order, since any other order would tell which of them are true. Ties go to the lower
    coordinate. Independent replacement makes their number Binomial(n, alpha) and those that stay a uniform subset; the
    replacements are uniform outside that subset.
    """
    largest = jax.lax.top_k(jnp.abs(v), n)[1]
    keys = each_named(key, ("replace", "random"))
    replaced = jax.random.uniform(keys["replace"], (n,)) < alpha
    kept = jnp.zeros(v.size, bool).at[largest].set(~replaced)
    other, d = keys["random"], v.size
    candidate = random_coordinates(other, d, n) if 2 * n <= d else jax.random.permutation(other, d)[:n]
    new = ~kept[candidate]  # n of them at least
    fresh = jnp.zeros(n, candidate.dtype).at[jnp.where(new, jnp.cumsum(new) - 1, n)].set(candidate, mode="drop")
    return jnp.sort(jnp.where(replaced, fresh[jnp.cumsum(replaced) - 1], largest))


def is_legal(proposals: Proposals, num_params: int) -> Bool[Array, " m"]:
    """Whether a client's coordinates are distinct and below d."""
    ordered = jnp.sort(proposals, axis=1)
    return ((ordered >= 0) & (ordered < num_params)).all(1) & (ordered[:, 1:] != ordered[:, :-1]).all(1)


def union(proposals: Proposals, num_params: int) -> Int32[Array, " K"]:
    """The coordinates of all legal proposals, ascending, then d as padding; K = min(m n, d)."""
    slots = min(proposals.size, num_params)
    legal = jnp.where(is_legal(proposals, num_params)[:, None], proposals, num_params)
    ordered = jnp.sort(legal, axis=None)
    again = jnp.append(False, ordered[1:] == ordered[:-1])
    return jnp.sort(jnp.where(again, num_params, ordered))[:slots].astype(jnp.int32)
