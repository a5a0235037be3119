"""DP-SGD, the baseline of CDP-FL: one noisy step of clipped samples a round, summed as there."""

from typing import Any

from jaxtyping import Array

from fedjax_priv.base import Algorithm, Local
from fedjax_priv.systems.noisy_steps.cdp_fl import cdp_fl


def dp_sgd(
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    elide: bool = False,
    **how: Any,
) -> Algorithm:
    """`theta <- theta - eta (1/r) sum of (clipped batch gradient + noise)`: `cdp_fl` with one local step.

    Args:
      local: `clients.local_sgd(..., num_steps=1, sample_clip=G, gradient_noise=sigma)`, at the learning rate eta.
      num_clients: as in `cdp_fl`.
      cohort_size: as in `cdp_fl`.
      dropout: as in `cdp_fl`.
      elide: as in `cdp_fl`.
      **how: other arguments of `cdp_fl`.

    Raises:
      ValueError: local training of more than one step, or as `cdp_fl`.
    """
    if local.noise is not None:
        if (steps := local.noise.num_steps) != 1:
            raise ValueError(f"local must take one step a round, num_steps=1, got num_steps={steps}")
        local = local._replace(noise=local.noise._replace(num_devices=num_clients))
    return cdp_fl(local, num_clients=num_clients, cohort_size=cohort_size, dropout=dropout, elide=elide, **how)
