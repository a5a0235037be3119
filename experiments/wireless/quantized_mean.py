"""Means of white Gaussian updates that r users send in one round, analog or digital: how far they are off."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from fedjax_priv.base import Algorithm, ClientData, Local
from fedjax_priv.channels import constant
from fedjax_priv.clients import bernoulli
from fedjax_priv.systems import digital_fedavg, wireless
from fedjax_priv.theory import digital_links as theory

D = 640


class Measured(NamedTuple):
    """Squared errors of means over the mean squared norm of an update, and the closed forms."""

    analog: np.ndarray  # [draws]
    digital: np.ndarray
    users: int
    energy: float  # E / (d N0)

    @classmethod
    def of(cls, result: xr.Dataset) -> "Measured":
        """From the data of a card."""
        users, energy = int(result.attrs["white_users"]), float(result.attrs["white_energy"])
        return cls(result.white_analog.values, result.white_digital.values, users, energy)

    def to_variables(self) -> dict[str, tuple[str, np.ndarray]]:
        """As in the data of a card."""
        return {"white_analog": ("draw", self.analog), "white_digital": ("draw", self.digital)}

    @property
    def closed(self) -> tuple[float, float]:
        """Analog, and the least of digital."""
        about = (self.users, self.energy * D, 1.0)
        return float(theory.analog_distortion(D, *about)), float(theory.digital_distortion(D, D, *about))

    def errors(self) -> tuple[float, float]:
        """By how many standard errors the analog mean is off its closed form, and the digital one above its bound."""
        away = [
            (found.mean() - exact) / (found.std(ddof=1) / math.sqrt(len(found)))
            for found, exact in zip((self.analog, self.digital), self.closed, strict=True)
        ]
        return abs(away[0]), away[1]

    def holds(self) -> bool:
        """Whether both are as they must be."""
        analog, digital = self.errors()
        return analog < 3 < digital

    def control(self) -> str:
        """What `rejects_fewer` asks."""
        return f"the analog closed form of {self.users - 1} users is {self._fewer():.0f} standard errors away"

    def rejects_fewer(self) -> bool:
        """Whether the analog closed form of one user fewer is too far off, as it must be."""
        return self._fewer() > 3

    def _fewer(self) -> float:
        return self._replace(users=self.users - 1).errors()[0]

    def text(self) -> str:
        """What was found."""
        analog, digital = self.closed
        ours = self.analog.mean(), self.digital.mean()
        return f"analog {ours[0]:.6f} ({analog:.6f}), digital {ours[1]:.3f} (at least {digital:.4f})"


def digital_parts(size: int, users: int, energy: float, times: float = 1.0) -> dict[str, Any]:
    """How many coordinates and levels `times` d uses allow each of the users, and the SNR of a use.

    At unit gains, with the energy `energy` d N0 of a user, in turns.
    """
    uses = times * size
    bits = float(theory.bits_of_a_turn(uses, users, energy * size, 1.0))
    snr = {"snr_db": 10 * math.log10(energy * users / times)}
    if bits < 32 + 2 * size:
        return snr | {"k": int((bits - 32) / 2), "levels": 1}
    return snr | {"levels": 2 ** (int((bits - 32) / size) - 1) - 1}


def measured(users: int, energy: float, *, draws: int, seed: int) -> Measured:
    """Rounds of white updates of norm 1, sent analog at the energy `energy` d N0, and digital in d uses."""
    local = Local(
        lambda n, params: (), lambda key, memory, params, data, who: (data.examples, memory, data.count * 0.0)
    )
    everyone = bernoulli(1.0, fading=constant())
    analog = wireless(local, clip=1.01, noise_variance=0.0, level=math.sqrt(energy * D), fading=constant(), mesh=None)
    digital = digital_fedavg(local, num_params=D, cohort=everyone, mesh=None, **digital_parts(D, users, energy))
    one = lambda system: np.asarray(_errors(system, users, draws, jax.random.key(seed)), np.float64)
    return Measured(one(analog), one(digital), users, energy)


def _errors(system: Algorithm, users: int, draws: int, key: jax.Array) -> jax.Array:
    def error(key: jax.Array) -> jax.Array:
        rows = jax.random.normal(jax.random.fold_in(key, 1), (users, D))
        rows = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
        data = ClientData(rows, jnp.ones(users, jnp.int32))
        direction = system.step(key, system.init(key, jnp.zeros(D), data), data)[1].direction
        return jnp.square(direction - rows.mean(0)).sum()

    return jax.jit(lambda: jax.lax.map(error, jax.random.split(key, draws)))()
