"""SecAgg on common random coordinates: uploads as short as those of SparseSecAgg, and as well hidden as SecAgg's."""

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import common_coordinates, pairwise_masks, quantize, scale, stack
from fedjax_priv.systems._arguments import MASKS, Masked, coordinates, loss_rate, secure_cohort
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import adding
from fedjax_priv.systems.releases import Opening, Sum


@of_known_arguments
def common_secagg(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    alpha: float | Array,
    error_feedback: bool = False,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    secure_sum: Layer | None = None,
    **how: Masked,
) -> Algorithm:
    """FedAvg under secure aggregation, on random coordinates that are the same for all clients of a round.

    Updates are scaled by beta_i / (1 - dropout), so that without error feedback the mean of the sum over coordinates,
    dropouts and rounding is `sum_i beta_i y_i`.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      num_params: parameters of the model, d.
      alpha: fraction of the parameters that is sent, in (0, 1]; at least one is sent. Static in a sweep.
      error_feedback: a client adds what it did not send to its next update.
      dropout: probability theta that a client is lost after the masks are agreed and before its upload.
      leave: probability that a survivor is gone when the server asks for shares.
      levels: grid points of the quantizer per unit.
      secure_sum: another innermost layer than `pairwise_masks(...)`, as in `secagg`.
      **how: `neighbours`, `threshold`, `elide`, `consistency`, `bind_model`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `server`, `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = common_secagg(local, num_clients=20, num_params=15_010, alpha=0.1)
    """
    size, dropout = secure_cohort(num_clients, None), loss_rate(dropout)
    _validate.integer(num_params=num_params)
    _validate.one_of((True, False), error_feedback=error_feedback)
    _validate.known(alpha=alpha)
    _validate.fraction(above_zero=True, alpha=alpha)
    common = common_coordinates(num_params, coordinates(num_params, float(alpha)), error_feedback=error_feedback)
    masks, run = MASKS.split(how)
    secure = secure_sum is None
    mask = pairwise_masks(group_size=size, **masks) if secure else adding(FIELD, secure_sum, masks, leave)
    protocol, opening = mask.sums.protocol, Opening.of(mask)
    return federated_round(
        cohort=everyone(),
        local=local,
        layers=stack(
            weigh=scale(1 / (1 - dropout)),
            common=common,
            quantize=quantize(levels, max_terms=size),
            mask=mask,
        ),
        channel=erasure(dropout, leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=Sum(masks=protocol, opening=opening) if protocol or opening else None,
        **run,
    )
