"""SHARE (Velicheti et al. 2021): random clusters that are summed in secret, and robust aggregation across them."""

from jaxtyping import Array

from fedjax_priv.aggregators import centered_clipping
from fedjax_priv.attacks import AnyAttack, FieldAttack
from fedjax_priv.base import Aggregator, Algorithm, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import average, quantize, stack
from fedjax_priv.systems._arguments import MASKS, Masked, buffers, loss_rate, nobody_asked
from fedjax_priv.systems._attackers import check_attackers, check_trust
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import attacked_elements, attacked_groups, buffer_sum
from fedjax_priv.systems.releases import Sum


@of_known_arguments
def share(
    local: Local,
    *,
    num_clients: int,
    buffer_size: int = 2,
    aggregate: Aggregator | None = None,
    num_byzantine: int = 0,
    attack: AnyAttack | None = None,
    group_attack: AnyAttack | None = None,
    field_attack: FieldAttack | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    in_the_clear: bool = False,
    **how: Masked,
) -> Algorithm:
    """`w <- w - Agg(cluster means of y_k)`: FedREP on all coordinates, without proposals or memory.

    Args:
      local: training of a client.
      num_clients: clients in the data, m.
      buffer_size: clients in a cluster, a divisor of m; clusters are drawn anew each round.
      aggregate: rule across clusters; `centered_clipping()` if not given.
      num_byzantine: clients 0 to f - 1 are Byzantine; they can corrupt f clusters.
      attack: attack on the values that Byzantine clients send, before the quantizer.
      group_attack: attack on the means of clusters, of which Byzantine members choose theirs; instead of `attack`.
      field_attack: attack on the field elements that they put into the sum; nobody sees them, so any will do.
      dropout: probability that a client is lost after the masks are agreed and before its upload.
      leave: probability that a survivor is gone when the server asks for shares; 0 with `in_the_clear`,
        where nobody is asked.
      levels: grid points of the quantizer per unit.
      in_the_clear: sum field elements without masks; then a cluster may hold a single client.
      **how: `neighbours`, `threshold`, `elide`, `consistency`, `bind_model`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `server`, `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: as `fedrep`.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> rule = fedjax_priv.aggregators.coordinate_median()
      >>> system = share(local, num_clients=20, buffer_size=2, aggregate=rule, num_byzantine=2)
    """
    dropout, aggregate = loss_rate(dropout), centered_clipping() if aggregate is None else aggregate
    number = buffers(num_clients, buffer_size, num_byzantine, aggregate, in_the_clear=in_the_clear)
    check_trust(aggregate, num_clients, buffer_size, num_byzantine)
    if in_the_clear:
        nobody_asked(leave, "in_the_clear=True")
    check_attackers(num_byzantine, attack=attack, group_attack=group_attack, field_attack=field_attack)
    masks, run = MASKS.split(how)
    mask = buffer_sum(number, buffer_size, masks, in_the_clear=in_the_clear)
    return federated_round(
        cohort=everyone(number, num_byzantine=num_byzantine),
        local=local,
        layers=stack(
            **attacked_groups(attack, group_attack, number, buffer_size, levels),
            average=average(),
            quantize=quantize(levels, max_terms=buffer_size),
            **attacked_elements(field_attack),
            mask=mask,
        ),
        channel=erasure(dropout, leave=leave),
        aggregate=aggregate,
        num_clients=num_clients,
        release=None if in_the_clear else Sum(masks=mask.sums.protocol, group_size=buffer_size),
        **run,
    )
