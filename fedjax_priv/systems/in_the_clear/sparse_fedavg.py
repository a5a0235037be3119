"""FedAvg with sparsified updates in the clear: rand-K or top-K, with or without error feedback."""

from typing import Literal

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain_sparse, rand_k, scale, stack, top_k
from fedjax_priv.systems._arguments import Run, everyone_or, loss_rate
from fedjax_priv.systems._known_arguments import of_known_arguments

SPARSIFIERS = {"rand_k": rand_k, "top_k": top_k}


@of_known_arguments
def sparse_fedavg(
    local: Local,
    *,
    num_params: int,
    k: int,
    sparsifier: Literal["rand_k", "top_k"] = "top_k",
    error_feedback: bool = False,
    num_clients: int | None = None,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    exact: bool = True,
    **run: Run,
) -> Algorithm:
    """`w <- w - sum_{i in S} C(beta_i y_i / (1 - dropout))`, C the sparsifier, S the clients whose uploads arrive.

    Args:
      local: training of a client.
      num_params: parameters of the model, d.
      k: coordinates that each client sends.
      sparsifier: "top_k" sends those largest in magnitude, "rand_k" random ones.
      error_feedback: a client adds what it did not send to its next update.
      num_clients: clients in the data; needed with `cohort_size`, to scale updates up by their ratio.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability that a client's update is lost.
      exact: sum in fixed point, with the same bits for every block and number of devices; otherwise in float.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = sparse_fedavg(local, num_params=15_010, k=500, error_feedback=True, num_clients=20)
    """
    _validate.one_of(SPARSIFIERS, sparsifier=sparsifier)
    _validate.one_of((True, False), error_feedback=error_feedback)
    dropout = loss_rate(dropout)
    sparsify = SPARSIFIERS[sparsifier](num_params, k, error_feedback=error_feedback)
    factor = _per_draw(num_clients, cohort_size) / (1 - dropout)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=local,
        layers=stack(
            weigh=scale(factor),
            sparsify=sparsify,
            send=plain_sparse(num_params, exact=exact),
        ),
        channel=erasure(dropout),
        aggregate=mean(),
        num_clients=num_clients,
        **run,
    )


def _per_draw(num_clients: int | None, cohort_size: int | None) -> float:
    """One over the probability that a client is drawn."""
    if num_clients is not None:
        _validate.integer(num_clients=num_clients)
    if cohort_size is None:
        return 1.0
    _validate.integer(cohort_size=cohort_size)
    if num_clients is None or num_clients < cohort_size:
        raise ValueError(f"num_clients must be at least cohort_size = {cohort_size}, got {num_clients}")
    return num_clients / cohort_size
