"""F2ed-Learning (Wang et al. 2020): SHARE with FilterL2 across clusters, which they call shards."""

from typing import Annotated, Any

from jaxtyping import Array

from fedjax_priv.aggregators import filter_l2
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.systems._arguments import MASKS, ROUND, HandsOn
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.robust.share import share

SHARE = HandsOn(
    share,
    ("buffer_size", "num_byzantine", "attack", "group_attack", "field_attack", "dropout", "leave",
     "levels", "in_the_clear", *MASKS.names),
)  # fmt: skip


@of_known_arguments
def f2ed(
    local: Local,
    *,
    num_clients: int,
    sigma: float | Array = 1.0,
    bound: float = 20.0,
    **how: Annotated[Any, SHARE, ROUND],
) -> Algorithm:
    """`w <- w - FilterL2(shard means of y_k)`.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      sigma: standard deviation of honest shard means in their worst direction. The authors' 1 filters nothing at the
        scale of model updates.
      bound: as in `filter_l2`.
      **how: the other arguments of `share`, all but `aggregate`.

    Raises:
      ValueError: as `share` and `filter_l2`.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = f2ed(local, num_clients=20, buffer_size=2, sigma=0.01)
    """
    return share(local, num_clients=num_clients, aggregate=filter_l2(sigma, bound=bound), **how)
