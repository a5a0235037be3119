"""How long clients take from the download of a model to the arrival of their update, in virtual time."""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float32, Int, Shaped

from fedjax_priv import _validate
from fedjax_priv.base import Key

JobLaw = Literal["half_normal", "exponential", "lognormal", "fixed"]
"""Law of one client's job times: |N(0, 1)| as in FedBuff, exponential, exp(N(0, 1)), or constant; scaled to a mean."""

_UNIT: dict[str, Callable[[Key], Array]] = {
    "half_normal": lambda key: jnp.abs(jax.random.normal(key)) * np.float32(np.sqrt(np.pi / 2)),
    "exponential": jax.random.exponential,
    "lognormal": lambda key: jnp.exp(jax.random.normal(key) - 0.5),
    "fixed": lambda key: jnp.float32(1),
}
"""Draws of mean 1."""


class JobTimes(NamedTuple):
    """Independent times of jobs with the same law for all clients; each client may have its own mean."""

    law: JobLaw
    mean: ArrayLike  # > 0, of all clients or [n]

    def checked(self, num_clients: int) -> "JobTimes":
        """These times, for a population of this size.

        Raises:
          ValueError: there is neither a single mean nor one per client.
        """
        _validate.per_client(num_clients, mean_time=self.mean)
        return self

    def draw(self, keys: Shaped[Array, " k"], client: Int[Array, " k"]) -> Float32[Array, " k"]:
        """One time for each of these clients, each from its own key `[k]`."""
        mean = jnp.asarray(self.mean, jnp.float32)
        times = jax.vmap(_UNIT[self.law])(keys) * (mean[client] if mean.ndim else mean)
        return jax.lax.optimization_barrier(times)  # a sum fused with the product would round otherwise, by program


def job_times(law: JobLaw = "half_normal", mean_time: ArrayLike = 1.0) -> JobTimes:
    """Times of jobs.

    Args:
      law: of the jobs of one client.
      mean_time: of every client or `[n]`, > 0; the unit of virtual time is the caller's.

    Raises:
      ValueError: `law` is unknown, or a mean is not > 0.

    Examples:
      >>> times = job_times("fixed", np.array([1.0, 2.0]))
      >>> print(times.draw(jax.random.split(jax.random.key(0), 2), jnp.array([1, 0])))
      [2. 1.]
    """
    _validate.one_of(get_args(JobLaw), law=law)
    return JobTimes(law, _validate.array(_validate.positive, mean_time=mean_time))
