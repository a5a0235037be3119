"""Concentrated-DP federated learning: noise at every local step, one enrolment for the masks of all rounds."""

from typing import Annotated, Any

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Draw, Layer, Local
from fedjax_priv.base.byzantine_clients import how_many
from fedjax_priv.channels import erasure
from fedjax_priv.clients import sample
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import average, enrolled_masks, quantize, stack
from fedjax_priv.systems._arguments import ROUND, HandsOn, loss_rate, secure_cohort
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import adding
from fedjax_priv.systems.releases import LocalNoise

MASKS = HandsOn(enrolled_masks, ("threshold", "elide", "key_agreement", "prg"))


@of_known_arguments
def cdp_fl(
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None = None,
    cohort: Draw | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    secure_sum: Layer | None = None,
    **how: Annotated[Any, MASKS, ROUND],
) -> Algorithm:
    """`theta <- (1/r) sum of the local models` of r devices; masks cancel over any set of them (Algorithm 1).

    Devices upload `theta - theta_i`, rounded at random to a grid of 1/c. `clients.local_sgd(..., sample_clip=G,
    gradient_noise=sigma)` is the paper's local training; `dp_sgd` is its baseline of one step.

    Args:
      local: training of a device.
      num_clients: devices in the data, n.
      cohort_size: devices drawn each round (r), uniformly without replacement; all if not given.
      cohort: another draw of at most r devices a round, such as `clients.scheduled`; without Byzantine clients.
      dropout: probability that a device is lost before its upload; the mean is over the others.
      leave: probability that a survivor is gone when asked for its round key; a round with lost devices then fails.
      levels: grid points of the quantizer per unit (c); noise of clients adds up in a sum if 1/c is at most a third of
        the learning rate times sigma, and no update can be so long that it fails the round (`layers.quantize`).
      secure_sum: another innermost layer than `enrolled_masks(...)`; `plain_field()` is the paper's "without secure
        aggregation", where nobody is asked for keys, so `leave` must be 0.
      **how: `threshold`, `elide`, `key_agreement` and `prg` of `enrolled_masks`; `server`, `block`, `mesh`, `observe`
        and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> private = dict(sample_clip=1.0, gradient_noise=0.1)
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1, **private)
      >>> system = cdp_fl(local, num_clients=20, cohort_size=10)
    """
    size = secure_cohort(num_clients, cohort_size)
    draw = sample(size) if cohort is None else cohort
    _validate.part(Draw, "clients.scheduled(members)", cohort=draw)
    if number := how_many(draw.byzantine):
        raise ValueError(
            f"cohort must have no Byzantine clients, got {number}: figures count the noise of all who send"
        )
    masks, run = MASKS.split(how)
    own = secure_sum is None
    mask = enrolled_masks(group_size=size, **masks) if own else adding(FIELD, secure_sum, masks, leave)
    return federated_round(
        cohort=draw,
        local=local,
        layers=stack(
            average=average(),
            quantize=quantize(levels, max_terms=size),
            mask=mask,
        ),
        channel=erasure(loss_rate(dropout), leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=LocalNoise(secure=own, levels=levels, max_terms=size),
        **run,
    )
