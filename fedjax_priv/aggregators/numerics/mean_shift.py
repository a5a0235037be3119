"""Mean shift with a flat kernel: clusters of a few points, without saying how many (Comaniciu and Meer 2002)."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedjax_priv.aggregators.numerics.column_blocks import dot

MOST_STEPS = 300
SLACK = 1 + 1e-4
"""Points at the same distance but for rounding are treated alike."""
ROUNDING = 1e-6
"""A point may be so far from itself, as part of the largest magnitude: XLA may compute it twice, rounded otherwise."""


def largest_cluster(points: Float[Array, "g k"], ok: Bool[Array, " g"]) -> Bool[Array, " g"]:
    """The points of the largest cluster, among those in `ok`.

    The bandwidth is the mean, over points, of the distance to the nearest half of the points (rounded down, itself
    included). Each point moves to the mean of the points within a bandwidth until that stops, at most 300 times. Of
    places within a bandwidth of each other, the one with most points around it stays, the first of several. Each point
    belongs to the nearest place that stays, if it is within a bandwidth; ties go to the place with more points around.
    """
    points = jnp.where(ok[:, None], points, 0.0)
    bandwidth = SLACK * _bandwidth(_distances(points, points), ok) + ROUNDING * jnp.abs(points).max()
    within = lambda centres: ((_distances(centres, points) <= bandwidth) & ok[None, :]).astype(points.dtype)
    mean = lambda inside: dot(inside, points) / jnp.maximum(inside.sum(1), 1.0)[:, None]

    def shifted(now: tuple) -> tuple:
        step, inside, _ = now
        return step + 1, within(mean(inside)), inside

    def unfinished(now: tuple) -> Array:
        step, inside, before = now
        return (step < MOST_STEPS) & (inside != before).any()

    first = within(points)
    _, inside, _ = lax.while_loop(unfinished, shifted, (0, first, jnp.zeros_like(first)))
    order = jnp.argsort(jnp.where(ok, -inside.sum(1), jnp.inf))
    centres = mean(inside)[order]
    stays = _apart(_distances(centres, centres) <= bandwidth, ok[order])
    away = jnp.where(stays[None, :], _distances(points, centres), jnp.inf)
    nearest = away.min(1)
    label = jnp.argmax(away <= SLACK * nearest[:, None], axis=1)
    member = (label[:, None] == jnp.arange(ok.size)[None, :]) & (ok & (nearest <= bandwidth))[:, None]
    return member[:, jnp.argmax(member.sum(0))]


def _distances(a: Array, b: Array) -> Array:
    return jnp.sqrt(jnp.square(a[:, None, :] - b[None, :, :]).sum(-1))


def _bandwidth(distance: Array, ok: Array) -> Array:
    ordered = jnp.sort(jnp.where(ok[None, :], distance, jnp.inf), 1)
    to_half = ordered[:, jnp.maximum(ok.sum() // 2, 1) - 1]
    return jnp.where(ok, to_half, 0.0).sum() / jnp.maximum(ok.sum(), 1).astype(distance.dtype)


def _apart(near: Bool[Array, "g g"], ok: Bool[Array, " g"]) -> Bool[Array, " g"]:
    """Places that stay, in order: those in `ok` that are not near an earlier one that stays."""
    place = jnp.arange(ok.size)
    keep = lambda i, stays: stays & ~(stays[i] & near[i] & (place > i))
    return lax.fori_loop(0, ok.size, keep, ok)
