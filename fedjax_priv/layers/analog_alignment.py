"""Analog uploads: clients invert their gains so that amplitudes align at the receiver, within a power budget."""

from typing import Literal

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Combine, Key, Layer, Received, Sent
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.engine.quotients import quotient
from fedjax_priv.layers.fixed_point import MAX_FIXED_POINT
from fedjax_priv.layers.group_sums import fixed_point_sum
from fedjax_priv.layers.in_the_clear import range_status
from fedjax_priv.layers.noise_as_one import numbers_for_noise
from fedjax_priv.layers.noise_gaussian import of_clients, one_for_each, plus_gaussian, standard_deviation
from fedjax_priv.layers.receive_level import Level, checked_level, is_one, level_of_cohort
from fedjax_priv.layers.stacking import stateless

PowerControl = Literal["gradient", "bound", "signal"]


def align(
    noise_variance: ArrayLike,
    *,
    max_norm: float | Array,
    power: ArrayLike | None = None,
    control: PowerControl = "gradient",
    level: Level = 1.0,
    noise_unit: ArrayLike | None = None,
) -> Layer:
    """Private aligned transmission: `x_k = (c_t / h_k) (a_k g_k + b_k n_k)`, `n_k ~ N(0, sigma_k^2 I)`; received as
    `h_k x_k`.

    Without a power budget `a_k = b_k = 1` (eqs. 6 and 8 of the wireless FedSGD paper). With one, `control` decides:

    - `"gradient"`: `a_k = b_k = min(1, h_k sqrt(P_k / (||g_k||^2 + d sigma_k^2)))` (eq. 26). What is received depends
      on the norm of the gradient, which no guarantee covers.
    - `"bound"`: the same with L for `||g_k||`. A weak user also sends weaker noise.
    - `"signal"`: `b_k = 1` and `a_k = min(1, sqrt(h_k^2 P_k - d sigma_k^2) / L)`: all noise arrives at full strength. A
      user with `h_k^2 P_k <= d sigma_k^2` must not take part.

    Measured, for every client: `gain` h_k and `join_probability` p_k; for those that send, else 0: the received
    `amplitude` a_k and the `energy` `||x_k||^2` of their d channel uses.

    Args:
      noise_variance: sigma_k^2, >= 0, one for all clients or `[population]`; may be traced.
      max_norm: L, the norm updates were clipped to; may be traced.
      power: P_k / d, mean energy of a channel use, one for all clients or `[population]`; None: no limit.
      control: what is scaled down if power does not suffice.
      level: c_t, the amplitude at which a_k = 1 arrives: a number > 0, a function `(round, gain [n]) -> c_t`, or
        `Levels`, if `clients.at_levels` draws the cohort; may be traced. `over_the_air_mean` below divides by the same.
        Above in the formulas P_k is then P_k / c_t^2.
      noise_unit: None: each client draws its own noise. Otherwise the channel draws the noise of all
        clients in one draw. Clients then add none; as numbers d + 1 and d + 2 they send the variance of their noise in
        this unit, and the root of the level. `energy` is then the mean over that noise.

    Raises:
      ValueError: a variance or unit is negative, a norm, power or level is not > 0, `control` is none of these, or (by
        `init`) the number of variances or powers is neither 1 nor the population.

    Examples:
      >>> send = stack(align=align(0.1, max_norm=1.0), mean=over_the_air_mean(), send=waveform())
    """
    _validate.one_of(("gradient", "bound", "signal"), control=control)
    bound, deviation = _validate.positive(max_norm=max_norm), standard_deviation(noise_variance)
    budget_of_use = None if power is None else _validate.array(_validate.positive, power=power)
    level, unit = checked_level(level), is_one(level)
    silent = _validate.is_known_as(0, noise_variance)
    if noise_unit is not None:
        noise_unit = _validate.array(_validate.non_negative, noise_unit=noise_unit)

    def amplitudes(g: Array, sigma: Array, cohort: Cohort, public: dict[str, Array]) -> tuple[Array, Array]:
        if budget_of_use is None:
            return jnp.ones_like(sigma), jnp.ones_like(sigma)
        d, limit = g.shape[1], budget_of_use if unit else budget_of_use / jnp.square(public["level"])
        if control == "signal":
            left = d * power_left(limit, jnp.square(deviation), cohort)
            return jnp.minimum(1.0, quotient(jnp.sqrt(jnp.maximum(left, 0)), bound)), jnp.ones_like(sigma)
        budget, noise = jnp.square(cohort.gain) * of_clients(limit, cohort) * d, d * jnp.square(sigma)
        norm = bound if control == "bound" else jnp.linalg.norm(g, axis=1)
        limited = jnp.minimum(1.0, jnp.sqrt(budget / (jnp.square(norm) + noise)))
        return limited, limited

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[tuple, dict[str, Array], Bits]:
        """The receiver knows all gains and probabilities, and everybody the level."""
        del key, state
        known = {} if unit else {"level": level_of_cohort(level, cohort)}
        return (), {"gain": cohort.gain, "participation": cohort.participation, **known}, {}

    def encode(key: Key, private: tuple, public: dict, g: Float[Array, "b d"], cohort: Cohort) -> tuple:
        del private
        sigma = of_clients(deviation, cohort)
        a, b = amplitudes(g, sigma, cohort, public)
        c = jnp.float32(1) if unit else public["level"]
        if noise_unit is None:
            received = a[:, None] * g if silent else plus_gaussian(key, a[:, None] * g, cohort, b * sigma)
            x = quotient(received if unit else c * received, cohort.gain[:, None])
            energy = jnp.square(x).sum(1)
        else:
            x, energy = _with_variance(a[:, None] * g, b * sigma, noise_unit, c, cohort)
        sent = only_rows(cohort.selected, {"amplitude": a, "energy": energy})
        known = {} if unit else {"level": jnp.broadcast_to(c, a.shape)}
        return x, (), Sent(measured={"gain": cohort.gain, "join_probability": cohort.participation, **known, **sent})

    init = one_for_each(noise_variance=noise_variance, **({} if power is None else {"power": power}))
    return stateless()._replace(init=init, advertise=advertise, encode=encode)


