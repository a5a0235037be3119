"""One-bit uploads: clients send signs, and the server takes the sign of their sum.

Below `sign` stands what carries the signs: `plain_signs`, a bit each; `invert_gains` and `waveform`, aligned on the
air; or `tones` and `waveform`, for clients and a server that know no channel.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Key, Layer, Received, Sent
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.engine.quotients import quotient
from fedjax_priv.layers.group_sums import fixed_point_sum
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.layers.stacking import stateless


def sign() -> Layer:
    """`x -> sign(x)` in +-1, with sign(0) = +1; the sum is decoded to its sign (signSGD, Bernstein et al. 2018).

    If a sum is 0, a tie, it decodes to 0 and the coordinate does not move. With a receiver's noise there are no ties.
    Updates that are not finite set `NOT_FINITE`. Weights of clients cannot be carried.

    Examples:
      >>> from fedjax_priv.testing import cohort_of, run_layer
      >>> send, x = stack(sign=sign(), send=plain_signs()), jnp.array([[0.5, -3.0], [0.1, 2.0], [-9.0, -1.0]])
      >>> print(run_layer(send, jax.random.key(0), x, cohort_of(3), jnp.ones(3, bool))["received"].value)
      [[ 1. -1.]]
    """

    def decode(received: Received) -> Received:
        return received._replace(value=jnp.sign(received.value))

    return stateless(_signs, decode, sent=lambda x, y: Sent(status=range_status(x, jnp.inf)))


def plain_signs() -> Layer:
    """Signs in the clear, +1 or -1, one bit each. The server sees every vote.

    A bit holds a sign and nothing else: of any other number the sign is sent, for 0 it is +1, and for NaN -1.

    Examples:
      >>> send = stack(sign=sign(), send=plain_signs())
    """
    return stateless(_signs, sent=lambda x, y: Sent(jnp.uint32(x.shape[1])), combine=fixed_point_sum())


def _signs(key: Key, x: Float[Array, "b d"], cohort: Cohort) -> Float[Array, "b d"]:
    del key, cohort
    return jnp.where(x >= 0, 1.0, -1.0)


def invert_gains(level: float | Array = 1.0, *, byzantine_power: float | Array | None = None) -> Layer:
    """`x -> c x / h_k`: whatever the gain of a client's link, it is received at the amplitude c.

    The energy of a client is then `c**2 ||x||**2 / h_k**2`, whose mean is finite only if clients with weak links do not
    take part (`theory.wireless.truncation_level` has the c that a mean energy allows). What is sent depends on data
    only through x.

    Measured as by `align`: `gain`, `join_probability`; of those that send, else 0: the `amplitude`, 1 for honest ones,
    in units of c, the `energy` `||x_k||**2`, and the `channel_uses`, d.

    Args:
      level: c > 0; may be traced.
      byzantine_power: P > 0, energy of a channel use that Byzantine clients put into their signs, all of it, so that
        they are received at `h_k sqrt(P)`; None: at c like everybody.

    Raises:
      ValueError: an argument is not > 0.

    Examples:
      >>> send = stack(sign=sign(), invert=invert_gains(0.5), send=waveform())
    """
    level = _validate.positive(level=level)
    power = None if byzantine_power is None else _validate.positive(byzantine_power=byzantine_power)

    def encode(key: Key, private: tuple, public: PyTree, x: Float[Array, "b d"], cohort: Cohort) -> tuple:
        del key, private, public
        amplitude = jnp.ones_like(cohort.gain)
        if power is not None:
            amplitude = jnp.where(cohort.byzantine, quotient(cohort.gain * jnp.sqrt(power), level), amplitude)
        y = (level * amplitude / cohort.gain)[:, None] * x
        return y, (), Sent(measured=_measured(cohort, amplitude, y, x.shape[1]))

    return stateless()._replace(encode=encode)


def tones(energy: float | Array = 1.0) -> Layer:
    """Two tones, one for each sign: a client sends energy E on the tone of its sign, and the server compares the two.

    Source: Sahin et al. 2021.

    `[b, d]` signs become `[b, 4 d]`: the in-phase parts of all tones for +, then of those for -, and the quadratures in
    the same order. Nobody needs to know a gain or a phase, as `channels.unknown_phases` draws. A vote takes two complex
    uses of the channel, which are four real ones.

    Measured: `gain`, `join_probability`, and of those that send `amplitude` 1, `energy` d E and `channel_uses` 4 d.

    Args:
      energy: E > 0 of a vote; may be traced.

    Raises:
      ValueError: `energy` is not > 0.

    Examples:
      >>> send = stack(sign=sign(), tones=tones(2.0), send=waveform())
    """
    amplitude = jnp.sqrt(_validate.positive(energy=energy))

    def encode(key: Key, private: tuple, public: PyTree, x: Float[Array, "b d"], cohort: Cohort) -> tuple:
        del key, private, public
        tone = amplitude * jnp.concatenate([x > 0, x <= 0], axis=1).astype(jnp.float32)
        y = jnp.concatenate([tone, jnp.zeros_like(tone)], axis=1)
        return y, (), Sent(measured=_measured(cohort, jnp.ones_like(cohort.gain), y, y.shape[1]))

    def decode(header: tuple, public: PyTree, received: Received) -> Received:
        del header, public
        in_phase, quadrature = jnp.split(received.value, 2, axis=1)
        plus, minus = jnp.split(jnp.square(in_phase) + jnp.square(quadrature), 2, axis=1)
        return received._replace(value=jnp.sign(plus - minus))

    return stateless()._replace(encode=encode, decode=decode)


def _measured(cohort: Cohort, amplitude: Array, x: Array, uses: int) -> dict[str, Array]:
    sent = {"amplitude": amplitude, "energy": jnp.square(x).sum(1), "channel_uses": jnp.full_like(amplitude, uses)}
    return {
        "gain": cohort.gain, "join_probability": cohort.participation, **only_rows(cohort.selected, sent)
    }  # fmt: skip
