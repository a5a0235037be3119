"""Local training whose updates are bounded for any data of a client, as central noise requires."""

from collections.abc import Callable

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float32, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData, Cohort, Key, Local, Stated, Told, Updates
from fedjax_priv.clients.local_steps import of_changed_training
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.quotients import quotient

CLIP = "clip_norm"
"""Name under which the server tells clients the clipping norm, if it changes from round to round."""


def bounded(local: Local, *, clip: float | Array, weight_cap: float | None = None, margin: float = 0.0) -> Local:
    """Training whose update is `w_i Delta_i / C`, clipped to the unit ball, for any data of a client.

    `Delta_i` is the update of `local` and `w_i = min(n_i / weight_cap, 1)`, with n_i the client's samples (McMahan et
    al. 2018, Algorithm 1). If an update has a value that is not finite, or a norm above about 1e19 C, it becomes 0, and
    the client's memory does not change; a loss that is not finite becomes 0. Otherwise one client's data could make a
    round fail or an upload go missing, and no noise would hide that.

    Args:
      local: training of a client.
      clip: C, > 0, largest norm of what a client adds to the sum; may be traced.
      weight_cap: a public number of samples: clients with at least so many have weight 1. None: all clients have.
      margin: in units of C. The ball is smaller, so that the norm is at most 1 even after rounding has moved each of
        the d coordinates by up to `margin`.

    Raises:
      ValueError: `local` is not a `Local`, `clip` or `weight_cap` is not > 0, `margin` is not a static number >= 0
        or, when training is traced, too large for any ball.

    Examples:
      >>> local = bounded(fedsgd(lambda params, x: x @ params), clip=1.0)
    """
    _validate.part(Local, "clients.local_sgd(loss, ...)", local=local)
    clip, weights = _validate.positive(clip=clip), _weights(weight_cap)
    _check_margin(margin)

    def bound(update: Array, params: PyTree) -> tuple[Array, Array]:
        del params
        return in_ball(quotient(update, clip), radius_within(margin, update.shape[1]))

    def without_rows(key: Key, params: PyTree, data: ClientData, cohort: Cohort) -> Updates:
        assert local.updates is not None
        return _in_unit_ball(local.updates(key, params, data, cohort), weights(data) / clip)

    sums = without_rows if local.updates and margin == 0 else None
    about = of_changed_training(local.steps, "forgetting")
    return local._replace(apply=Stated(_bounding(local, weights, bound), about, sums, in_place=local.in_place))


def bounded_and_counted(local: Local, *, bit: float, weight_cap: float | None = None, margin: float = 0.0) -> Local:
    """As `bounded`, with a C that the server tells ("clip_norm" in `base.Told`) and a bit: was the update within C?

    Updates `[b, d + 1]` end in `bit (b_i - 1/2)`, where b_i is 1 if `|| w_i Delta_i || <= C` and else 0 (Andrew et al.
    2021, arXiv 1905.03871). The bit is centred: adding or removing a client moves the sum of bits by half of `bit`.
    Norms are at most `sqrt(1 + bit^2 / 4)`. An update that is not finite becomes 0 in all coordinates, also in the bit.

    Args:
      local: training of a client; it gets only the parameters.
      bit: size of the bit, > 0, in units of C.
      weight_cap: as in `bounded`.
      margin: as in `bounded`.

    Raises:
      ValueError: `local` is no `Local`, `bit` or `weight_cap` is not > 0, `margin` is not a static number >= 0 or,
        when training is traced, leaves no ball.

    Examples:
      >>> local = bounded_and_counted(fedsgd(lambda params, x: x @ params), bit=0.5)
    """
    _validate.part(Local, "clients.local_sgd(loss, ...)", local=local)
    _validate.positive(bit=bit)
    weights = _weights(weight_cap)
    _check_margin(margin)

    def bound(update: Array, told: Told) -> tuple[Array, Array]:
        scaled = quotient(update, told.numbers[CLIP])
        y, good = in_ball(scaled, radius_within(margin, update.shape[1] + 1, bit / 2))
        within = jnp.where(jnp.square(scaled).sum(1) <= 1.0, 0.5, -0.5)
        return jnp.concatenate([y, bit * within[:, None]], axis=1), good

    def without_rows(key: Key, told: Told, data: ClientData, cohort: Cohort) -> Updates:
        assert local.updates is not None
        found, unit = local.updates(key, told.params, data, cohort), weights(data) / told.numbers[CLIP]
        clipped, good = _in_unit_ball(found, unit), jnp.isfinite(found.norm)
        bits = jnp.where(good, jnp.where(found.norm * unit <= 1.0, bit / 2, -bit / 2), 0.0)

        def weighted_sum(factors: Array, counted: Array) -> Array:
            of_bits = jnp.where(counted, factors * bits, 0.0).sum()
            return jnp.concatenate([clipped.weighted_sum(factors, counted), of_bits[None]])

        return Updates(clipped.loss, jnp.hypot(clipped.norm, bits), weighted_sum)

    plain = local._replace(apply=lambda key, memory, told, *rest: local.apply(key, memory, told.params, *rest))
    sums = without_rows if local.updates and margin == 0 else None
    about = of_changed_training(local.steps, "forgetting")
    return local._replace(apply=Stated(_bounding(plain, weights, bound), about, sums, in_place=local.in_place))


