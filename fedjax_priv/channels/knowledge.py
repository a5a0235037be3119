"""What clients know of the gains of their links: an estimate from pilots, or gains with a phase error.

A client divides its signal by the gain that it knows, `hat h`. The signal arrives with the coefficient `u = h / hat h`,
one complex number for all coordinates. `theory.wireless.estimated_coefficient` and `turned_coefficient` give the
moments of u.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Key
from fedjax_priv.channels.fading import Fading
from fedjax_priv.engine.quotients import quotient
from fedjax_priv.keys import named, per_client

Estimator = Literal["least squares", "mmse"]


class Pilots(NamedTuple):
    """Every client sends its own pilot in each round, and the server tells it the estimate without error or cost."""

    energy: float | Array  # E_p, per client and round
    receiver_noise: float | Array  # N0, per real channel use
    estimator: Estimator
    mean: float | Array  # E u of a client that sends
    rayleigh: bool  # gains are amplitudes of CN(0, 1) variables, independent from round to round
    uses = 2  # real channel uses per client and round

    @property
    def error(self) -> float | Array:
        """v = 2 N0 / E_p, variance of `hat h - h` under least squares."""
        return 2 * self.receiver_noise / self.energy

    def known(self, key: Key, gain: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, "n 2"]]:
        """`|hat h|`, which the client knows, and u. The phase of h changes the law of neither."""
        noise = per_client(lambda key: jax.random.normal(key, (2,)), key, jnp.arange(gain.size))
        real, imaginary = (jnp.sqrt(self.error / 2) * noise).T
        real, shrunk = gain + real, 1 + self.error if self.estimator == "mmse" else 1.0
        square = jnp.square(real) + jnp.square(imaginary)
        return quotient(jnp.sqrt(square), shrunk), (shrunk * gain / square)[:, None] * jnp.stack([real, -imaginary], 1)


class Phases(NamedTuple):
    """Clients know their gains up to phase errors N(0, f^2)."""

    deviation: float | Array  # f, in radians
    uses = 0
    energy = 0.0

    @property
    def mean(self) -> Array:
        """E u."""
        return jnp.exp(-jnp.square(self.deviation) / 2)

    def known(self, key: Key, gain: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, "n 2"]]:
        """The gains, which clients know, and u."""
        angle = self.deviation * per_client(jax.random.normal, key, jnp.arange(gain.size))
        return gain, jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)


def estimated(
    fading: Fading,
    *,
    pilot_energy: float | Array,
    receiver_noise: float | Array = 1.0,
    estimator: Estimator = "mmse",
    mean: float | Array | None = None,
) -> Fading:
    """The same `fading`, but clients know only an estimate `hat h` of their gains, from new pilots in each round.

    "least squares": `hat h = h + e`, `e ~ CN(0, v)`, `v = 2 N0 / E_p`. "mmse": `hat h = (h + e) / (1 + v)`, the best
    estimate of Rayleigh gains. Unless clients with a small `|hat h|` stay silent, the variance of u is infinite.

    Args:
      fading: the true gains.
      pilot_energy: E_p > 0, per client and round, in one complex channel use; may be traced.
      receiver_noise: N0 > 0 of the pilots, per real channel use; may be traced.
      estimator: which estimate.
      mean: E u > 0 of a client that sends; the server divides by it; may be traced. If not given, the mean of Rayleigh
        gains: 1 under "mmse", 1 / (1 + v) under "least squares". Other gains need it, for instance from
        `theory.wireless.estimated_mean`: if all gains are 1 and v = 0.1, a mean of 1 is 9% off.

    Raises:
      ValueError: an argument outside its range, a `fading` that is estimated or turned already, or no `mean` for gains
        other than those of `rayleigh`.

    Examples:
      >>> fading = estimated(rayleigh(), pilot_energy=20.0)
      >>> print(fading.knowledge.error)
      0.1
    """
    _checked(fading)
    _validate.one_of(("least squares", "mmse"), estimator=estimator)
    energy = _validate.positive(pilot_energy=pilot_energy)
    noise = _validate.positive(receiver_noise=receiver_noise)
    of_sender = _mean(mean, fading, 2 * noise / energy if estimator == "least squares" else 0.0)
    return fading._replace(knowledge=Pilots(energy, noise, estimator, of_sender, fading.rayleigh and fading.anew))


def _mean(mean: float | Array | None, fading: Fading, error: float | Array) -> float | Array:
    """E u: `mean` if given, else the mean for Rayleigh gains."""
    if mean is not None:
        return _validate.positive(mean=mean)
    if not fading.rayleigh:
        raise ValueError(
            "mean must be given for gains other than channels.rayleigh(), see theory.wireless.estimated_mean, got None"
        )
    return 1 / (1 + error)


def turned(fading: Fading, *, deviation: float | Array) -> Fading:
    """The same `fading`, but clients know the phases of their gains up to errors `N(0, f^2)`, new in each round.

    Args:
      fading: the gains.
      deviation: f >= 0, in radians; may be traced.

    Raises:
      ValueError: `deviation` is negative, or `fading` is estimated or turned already.

    Examples:
      >>> fading = turned(rayleigh(), deviation=0.8)
      >>> print(round(float(fading.knowledge.mean), 4))
      0.7261
    """
    _checked(fading)
    return fading._replace(knowledge=Phases(_validate.non_negative(deviation=deviation)))


def known_gains(fading: Fading, key: Key, state: PyTree, round: Int[Array, ""], n: int) -> tuple[Array, Any, PyTree]:
    """The gains `[n]` of a round as clients know them, `Cohort.coefficient`, and the next state of `fading`."""
    gain, state = fading.apply(named(key, "fading"), state, round, n)
    if fading.knowledge is None:
        return gain, (), state
    return *fading.knowledge.known(named(key, "knowledge"), gain), state


def _checked(fading: Fading) -> None:
    _validate.part(Fading, "channels.rayleigh()", fading=fading)
    _validate.one_of((True, False), rayleigh=fading.rayleigh, anew=fading.anew)
    if fading.knowledge is not None:
        raise ValueError(f"fading must be of gains that are fully known, got {fading.knowledge}")
