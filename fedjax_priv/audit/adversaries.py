"""How an adversary scores a round: the server, an outsider, or colluding clients.

`toward` is a function of a canary: parameters -> `[d]`, or `[m, d]` for m canaries at once.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fedjax_priv.audit.coalitions import left_of_updates
from fedjax_priv.audit.readings import Reading, Toward
from fedjax_priv.audit.whole_uploads import upload_of
from fedjax_priv.audit.worlds import Score, Seen
from fedjax_priv.clients.bounded_updates import CLIP
from fedjax_priv.layers.blind_combining import turned


def moved(seen: Seen) -> Float[Array, " d"]:
    """The released model before the round minus the model after it."""
    flat = lambda params: ravel_pytree(params)[0]
    return flat(seen.before) - flat(seen.after)


def direction(seen: Seen) -> Float[Array, " d"]:
    """The direction that the server gives to its optimizer; 0 in a round that failed."""
    return jnp.where(seen.info.status == 0, seen.info.direction, 0.0)


def upload(seen: Seen, client: int = 0, *, dense: bool = False) -> Float[Array, " d"]:
    """A client's upload in the clear; 0 if the client is not in the round. `dense`: see `upload_of`."""
    here = seen.info.client == client
    row = upload_of(seen.info.observed, jnp.argmax(here), seen.info.direction.size, dense=dense)
    return jnp.where(here.any(), row, 0.0)


def own_update(seen: Seen) -> Float[Array, " d"]:
    """The update of client 0, for an adversary that sees every local step; 0 if client 0 is not in the round."""
    here = seen.who.client == 0
    return jnp.where(here.any(), seen.updates[jnp.argmax(here)], 0.0)


def outsider(toward: Toward) -> Score:
    """Score of anyone who sees the released models: how far the model moved along the canary.

    Args:
      toward: the canary as a direction, parameters -> `[d]`, or `[m, d]` for m canaries.
    """
    return lambda seen: toward(seen.before) @ moved(seen)


def server(toward: Toward) -> Score:
    """Score of a server that sees a sum: `direction` along the canary.

    Args:
      toward: the canary as a direction, parameters -> `[d]`, or `[m, d]` for m canaries.
    """
    return lambda seen: toward(seen.before) @ direction(seen)


def what_happened(seen: Seen) -> Float[Array, " s"]:
    """Scores of the server: whether the round failed, how many uploads counted, whether none did; log clipping norm.

    The noise of the sum does not protect these numbers. If a client's data make the round fail, make its upload drop
    out or move the clipping norm that the server announces, they show it.
    """
    counted = jnp.where(seen.info.status == 0, seen.info.counted.sum(), 0)
    told = [jnp.log(seen.info.measured[CLIP][0])] if CLIP in seen.info.measured else []
    return jnp.stack([each.astype(jnp.float32) for each in (seen.info.status != 0, counted, counted == 0, *told)])


def stood_still(seen: Seen) -> Float[Array, ""]:
    """Score of anyone who sees the released models: 1 if the round changed nothing, as it failed or was empty."""
    pairs = zip(jax.tree.leaves(seen.before), jax.tree.leaves(seen.after), strict=True)
    same = [(before == after).all() for before, after in pairs]
    return jnp.stack(same).all().astype(jnp.float32)


def coalition(toward: Toward, colluding: int) -> Score:
    """Score of a server that sees a mean and colludes with the last clients: they subtract their own updates.

    Args:
      toward: the canary as a direction, parameters -> `[d]`, or `[m, d]` for m canaries.
      colluding: how many of the last clients collude; client 0, which has the canary, never does.
    """
    left, *_ = left_of_updates(colluding)
    return lambda seen: toward(seen.before) @ left(seen)


def uploads(toward: Toward, client: int = 0) -> Score:
    """Score of a server that sees each upload: the upload of the canary's client along the canary.

    Args:
      toward: the canary as a direction, parameters -> `[d]`, or `[m, d]` for m canaries.
      client: whose canary it is.
    """
    return lambda seen: toward(seen.before) @ upload(seen, client)


def ratio_on_the_air(*, clip: float, noise_variance: float, receiver_noise: float) -> Reading:
    """Reading of a server behind a multiple-access channel that knows how many clients sent: the log-likelihood ratio.

    The canary is a pair of given updates. All updates are at the clipping norm, and all n clients join with the same
    probability: if R sent, client 0 is among them with probability R / n.
    """

    def reading(seen: Seen, u: Array) -> tuple[Array, Array]:
        received, size = seen.info.observed.received, seen.info.client.size
        number = received.count[0].astype(jnp.float32)
        level = seen.info.measured["level"][0] if "level" in seen.info.measured else 1.0
        deviation = jnp.sqrt(number * noise_variance + receiver_noise / level**2)
        shift = 2 * clip / deviation
        terms = u * (received.value[0] / level + number * clip * u)
        fraction = number / size
        of_one = jnp.log(fraction) + shift * terms.sum() / deviation - jnp.square(shift) / 2
        return jnp.logaddexp(jnp.log1p(-fraction), of_one), terms

    return reading


