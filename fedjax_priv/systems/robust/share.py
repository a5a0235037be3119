"""SHARE (Velicheti et al. 2021): random clusters that are summed in secret, and robust aggregation across them."""

from typing import Any

from jaxtyping import Array

from fedjax_priv.aggregators import centered_clipping
from fedjax_priv.attacks import Attack
from fedjax_priv.base import Aggregator, Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import average, quantize, stack
from fedjax_priv.systems._arguments import attacked, buffer_sum, buffers, loss_rate
from fedjax_priv.systems.releases import Sum


def share(
    local: Local,
    *,
    num_clients: int,
    buffer_size: int = 2,
    aggregate: Aggregator | None = None,
    num_byzantine: int = 0,
    attack: Attack | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    in_the_clear: bool = False,
    elide: bool = False,
    **run: Any,
) -> Algorithm:
    """`w <- w - Agg(cluster means of y_k)`: FedREP with all coordinates, and so without proposals or memory.

    Args:
      local: training of a client.
      num_clients: m.
      buffer_size: clients of a cluster, as in `fedrep`; clusters are drawn anew each round.
      aggregate: as in `fedrep`.
      num_byzantine: as in `fedrep`.
      attack: as in `fedrep`.
      dropout: probability that a client is lost after the masks are agreed and before its upload.
      leave: as in `fedrep`.
      levels: as in `fedrep`.
      in_the_clear: as in `fedrep`.
      elide: as in `secagg`.
      **run: arguments of `federated_round`: `server`, `block`, `mesh` and `observe`.

    Raises:
      ValueError: as `fedrep`.
    """
    dropout, aggregate = loss_rate(dropout), centered_clipping() if aggregate is None else aggregate
    number = buffers(num_clients, buffer_size, num_byzantine, aggregate, in_the_clear=in_the_clear)
    return federated_round(
        cohort=everyone(number, num_byzantine=num_byzantine),
        local=local,
        layers=stack(
            **attacked(attack),
            average=average(),
            quantize=quantize(levels, max_terms=buffer_size),
            mask=buffer_sum(number, buffer_size, in_the_clear=in_the_clear, elide=elide),
        ),
        channel=erasure(dropout, leave=leave),
        aggregate=aggregate,
        num_clients=num_clients,
        release=None if in_the_clear else Sum(),
        **run,
    )
