"""LightSecAgg (So et al., MLSys 2022): masks are coded, so the server decodes one vector whoever is lost."""

from typing import Annotated, Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, Local
from fedjax_priv.layers import coded_masks
from fedjax_priv.systems._arguments import ROUND, HandsOn, loss_rate, secure_cohort
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import of_model
from fedjax_priv.systems.secure_sums._one_message import mean_under

CODE = HandsOn(coded_masks, ("colluders", "lost", "threshold", "elide", "prg"))


@of_known_arguments
def lightsecagg(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    **how: Annotated[Any, CODE, ROUND],
) -> Algorithm:
    """FedAvg under secure aggregation with coded masks.

    Each update is scaled by its weight beta_i / (1 - dropout) and by clients / cohort, so that the sum has the mean
    `sum_i beta_i y_i` over draws and dropouts, as in `secagg`. A round with fewer than `threshold` uploads, or answers,
    fails. If not given, `threshold` is N - 3 N / 10, rounded up, for N clients of a round: 14 of 20. Fewer survive in
    0.2% of the rounds at `dropout` 0.1, in 8.7% at 0.2 and in 39% at 0.3. A higher `lost` lets fewer fail.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      num_params: parameters of the model, d.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability theta that a client is lost after shares were sent and before its upload.
      leave: probability that a survivor is gone when the server asks for sums of shares.
      levels: grid points of the quantizer per unit.
      **how: `colluders`, `lost`, `threshold`, `elide` and `prg` of `layers.coded_masks`; `server`, `block`, `mesh`,
        `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = lightsecagg(local, num_clients=20, num_params=15_010, colluders=10, lost=6, dropout=0.2)
    """
    size, dropout = secure_cohort(num_clients, cohort_size), loss_rate(dropout)
    _validate.integer(num_params=num_params)
    code, run = CODE.split(how)
    mask = of_model(num_params, coded_masks(num_values=num_params, group_size=size, **code))
    return mean_under(
        mask, local, num_clients=num_clients, cohort_size=cohort_size, dropout=dropout, leave=leave,
        levels=levels, **run,
    )  # fmt: skip
