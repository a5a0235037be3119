"""Orthogonal perturbation: a step of a given length across the honest mean, which clipping does not shorten."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import Attack
from fedjax_priv.attacks.honest_statistics import honest_mean
from fedjax_priv.base import Key
from fedjax_priv.engine.row_norms import largest_entries, norms, unit_scale

_PARALLEL = 1e-4
"""A vector of ones whose part across the mean is a smaller share of its length has no such part but rounding."""


def orthogonal_perturbation(length: float | Array = 1.0, *, angle: float | Array = 90.0) -> Attack:
    """`mean + length (cos(angle) u + sin(angle) w)`, the same for all Byzantine clients (Ozfatura et al. 2024, ROP).

    `u` is the direction of the honest mean, and `w` that of the vector of ones without its part along `u`. Rules that
    clip differences keep their direction, so a row shorter than their radius is not clipped at all. It is ROP of the
    authors' code at pi = lambda = 0: with others the row is relocated towards the server's last direction, which an
    attack on the rows of one round does not know. A direction that does not exist, as that of a mean of 0, is 0. Zeros
    at the end of all honest rows, as of places that `layers.conspar` does not use, stay zeros.

    Args:
      length: distance from the honest mean, >= 0, in units of the update; may be traced.
      angle: between the step and the honest mean, in degrees, >= 0; 90 is across, 180 against.

    Raises:
      ValueError: an argument is out of range; a traced one is sent as NaN.

    Examples:
      >>> updates = jnp.array([[3.0, 1.0], [5.0, -1.0], [0.0, 0.0]])
      >>> honest = jnp.array([True, True, False])
      >>> print(jax.jit(orthogonal_perturbation(2.0))(jax.random.key(0), updates, honest, ~honest).round(2))
      [[4. 2.]]
    """
    far = _validate.non_negative(length=length)
    turned = jnp.deg2rad(jnp.asarray(_validate.non_negative(angle=angle), jnp.float32))

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "1 d"]:
        del key, byzantine
        mean = honest_mean(updates, honest)
        along = _direction(mean)
        ones = _used(updates, honest)
        across = _direction(ones - along.sum() * along, least=_PARALLEL * jnp.sqrt(ones.sum()))
        return mean + far * (jnp.cos(turned) * along + jnp.sin(turned) * across)

    return attack


def _used(updates: Float[Array, "n d"], honest: Bool[Array, " n"]) -> Float[Array, "1 d"]:
    """1 up to the last place at which an honest row is not zero, then 0; 1 if there is no such place."""
    place = jnp.arange(updates.shape[1])
    last = jnp.where((honest[:, None] & (updates != 0)).any(0), place, -1).max()
    return ((place <= last) | (last < 0)).astype(updates.dtype)[None]


def _direction(row: Float[Array, "1 d"], least: float | Array = 0.0) -> Float[Array, "1 d"]:
    """Of length 1; 0 if the row is no longer than `least`."""
    scale = unit_scale(largest_entries(row))[:, None]
    length = norms(row * scale)[:, None]
    return jnp.where(length > least * scale, row * scale / jnp.where(length > 0, length, 1.0), 0.0)
