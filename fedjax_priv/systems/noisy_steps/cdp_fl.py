"""Concentrated-DP federated learning: noise at every local step, one enrolment for the masks of all rounds."""

from typing import Any

from jaxtyping import Array

from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Draw, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import sample
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import average, enrolled_masks, quantize, stack
from fedjax_priv.systems._arguments import loss_rate, secure_cohort
from fedjax_priv.systems.releases import LocalNoise


def cdp_fl(
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None = None,
    cohort: Draw | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    threshold: int = 2,
    elide: bool = False,
    secure_sum: Layer | None = None,
    **run: Any,
) -> Algorithm:
    """`theta <- (1/r) sum of the local models` of r devices under masks that cancel over any set of them, Algorithm 1.

    Devices upload `theta - theta_i`, rounded at random to a grid of 1/c. `clients.local_sgd(..., sample_clip=G,
    gradient_noise=sigma)` is the paper's local training; `dp_sgd` is its baseline of one step.

    Args:
      local: training of a device.
      num_clients: devices in the data, n.
      cohort_size: r, devices of a round, drawn uniformly without replacement; all if not given.
      cohort: another draw of at most r devices a round, as `clients.scheduled`.
      dropout: probability that a device is lost before its upload; the mean is that of the others.
      leave: probability that a survivor is gone when round keys are asked for, which fails a round with losses.
      levels: grid points c of the quantizer to a unit; the grid should be far below the learning rate times sigma.
      threshold: fewest survivors whose sum is opened: it holds the noise of so many.
      elide: expand no mask where only the aggregate is wanted; the same aggregate bit for bit, and reports say so.
      secure_sum: innermost layer in place of `enrolled_masks(...)`; `plain_field()` is the paper's "without secure
        aggregation".
      **run: arguments of `federated_round`: `server`, `block`, `mesh` and `observe`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.
    """
    size = secure_cohort(num_clients, cohort_size)
    secure = secure_sum is None
    if elide and not secure:
        raise ValueError("elide must not be given with secure_sum, which has its own masks, got True")
    if secure_sum is None:
        secure_sum = enrolled_masks(group_size=size, threshold=threshold, elide=elide)
    return federated_round(
        cohort=sample(size) if cohort is None else cohort,
        local=local,
        layers=stack(mean=average(), quantize=quantize(levels, max_terms=size), mask=secure_sum),
        channel=erasure(loss_rate(dropout), leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=LocalNoise(secure, size, local.noise),
        **run,
    )
