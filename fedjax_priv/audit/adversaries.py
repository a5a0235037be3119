"""What an adversary makes of a round: scores of the server, of an outsider, and of colluding clients.

`toward` comes from a canary: parameters -> `[d]`, or `[m, d]` of many canaries at once.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv.audit.worlds import Score, Seen
from fedjax_priv.base import View
from fedjax_priv.crypto import field
from fedjax_priv.layers.sparsification import Sparse

Toward = Callable[[PyTree], Array]


def outsider(toward: Toward) -> Score:
    """Anyone who sees the released models: how far the model moved along the canary."""
    flat = lambda params: ravel_pytree(params)[0]
    return lambda seen: toward(seen.before) @ (flat(seen.before) - flat(seen.after))


def server(toward: Toward) -> Score:
    """The server of a sum: the direction it gives to its optimizer; 0 in a round that failed."""
    return lambda seen: toward(seen.before) @ _direction(seen)


def what_happened(seen: Seen) -> Float[Array, " 3"]:
    """The server: whether the round failed, how many uploads counted, and whether none did.

    A client whose data make a round fail, or its upload drop out, shows it here, whatever the noise.
    """
    counted = jnp.where(seen.info.status == 0, seen.info.counted.sum(), 0)
    return jnp.stack([each.astype(jnp.float32) for each in (seen.info.status != 0, counted, counted == 0)])


def stood_still(seen: Seen) -> Float[Array, ""]:
    """Anyone who sees the released models: whether a round changed nothing, as a failed or an empty one does."""
    pairs = zip(jax.tree.leaves(seen.before), jax.tree.leaves(seen.after), strict=True)
    same = [(before == after).all() for before, after in pairs]
    return jnp.stack(same).all().astype(jnp.float32)


def coalition(toward: Toward, colluding: int) -> Score:
    """The server of a mean and the last clients of each round, never the first, who subtract their own updates."""

    def score(seen: Seen) -> Array:
        counted = seen.info.counted
        theirs = counted & (jnp.arange(counted.size) >= max(counted.size - colluding, 1))
        number = counted.sum().astype(jnp.float32)
        return toward(seen.before) @ (number * _direction(seen) - theirs.astype(jnp.float32) @ seen.updates)

    return score


def uploads(toward: Toward, client: int = 0) -> Score:
    """A server that sees each upload: the upload of the client with the canary."""

    def score(seen: Seen) -> Array:
        u = toward(seen.before)
        here = seen.info.client == client
        row = upload_of(seen.info.observed, jnp.argmax(here), u.shape[-1])
        return jnp.where(here.any(), u @ row, 0.0)

    return score


def upload_of(view: View, place: ArrayLike, num_params: int) -> Float[Array, " d"]:
    """An upload that travelled in the clear, as numbers: floats, some coordinates, or grid points of a field."""
    sent = view.uploads
    if isinstance(sent, Sparse):
        row = jnp.zeros(num_params).at[sent.position[place]].set(sent.value[place], mode="drop")
    elif sent.dtype == jnp.uint32:
        row = field.to_signed(sent[place])[:num_params].astype(jnp.float32)
    else:
        row = sent[place, :num_params]
    return row


def on_the_air(toward: Toward, *, clip: float, noise_variance: float, receiver_noise: float) -> Score:
    """The server of a multiple-access channel that knows how many sent: the log of the ratio of the two laws.

    Of a direction canary among clients that join with one probability, all at the clipping norm; receiving R signals it
    is one of them with probability R / n.
    """

    def score(seen: Seen) -> Array:
        received, size = seen.info.observed.received, seen.info.client.size
        number = received.count[0].astype(jnp.float32)
        deviation = jnp.sqrt(number * noise_variance + receiver_noise)
        shift = 2 * clip / deviation
        z = (received.value[0] @ toward(seen.before) + number * clip) / deviation
        fraction = number / size
        return jnp.logaddexp(jnp.log1p(-fraction), jnp.log(fraction) + shift * z - jnp.square(shift) / 2)

    return score


def proposal(num_coordinates: int, layer: str = "conspar") -> Score:
    """The server of FedREP, which sees what client 0 proposes, of a `proposal_canary`.

    It counts U, U', the coordinates that are among the largest of each input. The ratio of the two laws rises with U at
    U - U' = 1.
    """

    def score(seen: Seen) -> Array:
        own = seen.info.observed.clear[layer][0]
        first, second = ((own >= start) & (own < start + num_coordinates) for start in (0, 1))
        first, second = first.sum().astype(jnp.float32), second.sum().astype(jnp.float32)
        return (first - second) * jnp.maximum(first, second)

    return score


def _direction(seen: Seen) -> Array:
    return jnp.where(seen.info.status == 0, seen.info.direction, 0.0)