def _in_unit_ball(found: Updates, unit: Array) -> Updates:
    """Updates times `unit`, scaled down to norms of at most 1; 0 if a norm is not finite."""
    good = jnp.isfinite(found.norm)
    factor = jnp.where(good, unit * ball_factor(found.norm * unit, 1.0), 0.0)

    def weighted_sum(factors: Array, counted: Array) -> Array:
        return found.weighted_sum(factors * factor, counted & good)

    return Updates(_finite(found.loss), jnp.where(good, found.norm * factor, 0.0), weighted_sum)


def in_ball(x: Float32[Array, "b d"], radius: ArrayLike) -> tuple[Float32[Array, "b d"], Bool[Array, " b"]]:
    """Rows scaled down to norms of at most `radius`, within float32 rounding, and which rows have a finite norm.

    Unlike in `engine.row_norms`, squares are not scaled before they are added: a row whose squares overflow becomes 0
    anyway, and XLA may combine a scale near 2^-126 with an earlier division to zero.
    """
    norm = jnp.sqrt(jnp.square(x).sum(1))
    return x * ball_factor(norm, radius)[:, None], jnp.isfinite(norm)


def ball_factor(norm: Float32[Array, " b"], radius: ArrayLike) -> Float32[Array, " b"]:
    """The factors that scale vectors of these norms into the ball of this radius."""
    return jnp.where(norm > radius, radius / norm, 1.0)


def _check_margin(margin: float) -> None:
    """A margin below 0 makes the ball larger, and NaN leaves updates unclipped.

    Raises:
      ValueError: `margin` is traced, or not a finite number >= 0.
    """
    _validate.known(margin=margin)
    _validate.non_negative(margin=margin)


def radius_within(margin: float, d: int, other: float = 0.0) -> float:
    """The largest norm r of an update next to a part of norm `other`, such that rounding exceeds no bound.

    Rounding moves each of the `d` coordinates by at most `margin`. r solves
    `sqrt(r^2 + other^2) + margin sqrt(d) = sqrt(1 + other^2)`, the bound without rounding.

    Raises:
      ValueError: there is no such r > 0.
    """
    left = (1.0 + other**2) ** 0.5 - margin * d**0.5
    if left <= other:
        raise ValueError(f"margin must be far below 1 / sqrt(d) = {d**-0.5:g} for {d} coordinates, got {margin:g}")
    return 1.0 if margin == 0 else (left**2 - other**2) ** 0.5


def _weights(weight_cap: float | None) -> Callable[[ClientData], Float32[Array, " b"]]:
    """`min(n_i / weight_cap, 1)` of each client, or 1."""
    if weight_cap is None:
        return lambda data: jnp.ones(data.count.shape, jnp.float32)
    _validate.positive(weight_cap=weight_cap)
    return lambda data: jnp.minimum(data.count.astype(jnp.float32) / weight_cap, 1.0)


def _finite(loss: Float32[Array, " b"]) -> Float32[Array, " b"]:
    return jnp.where(jnp.isfinite(loss), loss, 0.0)


def _bounding(
    local: Local, weights: Callable[[ClientData], Array], bound: Callable[..., tuple]
) -> Callable[..., tuple]:
    """Training whose weighted update goes through `bound(update, params) -> (update, whether it is good)`."""

    def apply(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort
    ) -> tuple[Float32[Array, "b e"], PyTree, Float32[Array, " b"]]:
        update, after, loss = local.apply(key, memory, params, data, cohort)
        y, good = bound(update * weights(data)[:, None], params)
        return rows_where(good, y, jnp.zeros((), y.dtype)), rows_where(good, after, memory), _finite(loss)

    return apply
