"""FedAvg with a robust rule instead of the mean; updates in the clear, one row per client."""

from jaxtyping import Array
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.aggregators import centered_clipping
from fedjax_priv.attacks import AnyAttack
from fedjax_priv.base import Aggregator, Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone, sample
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain, stack
from fedjax_priv.systems._arguments import Run, buffers, loss_rate, population_of
from fedjax_priv.systems._attackers import check_attackers, check_trust
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import attacked


@of_known_arguments
def robust_fedavg(
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None = None,
    aggregate: Aggregator | None = None,
    num_byzantine: int = 0,
    byzantine: ArrayLike | None = None,
    attack: AnyAttack | None = None,
    dropout: float | Array = 0.0,
    **run: Run,
) -> Algorithm:
    """`w <- w - Agg(y_1, ..., y_m)`.

    With one local step at rate 1 - beta, carried momentum beta and `optax.sgd(rate)` at the server this is robust
    distributed SGD (Karimireddy et al. 2021). An update that is not finite is left out.

    Args:
      local: training of a client.
      num_clients: clients in the data, m.
      cohort_size: clients drawn each round; everyone if not given.
      aggregate: rule across clients; `centered_clipping()` if not given.
      num_byzantine: Byzantine clients of a round that the rule must tolerate; clients 0 to f - 1 are, unless
        `byzantine` says which.
      byzantine: the Byzantine clients of the population, a bool mask `[m]`. More than `num_byzantine` of them may come
        to a round of a cohort: the rule then promises nothing, and `theory.byzantine_cohorts` says how often that is.
      attack: attack on the values that Byzantine clients send.
      dropout: probability that a client's update is lost.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, more Byzantine clients than the rule tolerates, a rule that trusts one,
        or a row where there is a cohort, or an attack of nobody; without a cohort, more in `byzantine` than
        `num_byzantine`.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> rule = fedjax_priv.aggregators.krum(2)
      >>> system = robust_fedavg(local, num_clients=20, aggregate=rule, num_byzantine=2)
    """
    aggregate = centered_clipping() if aggregate is None else aggregate
    if cohort_size is not None:
        _validate.integer(num_clients=num_clients, cohort_size=cohort_size)
    size = num_clients if cohort_size is None else cohort_size
    buffers(size, 1, num_byzantine, aggregate, in_the_clear=True)
    if aggregate.trusted_row is not None and cohort_size is not None:
        raise ValueError("cohort_size must not be given with a rule that trusts a row: it is another client each round")
    bad = population_of(num_byzantine, byzantine, num_clients, everybody=cohort_size is None)
    check_trust(aggregate, num_clients, 1, bad)
    check_attackers(bad, attack=attack)
    draw = everyone(size, num_byzantine=bad) if cohort_size is None else sample(size, size, num_byzantine=bad)
    return federated_round(
        cohort=draw,
        local=local,
        layers=stack(**attacked(attack), send=plain(size, exact=False)),
        channel=erasure(loss_rate(dropout)),
        aggregate=aggregate,
        num_clients=num_clients,
        **run,
    )
