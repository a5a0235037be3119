"""Draws of clients whose uploads several antennas receive."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Antennas, Cohort, Draw, Key
from fedjax_priv.channels.antenna_fading import AntennaFading, rayleigh_antennas
from fedjax_priv.clients.cohort_rows import Counts, cohort_of
from fedjax_priv.engine.row_norms import unit_scale
from fedjax_priv.keys import named
from fedjax_priv.layers.blind_combining import strength, turned
from fedjax_priv.layers.group_sums import fixed_point_sum
from fedjax_priv.layers.sum_pilots import SumPilots, checked_pilots


def heard_by_antennas(antennas: int, fading: AntennaFading | None = None, pilots: SumPilots | None = None) -> Draw:
    """All clients in every round, with their links to the server's M antennas; clients know nothing of their links.

    A client's coefficient after combining depends on the sum of all gains, so it is computed here, for the whole
    cohort.

    Args:
      antennas: M.
      fading: of the gains; by default independent Rayleigh gains, new in each round.
      pilots: with which the server estimates the sum of gains; None: the server knows it.

    Raises:
      ValueError: `antennas` is not an integer >= 1, `fading` or `pilots` has another type, or pilots have no energy.

    Examples:
      >>> draw = heard_by_antennas(4)
      >>> cohort, _ = draw.apply(jax.random.key(0), draw.init(jax.random.key(0), 3), jnp.array(0), jnp.ones(3, int))
      >>> print(cohort.antennas.gain.shape)
      (3, 4, 2)
    """
    _validate.integer(antennas=antennas)
    fading = rayleigh_antennas() if fading is None else fading
    _validate.part(AntennaFading, "channels.rayleigh_antennas()", fading=fading)
    _validate.one_of((True, False), anew=fading.anew)
    pilots = checked_pilots(pilots)

    def init(key: Key, n: int) -> PyTree:
        return fading.init(named(key, "fading"), n, antennas)

    def apply(key: Key, state: PyTree, round: Int[Array, ""], count: Counts) -> tuple[Cohort, PyTree]:
        who = cohort_of(jnp.arange(count.size), round, count)
        gain, state = fading.apply(named(key, "fading"), state, round, count.size, antennas)
        known = gain if pilots is None else gain + pilots.off(named(key, "pilots"), who.client, antennas)
        total = _sum(known)
        parts = [(gain * by[None]).sum((1, 2)) for by in (total, turned(total))]
        coefficient = jnp.stack(parts, 1) / strength(total)
        links = Antennas(gain, jnp.broadcast_to(total[None], gain.shape), coefficient)
        size = jnp.sqrt(jnp.square(gain).sum(2).mean(1))
        return who._replace(gain=size, antennas=links), state

    return Draw(init, apply)


def _sum(rows: Float[Array, "n M 2"]) -> Float[Array, "M 2"]:
    """The sum over clients, with the same bits on any number of devices; NaN if a gain is not finite."""
    largest = jnp.abs(rows).max()
    scale, sums = unit_scale(largest), fixed_point_sum()  # it is for numbers near 1, and path loss may make them tiny
    parts = jnp.where(jnp.isfinite(rows), rows * scale, 0).reshape(len(rows), -1)
    total = sums.lower(sums.lift(parts, jnp.ones(len(rows), bool), jnp.zeros(len(rows), jnp.int32))).value[0] / scale
    return jnp.where(jnp.isfinite(largest), total, jnp.nan).reshape(rows.shape[1:])
