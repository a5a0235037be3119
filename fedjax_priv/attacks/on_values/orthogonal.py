"""ROP: a step of a given length across a direction, which clipping does not shorten; with or without a memory."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import Attack, FromHistory
from fedjax_priv.attacks.honest_statistics import honest_mean
from fedjax_priv.base import Key
from fedjax_priv.engine.row_norms import largest_entries, norms, unit_scale

_PARALLEL = 1e-4
"""A vector of ones whose part across the mean is a smaller share of its length has no such part but rounding."""


def orthogonal_perturbation(length: float | Array = 1.0, *, angle: float | Array = 90.0) -> Attack:
    """`mean + length (cos(angle) u + sin(angle) w)`, the same for all Byzantine clients (Ozfatura et al. 2024, ROP).

    `u` is the direction of the honest mean, and `w` that of the vector of ones without its part along `u`. Rules that
    clip differences keep their direction, so a row shorter than their radius is not clipped at all. The authors' code
    computes this if pi = lambda = 0; for other values take `relocated_perturbation`. If a vector is 0, so is its
    direction. Zeros at the end of all honest rows stay zeros: `layers.conspar` does not use these places.

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
    step = _step(length, angle)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "1 d"]:
        del key, byzantine
        mean = honest_mean(updates, honest)
        return mean + step(mean, _used(updates, honest))

    return attack


def relocated_perturbation(
    length: float | Array = 1.0,
    *,
    angle: float | Array = 90.0,
    location: float | Array = 1.0,
    reference: float | Array = 0.9,
) -> FromHistory:
    """Relocated orthogonal perturbation, ROP (Ozfatura, Ozfatura, Kupcu and Gunduz 2024): a step from where the server
    was last.

    With `v` the last direction and `mu` the honest mean, Byzantine clients send `location v + (1 - location) mu +
    length (cos(angle) u + sin(angle) w)`. `u` is the direction of `reference v + (1 - reference) mu`, and `w` that of
    the vector of ones without its part along `u`. Centered clipping starts from `v`, so a row that is relocated there
    and shorter than the radius is not clipped at all, however far the honest rows are. The formula and the defaults are
    those of the authors' code, but for two defaults: there the angle is 270, and the length is the z of ALIE. Before
    the server has a direction, the row starts from 0, and `u` is the direction of `mu`.

    Args:
      length: of the step, >= 0, in units of the update; may be traced.
      angle: as in `orthogonal_perturbation`; 270 is the step against the ones.
      location: 1 if the row is at the last direction, 0 if at the honest mean (pi); may be traced.
      reference: weight of the last direction in what the step goes across (lambda); may be traced.

    Raises:
      ValueError: an argument is out of range; a traced one is sent as NaN.

    Examples:
      >>> updates = jnp.array([[3.0, 1.0], [5.0, -1.0], [0.0, 0.0]])
      >>> honest, last = jnp.array([True, True, False]), jnp.array([9.0, 0.0])
      >>> print(relocated_perturbation(2.0).apply(jax.random.key(0), updates, honest, ~honest, last).round(2))
      [[9. 2.]]
    """
    step = _step(length, angle)
    there, along = _validate.fraction(location=location), _validate.fraction(reference=reference)

    def attack(
        key: Key,
        updates: Float[Array, "n d"],
        honest: Bool[Array, " n"],
        byzantine: Bool[Array, " n"],
        last: Float[Array, " d"],
    ) -> Float[Array, "1 d"]:
        del key, byzantine
        mean = honest_mean(updates, honest)
        before = last[None]
        followed = jnp.where((before != 0).any(), before, mean)
        moved = there * before + (1 - there) * mean
        return moved + step(along * followed + (1 - along) * mean, _used(updates, honest))

    return FromHistory(attack)


def _step(
    length: float | Array, angle: float | Array
) -> Callable[[Float[Array, "1 d"], Float[Array, "1 d"]], Float[Array, "1 d"]]:
    """`(reference, places in use) -> step`, which is so long and at this angle to the reference."""
    far = _validate.non_negative(length=length)
    turned = jnp.deg2rad(jnp.asarray(_validate.non_negative(angle=angle), jnp.float32))

    def step(reference: Float[Array, "1 d"], used: Float[Array, "1 d"]) -> Float[Array, "1 d"]:
        along = _direction(reference)
        across = _direction(used - along.sum() * along, least=_PARALLEL * jnp.sqrt(used.sum()))
        return far * (jnp.cos(turned) * along + jnp.sin(turned) * across)

    return step


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
