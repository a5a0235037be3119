"""Local training whose updates are bounded, whatever the client's data are: what central noise needs of a client."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float32, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData, Cohort, Key, Local, Stated, Updates
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.row_norms import norms


def bounded(local: Local, *, clip: float | Array, weight_cap: float | None = None, margin: float = 0.0) -> Local:
    """Training whose update is `w_i Delta_i / C`, clipped to the unit ball; nothing in the data makes it anything else.

    `Delta_i` is the update of `local` and `w_i = min(n_i / weight_cap, 1)` with n_i the client's samples (McMahan et
    al. 2018, Algorithm 1). An update with a value that is not finite, or whose norm overflows float32, becomes 0 and
    leaves the client's memory as it was; a loss that is not finite becomes 0. A round that fails, or that lacks an
    upload, because of what one client holds would tell about it without noise.

    Args:
      local: training of a client.
      clip: C, > 0, largest norm of what a client adds to the sum; may be traced.
      weight_cap: public number of samples from which on a client has weight 1; None: all have.
      margin: in units of C: the ball's radius is `1 - margin sqrt(d)`, so that adding up to `margin` at each of the d
        coordinates, as rounding does, leaves the norm at most 1.

    Raises:
      ValueError: `clip` or `weight_cap` is not > 0 or, when training is traced, `margin` leaves no ball.
    """
    clip = _validate.positive(clip=clip)
    if weight_cap is not None:
        _validate.positive(weight_cap=weight_cap)

    def apply(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort
    ) -> tuple[Float32[Array, "b d"], PyTree, Float32[Array, " b"]]:
        update, after, loss = local.apply(key, memory, params, data, cohort)
        y = in_ball(update * in_units_of_clip(data)[:, None], radius_within(margin, update.shape[1]))
        good = jnp.isfinite(update).all(1) & jnp.isfinite(norms(update))
        return (
            rows_where(good, y, jnp.zeros((), y.dtype)),
            rows_where(good, after, memory),
            jnp.where(jnp.isfinite(loss), loss, 0.0),
        )

    def in_units_of_clip(data: ClientData) -> Float32[Array, " b"]:
        samples = data.count.astype(jnp.float32)
        return (jnp.ones_like(samples) if weight_cap is None else jnp.minimum(samples / weight_cap, 1.0)) / clip

    def without_rows(key: Key, params: PyTree, data: ClientData, cohort: Cohort) -> Updates:
        assert local.updates is not None
        found = local.updates(key, params, data, cohort)
        good, unit = jnp.isfinite(found.norm), in_units_of_clip(data)
        factor = jnp.where(good, unit * ball_factor(found.norm * unit, 1.0), 0.0)

        def weighted_sum(factors: Array, counted: Array) -> Array:
            return found.weighted_sum(factors * factor, counted & good)

        loss, norm = jnp.where(jnp.isfinite(found.loss), found.loss, 0.0), jnp.where(good, found.norm * factor, 0.0)
        return Updates(loss, norm, weighted_sum)

    sums = without_rows if local.updates and margin == 0 else None
    return local._replace(apply=Stated(apply, local.steps, sums))


def in_ball(x: Float32[Array, "b d"], radius: ArrayLike) -> Float32[Array, "b d"]:
    """Rows scaled down to norms of at most `radius`, within float32 rounding; a row whose norm is not finite is 0."""
    norm = norms(x)
    return rows_where(jnp.isfinite(norm), x * ball_factor(norm, radius)[:, None], jnp.zeros((), x.dtype))


def ball_factor(norm: Float32[Array, " b"], radius: ArrayLike) -> Float32[Array, " b"]:
    """What brings vectors of these norms into the ball."""
    return jnp.where(norm > radius, radius / norm, 1.0)


def radius_within(margin: float, d: int) -> float:
    """Radius of the ball around which vectors within `margin` at each of `d` coordinates have norms of at most 1.

    Raises:
      ValueError: there is none.
    """
    radius = 1.0 - margin * d**0.5
    if radius <= 0:
        raise ValueError(
            f"margin must be below 1 / sqrt(d) = {d**-0.5:g} for {d} parameters, got {margin:g}: a grid that is too "
            "coarse"
        )
    return radius
