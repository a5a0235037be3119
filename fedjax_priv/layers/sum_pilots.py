"""Pilots for the sum of all gains at each antenna of a server."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedjax_priv import _validate
from fedjax_priv.base import Key
from fedjax_priv.keys import per_client


class SumPilots(NamedTuple):
    """Pilots by which the server learns the sum of all gains at each antenna.

    "individual": each client sends its own pilot, in turns, and errors of all estimates add up. "common": all send
    the same pilot at once, and there is one error. Either way a pilot takes one complex use.
    """

    kind: Literal["individual", "common"]
    energy: float | Array  # E_p of a client and round
    receiver_noise: float | Array  # N0 of a real use

    @property
    def error(self) -> float | Array:
        """v = 2 N0 / E_p, variance of the error of one pilot."""
        return 2 * self.receiver_noise / self.energy

    @property
    def uses(self) -> dict[str, float]:
        """Real uses of the channel by measured name: those that clients take in turns, or all at once."""
        return {"pilot_uses": 2.0} if self.kind == "individual" else {"common_pilot_uses": 2.0}

    def off(self, key: Key, client: Int[Array, " n"], antennas: int) -> Float[Array, "n M 2"]:
        """Errors, whose sum over clients is that of the estimated sum."""
        draw = lambda key: jax.random.normal(key, (antennas, 2))
        if self.kind == "individual":
            return jnp.sqrt(self.error / 2) * per_client(draw, key, client)
        return jnp.zeros((client.size, antennas, 2)).at[0].set(jnp.sqrt(self.error / 2) * draw(key))


def checked_pilots(pilots: Any) -> SumPilots | None:
    """These pilots, or none; numbers that are traced and out of range are NaN.

    Raises:
      ValueError: they are something else, of another kind, or a number is out of range.
    """
    if pilots is None:
        return None
    _validate.part(SumPilots, "channels.SumPilots('common', 10.0, 1.0)", pilots=pilots)
    _validate.one_of(("individual", "common"), pilots=pilots.kind)
    energy = _validate.positive(pilot_energy=pilots.energy)
    return SumPilots(pilots.kind, energy, _validate.non_negative(receiver_noise=pilots.receiver_noise))