def _with_variance(
    g: Float[Array, "b d"], deviation: Float[Array, " b"], unit: ArrayLike, level: Array, cohort: Cohort
) -> tuple[Array, Array]:
    """What clients send whose noise the channel draws, `[b, d + 2]`, and the mean energy of their d channel uses."""
    received = jnp.concatenate([level * g, numbers_for_noise(deviation, unit, level)], axis=1)
    energy = jnp.square(level / cohort.gain) * (jnp.square(g).sum(1) + g.shape[1] * jnp.square(deviation))
    return quotient(received, cohort.gain[:, None]), energy


def power_left(power: Array, noise_variance: Array, cohort: Cohort) -> Float[Array, " b"]:
    """`h_k^2 P_k / d - sigma_k^2`: energy per channel use left for the signal if all noise is to arrive at full
    strength.
    """
    return jnp.square(cohort.gain) * of_clients(power, cohort) - of_clients(noise_variance, cohort)


def waveform() -> Layer:
    """Uploads `[b, d]` as d uses of the channel, which cost no bits. The channel's sum is computed in fixed point.

    Received magnitudes `h_k |x|` >= 2**15 set `FIELD_OVERFLOW`. If link noise makes one that large, the sum is NaN,
    which fails the round.

    Examples:
      >>> send = stack(align=align(0.1, max_norm=1.0), send=waveform())
    """

    def encode(key: Key, private: tuple, public: PyTree, x: Float[Array, "b d"], cohort: Cohort) -> tuple:
        del key, private, public
        return x, (), Sent(status=range_status(cohort.gain[:, None] * x, MAX_FIXED_POINT))

    return stateless(combine=_in_range(fixed_point_sum()))._replace(encode=encode)


def _in_range(combine: Combine) -> Combine:
    """A fixed-point sum that is NaN if it cannot hold an upload that arrived."""

    def lift(y: Float[Array, "b d"], alive: Bool[Array, " b"], group: Int[Array, " b"]) -> tuple[PyTree, Array]:
        outside = alive & (range_status(y, MAX_FIXED_POINT) != 0)
        return combine.lift(y, alive, group), outside.sum()

    def lower(sums: tuple[PyTree, Array]) -> Received:
        inside, outside = sums
        received = combine.lower(inside)
        return received._replace(value=jnp.where(outside == 0, received.value, jnp.nan))

    return combine._replace(lift=lift, lower=lower)
