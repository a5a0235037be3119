"""Staleness weights as public integers: the server multiplies uploads by them without reading the uploads.

Source: asynchronous LightSecAgg (So et al. 2021, arXiv 2110.02177): `c Q_c(s(tau))`, rounded at random.
"""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.clients.cohort_rows import Counts
from fedjax_priv.keys import named, per_client

MOST_LEVELS = 2**16


def weighed_by_staleness(draw: Draw, power: float | Array = 0.5, *, levels: int) -> Draw:
    """The same cohorts, with `Cohort.factor = c Q_c(s(tau))`: `c s(tau)` after unbiased random rounding to an integer.

    `s(tau) = (1 + tau)^-power`, so a fresh update has factor c. Everybody knows the factors, and rounds measure them as
    `factor`.

    Args:
      draw: who takes part, with which staleness.
      power: >= 0.
      levels: c, at most 2**16, and large enough that no factor is 0 up to the largest staleness of `draw`: an update
        with factor 0 would not be in the sum, and would hide nobody.

    Raises:
      ValueError: an argument is out of range or traced, or `draw` is no `Draw`.

    Examples:
      >>> draw = weighed_by_staleness(buffered(2, concurrency=3, max_staleness=9), levels=64)
      >>> jobs = draw.init(jax.random.key(0), 5)
      >>> who, jobs = draw.apply(jax.random.key(1), jobs, jnp.int32(0), jnp.ones(5, int))
      >>> print(who.staleness, who.factor)
      [0 0] [64 64]
    """
    _validate.part(Draw, "clients.buffered(10, max_staleness=20)", draw=draw)
    scaled = mean_factors(draw.versions, {"power": power}, {"levels": levels})
    low = np.floor(scaled).astype(np.uint32)
    rest = (scaled - low).astype(np.float32)

    def factors(key: Key, who: Cohort) -> UInt32[Array, " n"]:
        up = per_client(jax.random.uniform, named(key, "factor"), who.client) < jnp.asarray(rest)[who.staleness]
        return jnp.where(who.selected, jnp.asarray(low)[who.staleness] + up.astype(jnp.uint32), jnp.uint32(0))

    def apply(key: Key, state: PyTree, round: Array, count: Counts) -> tuple[Cohort, PyTree]:
        who, state = draw.apply(key, state, round, count)
        return who._replace(factor=factors(key, who)), state

    def measures(who: Cohort, state: PyTree) -> Mapping[str, Array]:
        return {**(draw.measures(who, state) if draw.measures else {}), "factor": who.factor}

    return draw._replace(apply=apply, measures=measures)


def mean_factors(versions: int, power: Mapping[str, float | Array], levels: Mapping[str, int]) -> np.ndarray:
    """`c s(tau)` for each staleness tau below `versions`; the keys of `power` and `levels` are the names in errors.

    Raises:
      ValueError: an argument is out of range or traced.
    """
    ((power_name, p),), ((levels_name, c),) = power.items(), levels.items()
    _validate.known(**power)
    _validate.non_negative(**power)
    _validate.integer(**levels)
    most, oldest = math.log(MOST_LEVELS - 1), math.log(versions)
    if float(p) * oldest > most:
        raise ValueError(
            f"{power_name} must be at most {math.floor(1000 * most / oldest) / 1000:g} up to staleness {versions - 1}, "
            f"so that factors are up to {MOST_LEVELS}, got {p}"
        )
    scaled = _rounded(c * (1.0 + np.arange(versions)) ** -float(p))
    if c > MOST_LEVELS or scaled[-1] < 1:
        fewest = math.ceil(_rounded(c / scaled[-1]))
        raise ValueError(
            f"{levels_name} must be from {fewest} to {MOST_LEVELS}, so that no factor is 0 up "
            f"to staleness {versions - 1}, got {c}"
        )
    return scaled


def _rounded(numbers: float | np.ndarray) -> np.ndarray:
    """Replaces numbers that are integers up to float rounding, such as 49 * 49**-1.0, by these integers."""
    near = np.rint(numbers)
    return np.where(np.isclose(numbers, near, rtol=1e-12, atol=0.0), near, numbers)
