"""FedNova (Wang et al. 2020): updates divided by how far local steps went, so that clients pull as they weigh."""

from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Aggregator, Algorithm, Key, Local, Received
from fedjax_priv.channels import erasure
from fedjax_priv.clients import normalized
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, stack, weighted_mean
from fedjax_priv.systems._arguments import Run, everyone_or
from fedjax_priv.systems._known_arguments import of_known_arguments


@of_known_arguments
def fednova(
    local: Local,
    *,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    exact: bool = True,
    **run: Run,
) -> Algorithm:
    """`w <- w - (sum_i p_i ||a_i||_1) sum_i p_i (w - w_i) / ||a_i||_1`, p_i by samples, over clients that arrive.

    Clients with more data take more local steps in an epoch, so in FedAvg they move the model by more than their
    weight. Here each moves it by its weight alone: for small step sizes the fixed point is the minimum of the weighted
    mean of all losses. If all clients take the same number of steps, it is FedAvg.

    Args:
      local: `local_sgd` or `fedsgd`, with a constant step size; nothing kept from round to round, no proximal term.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability that a client's update is lost.
      exact: sum in fixed point, with the same bits for every block and number of devices; otherwise in float.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, or a `local` that `clients.normalized` refuses.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = fednova(local, cohort_size=10)
    """
    if cohort_size is not None:
        _validate.integer(cohort_size=cohort_size)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=normalized(local),
        layers=stack(weigh=weighted_mean(), send=plain(exact=exact)),
        channel=erasure(dropout),
        aggregate=_times_the_last(mean()),
        **run,
    )


def _times_the_last(rule: Aggregator) -> Aggregator:
    """The first d numbers of a rule's direction `[d + 1]`, times the last one."""

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        direction, after = rule.apply(key, state, received)
        return direction[:-1] * direction[-1], after

    return Aggregator(lambda d: rule.init(d + 1), apply, lambda num_rows: 0)
