"""Flamingo (Ma et al., S&P 2023): one enrolment, one message a client and round, opened by a committee."""

from typing import Annotated, Any

from jaxtyping import Array

from fedjax_priv.base import Algorithm, Local
from fedjax_priv.layers import committee_masks
from fedjax_priv.systems._arguments import ROUND, HandsOn, loss_rate, secure_cohort
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.secure_sums._one_message import mean_under

COMMITTEE = HandsOn(
    committee_masks, ("neighbours", "committee", "threshold", "fewest", "elide", "key_agreement", "prg")
)


@of_known_arguments
def flamingo(
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    **how: Annotated[Any, COMMITTEE, ROUND],
) -> Algorithm:
    """FedAvg under Flamingo: pairs of clients agree on keys once, and a committee opens the sum of each round.

    Each update is scaled by its weight beta_i / (1 - dropout) and by clients / cohort, so that the sum has the mean
    `sum_i beta_i y_i` over draws and dropouts, as in `secagg`.

    Args:
      local: training of a client.
      num_clients: clients in the data, who all enrol before the first round.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability theta that an upload is lost.
      leave: probability that a survivor is gone when members of the committee are asked.
      levels: grid points of the quantizer per unit.
      **how: `neighbours`, `committee`, `threshold`, `fewest`, `elide`, `key_agreement` and `prg` of
        `layers.committee_masks`; `server`, `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = flamingo(local, num_clients=20, neighbours=6, committee=7, dropout=0.2)
    """
    size, dropout = secure_cohort(num_clients, cohort_size), loss_rate(dropout)
    members, run = COMMITTEE.split(how)
    masks = committee_masks(group_size=size, **members)
    return mean_under(
        masks, local, num_clients=num_clients, cohort_size=cohort_size, dropout=dropout, leave=leave,
        levels=levels, **run,
    )  # fmt: skip
