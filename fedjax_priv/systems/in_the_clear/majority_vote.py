"""signSGD with majority vote (Bernstein et al. 2018): one bit a coordinate up, a step along their majority."""

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.attacks import AnyAttack
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import plain_signs, sign, stack
from fedjax_priv.systems._arguments import Run, loss_rate
from fedjax_priv.systems._attackers import check_attackers
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import attacked


@of_known_arguments
def majority_vote(
    local: Local,
    *,
    num_clients: int,
    num_byzantine: int = 0,
    attack: AnyAttack | None = None,
    dropout: float | Array = 0.0,
    **run: Run,
) -> Algorithm:
    """`w <- w - sign(sum_k sign(g_k))`, the sum over the clients whose votes arrive; a coordinate that ties rests.

    The step is `server`, such as `optax.sgd(0.001)`. With momentum at the clients this is Signum (Bernstein et al.
    2019), which tolerates Byzantine clients that are fewer than half.

    Args:
      local: what a client computes.
      num_clients: clients in the data.
      num_byzantine: Byzantine clients, fewer than half; the first ones.
      attack: on the updates whose signs Byzantine clients send.
      dropout: probability that a client's vote is lost.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range, or an attack of nobody.

    Examples:
      >>> import optax
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=1.0, batch_size=32, num_steps=1)
      >>> system = majority_vote(local, num_clients=20, server=optax.sgd(0.001))
    """
    _validate.minority({"num_clients": num_clients}, num_byzantine=num_byzantine)
    check_attackers(num_byzantine, attack=attack)
    return federated_round(
        cohort=everyone(num_byzantine=num_byzantine),
        local=local,
        layers=stack(**attacked(attack), sign=sign(), send=plain_signs()),
        channel=erasure(loss_rate(dropout)),
        aggregate=mean(),
        num_clients=num_clients,
        **run,
    )
