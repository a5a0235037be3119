"""Updates as complex symbols: one coordinate in each complex use of the channel, or two."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Received, Sent, absent
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.layers.stacking import stateless

PerUse = Literal[1, 2]


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Length:
    """How many numbers an update has; known to all, and no array."""

    num_params: int


def complex_symbols(knowledge: Any, coordinates_per_use: PerUse = 1) -> Layer:
    """Complex symbols, for clients that do not know their gains: u is what arrives of one, see `channels.true_gains`.

    `[b, d]` becomes `[b, 2 m]`: the real parts of m symbols, then their imaginary parts. One coordinate per use is the
    real part of its symbol, so m = d and imaginary parts are 0; the receiver takes the real part, over `E u`. With two,
    coordinates 2 i and 2 i + 1 are real and imaginary part of symbol i, and m = ceil(d / 2); an odd d leaves the last
    coordinate alone. Unless u is real, the two mix: `theory.wireless.misaligned_error`. The server gets all parts.

    Measured, for every client: `coefficient_real` and `coefficient_imaginary` of u, and of its pilots `pilot_uses` and
    `pilot_energy`; for those that send, else 0: `channel_uses`, 2 m real ones.

    Args:
      knowledge: of a `Fading`, such as `channels.estimated(...).knowledge`.
      coordinates_per_use: 1 or 2.

    Raises:
      ValueError: `coordinates_per_use` is neither.

    Examples:
      >>> fading = fedjax_priv.channels.turned(fedjax_priv.channels.rayleigh(), deviation=0.8)
      >>> pairs = complex_symbols(fading.knowledge, coordinates_per_use=2)
      >>> send = stack(align=align(0.1, max_norm=1.0), symbols=pairs, send=waveform())
    """
    _validate.one_of((1, 2), coordinates_per_use=coordinates_per_use)

    def encode(key: Key, private: tuple, public: PyTree, x: Float[Array, "b d"], cohort: Cohort) -> tuple:
        del key, private, public
        y = symbols_of(x, coordinates_per_use)
        all_of = lambda value: jnp.broadcast_to(jnp.asarray(value, jnp.float32), cohort.gain.shape)
        real, imaginary = (1.0, 0.0) if absent(cohort.coefficient) else cohort.coefficient.T
        sent = only_rows(cohort.selected, {"channel_uses": all_of(y.shape[1])})
        about = {
            "coefficient_real": all_of(real), "coefficient_imaginary": all_of(imaginary),
            "pilot_uses": all_of(knowledge.uses), "pilot_energy": all_of(knowledge.energy),
        }  # fmt: skip
        return y, (), Sent(measured=about | sent, clear=Length(x.shape[1]))

    def decode(header: Length, public: PyTree, received: Received) -> Received:
        del public
        return received._replace(value=coordinates_of(received.value, header, coordinates_per_use) / knowledge.mean)

    return stateless()._replace(encode=encode, disclose=disclose_length, decode=decode)


def disclose_length(private: PyTree, public: PyTree, clear: Length, alive: Array, online: Array) -> tuple:
    """`disclose` of a layer that decodes symbols: the server knows how many coordinates they carry."""
    del private, public, alive, online
    return clear, {}


def symbols_of(x: Float[Array, "b d"], coordinates_per_use: PerUse) -> Float[Array, "b m2"]:
    """Real parts of symbols, then as many imaginary ones."""
    if coordinates_per_use == 1:
        return jnp.concatenate([x, jnp.zeros_like(x)], axis=1)
    whole = jnp.pad(x, [(0, 0), (0, x.shape[1] % 2)])
    return jnp.concatenate([whole[:, ::2], whole[:, 1::2]], axis=1)


def coordinates_of(y: Float[Array, "g m2"], length: Length, coordinates_per_use: PerUse) -> Float[Array, "g d"]:
    """The coordinates that symbols carry."""
    parts = jnp.split(y, 2, axis=1)
    if coordinates_per_use == 1:
        return parts[0]
    return jnp.stack(parts, axis=2).reshape(len(y), -1)[:, : length.num_params]


def times(x: Float[Array, "... m2"], real: Array, imaginary: Array) -> Float[Array, "... m2"]:
    """Rows of symbols times complex numbers that are broadcast to `[..., m]`."""
    of_real, of_imaginary = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([of_real * real - of_imaginary * imaginary, of_real * imaginary + of_imaginary * real], -1)
