"""The round of systems whose clients send one message each: the mean of updates under masks that others open."""

from typing import Any

from jaxtyping import Array

from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import quantize, scale, stack
from fedjax_priv.systems._arguments import clients_in_round, everyone_or
from fedjax_priv.systems.releases import Opening, Sum


def mean_under(
    mask: Layer,
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None,
    dropout: float | Array,
    leave: float | Array,
    levels: float | Array,
    spacing: int = 1,
    **run: Any,
) -> Algorithm:
    """Rounds whose sum of updates under `mask` has the mean `sum_i beta_i y_i` over draws and dropouts.

    Sums of updates lie `spacing` elements of the field apart.
    """
    size = clients_in_round(num_clients, cohort_size)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=local,
        layers=stack(
            weigh=scale(num_clients / size / (1 - dropout)),
            quantize=quantize(levels, max_terms=size * spacing),
            mask=mask,
        ),
        channel=erasure(dropout, leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=Sum(opening=Opening.of(mask)),
        **run,
    )
