"""FedAvg (McMahan et al. 2017): local training, a weighted mean, updates in the clear."""

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, stack, weighted_mean
from fedjax_priv.systems._arguments import Run, everyone_or
from fedjax_priv.systems._known_arguments import of_known_arguments


@of_known_arguments
def fedavg(
    local: Local,
    *,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    exact: bool = True,
    **run: Run,
) -> Algorithm:
    """`w <- w - sum_{i in S} n_i (w - w_i) / sum_{i in S} n_i`, S the clients whose updates arrive.

    Args:
      local: training of a client, such as `local_sgd(...)`; `fedsgd(...)` with `optax.sgd(lr)` is FedSGD.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability that a client's update is lost.
      exact: sum in fixed point, with the same bits for every block and number of devices; otherwise in float.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = fedavg(local, cohort_size=10, dropout=0.1)  # of however many clients the data have
    """
    if cohort_size is not None:
        _validate.integer(cohort_size=cohort_size)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=local,
        layers=stack(weigh=weighted_mean(), send=plain(exact=exact)),
        channel=erasure(dropout),
        aggregate=mean(),
        **run,
    )
