"""RCGD-EF (Ghosh et al. 2021): compressed updates with error feedback, the longest left out; in the clear."""

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import norm_trimming
from fedjax_priv.attacks import AnyAttack, on_sparse
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.engine.rounded_fractions import part_of
from fedjax_priv.layers import plain_sparse, stack, top_k
from fedjax_priv.systems._arguments import Run, coordinates, loss_rate
from fedjax_priv.systems._attackers import check_attackers
from fedjax_priv.systems._known_arguments import of_known_arguments


@of_known_arguments
def rcgd_ef(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    ratio: float = 0.05,
    trimmed: float | None = None,
    num_byzantine: int = 0,
    attack: AnyAttack | None = None,
    dropout: float | Array = 0.0,
    **run: Run,
) -> Algorithm:
    """`w <- w - mean of the messages Q(e_k + y_k) of smallest norm`, Q = top-K; `e_k` is what was not sent.

    The server sees each client's message: rows are `[m, d]`. What an attack sends is cut to its K largest coordinates,
    so that the message is legal.

    Args:
      local: training of a client.
      num_clients: clients in the data, m.
      num_params: parameters of the model, d.
      ratio: fraction of the d coordinates that a client sends: K = floor(ratio d), at least 1.
      trimmed: fraction of the messages left out, below 1/2, at least num_byzantine / num_clients, which it is if not
        given. It is a fraction of those that arrive: a round that loses honest ones may leave out fewer than f.
      num_byzantine: clients 0 to f - 1 are Byzantine, f < m / 2.
      attack: attack on the values that Byzantine clients send.
      dropout: probability that a client's message is lost.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, an attack of nobody, or `trimmed` leaves out fewer messages than are
        Byzantine.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = rcgd_ef(local, num_clients=20, num_params=15_010, ratio=0.05, num_byzantine=2)
    """
    _validate.integer(num_params=num_params)
    _validate.minority({"num_clients": num_clients}, num_byzantine=num_byzantine)
    check_attackers(num_byzantine, attack=attack)
    trimmed = num_byzantine / num_clients if trimmed is None else trimmed
    _validate.below_half(trimmed=trimmed)
    aggregate = norm_trimming(trimmed)
    if part_of(trimmed, num_clients) < num_byzantine:
        least = f"num_byzantine / num_clients = {num_byzantine / num_clients:g}"
        raise ValueError(f"trimmed must be at least {least}, got {trimmed}")
    attacked = {} if attack is None else {"attack": on_sparse(attack, num_params)}
    return federated_round(
        cohort=everyone(num_clients, num_byzantine=num_byzantine),
        local=local,
        layers=stack(
            sparsify=top_k(num_params, coordinates(num_params, ratio), error_feedback=True),
            **attacked,
            send=plain_sparse(num_params, num_clients, exact=False),
        ),
        channel=erasure(loss_rate(dropout)),
        aggregate=aggregate,
        num_clients=num_clients,
        **run,
    )
