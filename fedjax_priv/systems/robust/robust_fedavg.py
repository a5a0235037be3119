"""FedAvg with a robust rule instead of the mean; updates in the clear, one row per client."""

from jaxtyping import Array

from fedjax_priv.aggregators import centered_clipping
from fedjax_priv.attacks import Attack
from fedjax_priv.base import Aggregator, Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, stack
from fedjax_priv.systems._arguments import Run, attacked, buffers, loss_rate


def robust_fedavg(
    local: Local,
    *,
    num_clients: int,
    aggregate: Aggregator | None = None,
    num_byzantine: int = 0,
    attack: Attack | None = None,
    dropout: float | Array = 0.0,
    **run: Run,
) -> Algorithm:
    """`w <- w - Agg(y_1, ..., y_m)`.

    With one local step at rate 1 - beta, carried momentum beta and `optax.sgd(rate)` at the server this is robust
    distributed SGD (Karimireddy et al. 2021). An update that is not finite is left out.

    Args:
      local: training of a client.
      num_clients: clients in the data, m.
      aggregate: rule across clients; `centered_clipping()` if not given.
      num_byzantine: clients 0 to f - 1 are Byzantine.
      attack: attack on the values that Byzantine clients send.
      dropout: probability that a client's update is lost.
      **run: arguments of `federated_round`: `server`, `block`, `mesh` and `observe`.

    Raises:
      ValueError: an argument outside its range, or more Byzantine clients than the rule tolerates.
    """
    aggregate = centered_clipping() if aggregate is None else aggregate
    buffers(num_clients, 1, num_byzantine, aggregate, in_the_clear=True)
    return federated_round(
        cohort=everyone(num_clients, num_byzantine=num_byzantine),
        local=local,
        layers=stack(**attacked(attack), send=plain(num_clients, exact=False)),
        channel=erasure(loss_rate(dropout)),
        aggregate=aggregate,
        num_clients=num_clients,
        **run,
    )