def ratio_of_complex_signals(
    *, clip: float, noise_variance: float, receiver_noise: float, coordinates_per_use: int = 1
) -> Reading:
    """Reading of a server behind a channel whose gains users do not know exactly: the log-likelihood ratio.

    The canary is a pair of given updates, and all updates are at the clipping norm. The server receives real and
    imaginary parts, and knows who sends and with which coefficients it receives them.
    """

    def reading(seen: Seen, u: Array) -> tuple[Array, Array]:
        level = seen.info.measured["level"][0] if "level" in seen.info.measured else 1.0
        about = clip, noise_variance, receiver_noise, coordinates_per_use
        return _of_parts(seen, u, level * seen.who.coefficient, *about)

    return reading


def ratio_of_antennas(
    *,
    clip: float,
    noise_variance: float,
    receiver_noise: float,
    amplitude: float | Callable,
    coordinates_per_use: int = 1,
) -> Reading:
    """Reading of a server that has the signal of every antenna: the log-likelihood ratio, given all gains.

    The canary is a pair of given updates, all updates are at the clipping norm, and clients know nothing of their
    channels.
    """

    def reading(seen: Seen, u: Array) -> tuple[Array, Array]:
        b = amplitude(u.size) if callable(amplitude) else amplitude
        gains = seen.who.antennas.gain.reshape(seen.who.client.size, -1)
        return _of_parts(seen, u, b * gains, clip, noise_variance, receiver_noise, coordinates_per_use)

    return reading


def _of_parts(
    seen: Seen,
    u: Array,
    coefficients: Float[Array, "n r"],
    clip: float,
    noise_variance: float,
    receiver_noise: float,
    coordinates_per_use: int,
) -> tuple[Array, Array]:
    """The log-likelihood ratio of a signal in r real parts, each of m symbols; row k has the coefficients of client k.

    If a symbol carries two coordinates, noise of clients fills all its directions; if one, only that coordinate's.
    """
    coefficients = jnp.where(seen.who.selected[:, None], coefficients, 0)
    by_imaginary = turned(coefficients.reshape(len(coefficients), -1, 2)).reshape(coefficients.shape)
    both = jnp.stack([coefficients, by_imaginary])  # by which real and imaginary parts are received
    own = jnp.where(seen.who.client[0] == 0, both[:, 0], 0)
    place = jnp.arange(u.size)
    symbol, kind = place // coordinates_per_use, place % coordinates_per_use
    alone = (kind == 0) & (place == u.size - 1) if coordinates_per_use == 2 else jnp.ones(u.shape, bool)
    noises = noise_variance * jnp.einsum("pnr,pns->prs", both, both)
    small = receiver_noise * jnp.eye(both.shape[2]) + noises[0]
    of_alone, of_pair = (jnp.linalg.solve(noise, 2 * clip * own.T).T for noise in (small, small + noises[1]))
    weights = jnp.where(alone[:, None], of_alone[kind], of_pair[kind])
    parts = seen.info.observed.received.value[0].reshape(both.shape[2], -1)
    sent = jnp.zeros_like(parts).at[:, symbol].add((u[:, None] * both.sum(1)[kind]).T)
    along = lambda signal: (weights * signal.T[symbol]).sum(1)
    moved = clip * (jnp.square(u)[:, None] * weights * own[kind]).sum()
    return u @ along(parts + clip * sent) - moved, u * along(parts)


def on_the_air(toward: Toward, *, clip: float, noise_variance: float, receiver_noise: float) -> Score:
    """Score of the server: the log-likelihood ratio of `ratio_on_the_air`.

    Args:
      toward: the canary as a direction, parameters -> `[d]`, or `[m, d]` for m canaries.
      clip: L, the norm of every update.
      noise_variance: sigma^2 of each client's noise at a coordinate.
      receiver_noise: N0.
    """
    reading = ratio_on_the_air(clip=clip, noise_variance=noise_variance, receiver_noise=receiver_noise)
    return lambda seen: reading(seen, toward(seen.before))[0]


def proposal(num_coordinates: int, layer: str = "conspar") -> Score:
    """Score of the server of FedREP, which sees the proposal of client 0, for a `proposal_canary`.

    U and U' count the proposed coordinates that are among the largest of the first and of the second input. Where
    U - U' = 1, the likelihood ratio rises with U. Coordinate 0 is in the proposal then, and in ascending order it is
    the first. In another order, which may tell more than the set, proposals that begin with 0 count more. A client that
    is lost has proposed before.

    Args:
      num_coordinates: n, coordinates that a client proposes.
      layer: name of the layer `conspar` in the stack.
    """

    def score(seen: Seen) -> Array:
        view = seen.info.observed
        own = view.clear[layer][0] + view.unsent[layer][0]  # one of them is zero
        first, second = ((own >= start) & (own < start + num_coordinates) for start in (0, 1))
        first, second = first.sum().astype(jnp.float32), second.sum().astype(jnp.float32)
        in_place = (first > second) & (own[0] == 0)
        return (first - second) * jnp.maximum(first, second) + jnp.where(in_place, 0.5, 0.0)

    return score
