"""F2ed-Learning (Wang et al. 2020): SHARE with FilterL2 across clusters, which they call shards."""

from typing import Any

from jaxtyping import Array

from fedjax_priv.aggregators import filter_l2
from fedjax_priv.attacks import Attack
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.systems.robust.share import share


def f2ed(
    local: Local,
    *,
    num_clients: int,
    sigma: float | Array = 1.0,
    bound: float = 20.0,
    num_byzantine: int = 0,
    attack: Attack | None = None,
    **how: Any,
) -> Algorithm:
    """`w <- w - FilterL2(shard means of y_k)`.

    Args:
      local: training of a client.
      num_clients: m.
      sigma: standard deviation of honest shard means in their worst direction; the authors' 1 filters nothing at the
        scale of model updates; may be traced.
      bound: as in `filter_l2`.
      num_byzantine: as in `share`.
      attack: as in `share`.
      **how: other arguments of `share`.

    Raises:
      ValueError: as `share` and `filter_l2`.
    """
    rule = filter_l2(sigma, bound=bound)
    return share(local, num_clients=num_clients, aggregate=rule, num_byzantine=num_byzantine, attack=attack, **how)
