"""The round of systems whose clients send one message each: the mean of updates under masks that others open."""

from typing import Any

from jaxtyping import Array

from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone, sample
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import quantize, scale, stack
from fedjax_priv.systems.releases import Opening, Sum


def mean_under(
    mask: Layer,
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None,
    size: int,
    dropout: float | Array,
    leave: float | Array,
    levels: float | Array,
    spacing: int = 1,
    **run: Any,
) -> Algorithm:
    """Rounds of `size` clients whose sum under `mask` has the mean `sum_i beta_i y_i` over draws and dropouts.

    Sums of updates lie `spacing` elements of the field apart.
    """
    return federated_round(
        cohort=everyone() if cohort_size is None else sample(cohort_size),
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
