"""SecAgg (Bonawitz et al., CCS 2017) and SecAgg+ (Bell et al., CCS 2020): the server learns the sum of the updates."""

from typing import Annotated, Any, Literal

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.crypto.modulus import FIELD
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import pairwise_masks, quantize, scale, stack, weighted_mean
from fedjax_priv.layers.weighting import UPDATE, on_columns
from fedjax_priv.systems._arguments import MASKS, ROUND, everyone_or, loss_rate, secure_cohort
from fedjax_priv.systems._distributed_noise import condition_of, distributed_noise
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._proofs import PROOFS, validated
from fedjax_priv.systems._shared_layers import adding, ranged
from fedjax_priv.systems.releases import Opening, Sum


@of_known_arguments
def secagg(
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**20,
    normalize: Literal["expected", "survivors"] = "expected",
    clip: float | Array | None = None,
    noise_variance: float | Array | None = None,
    norm_bound: float | Array | None = None,
    max_entry: float | Array | None = None,
    check_range: bool = False,
    secure_sum: Layer | None = None,
    **how: Annotated[Any, MASKS, PROOFS, ROUND],
) -> Algorithm:
    """FedAvg under secure aggregation, masked on every coordinate.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability theta that a client is lost after the masks are agreed and before its upload.
      leave: probability that a survivor is gone when the server asks for shares.
      levels: grid points of the quantizer per unit (c in eqs. 15-17 of SparseSecAgg, which gives no value).
      normalize: "expected" scales each update by its weight beta_i / (1 - dropout) (eq. 16 with p = 1) and by clients /
        cohort, so that the sum has the mean `sum_i beta_i y_i` over draws and dropouts. "survivors" divides the sum by
        the survivors' total weight.
      clip: largest Euclidean norm of a client's weighted and scaled update, without the weight that is sent with it;
        no clipping if not given.
      noise_variance: variance of the Skellam noise that each client adds at each coordinate before masking, so that the
        sum is differentially private. Needs `clip` and `normalize="expected"`; static in a sweep.
      norm_bound: the server leaves out an upload unless its sender proves that the weighted and scaled update has at
        most this Euclidean norm (`layers.validate_norm`); no proofs if not given. Needs `normalize="expected"`: a proof
        does not cover weights. With `noise_variance` at least `clip`, and uploads may be longer by their noise: runs
        have `accepted_norm`, in grid points. Static in a sweep.
      max_entry: with `norm_bound`, at most that: the proof says that no coordinate has a larger magnitude, too. Not
        with `noise_variance`; static in a sweep.
      check_range: the server fails a round whose sum clients that clip cannot have: a Byzantine client sent random
        elements, or masks did not cancel (`layers.check_range`). Needs `clip`, static in a sweep.
      secure_sum: another innermost layer than `pairwise_masks(...)`. `plain_field()` adds the same field elements in
        the clear, where nobody is asked for shares, so `leave` must be 0.
      **how: `neighbours`, `threshold`, `elide`, `consistency`, `bind_model`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `proof` and `verdict` of `layers.validate_norm`; `server`, `block`, `mesh`,
        `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = secagg(local, num_clients=20, dropout=0.2)
    """
    _validate.one_of(("expected", "survivors"), normalize=normalize)
    size, dropout = secure_cohort(num_clients, cohort_size), loss_rate(dropout)
    weighted = normalize == "survivors"
    weigh = weighted_mean() if weighted else scale(num_clients / size / (1 - dropout))
    if noise_variance is not None and weighted:
        raise ValueError("normalize must be 'expected' with noise_variance, got 'survivors': weights get noise")
    if norm_bound is not None and weighted:
        raise ValueError(
            "normalize must be 'expected' with norm_bound, got 'survivors': a proof of the norm does not cover weights"
        )
    masks, rest = MASKS.split(how)
    proofs, run = PROOFS.split(rest)
    secure = secure_sum is None
    mask = pairwise_masks(group_size=size, **masks) if secure else adding(FIELD, secure_sum, masks, leave)
    noise = distributed_noise(
        clip, noise_variance, levels, max_terms=size, group_size=size if secure else 1,
        threshold=mask.sums.threshold,
        condition=condition_of(masks, proved=norm_bound is not None),
    )  # fmt: skip
    protocol, opening = mask.sums.protocol, Opening.of(mask)
    above = {name: on_columns(layer, UPDATE) if weighted else layer for name, layer in noise.above.items()}
    below = {
        "quantize": quantize(levels, max_terms=size), **noise.below,
        **validated(norm_bound, levels, group_size=size, max_entry=max_entry, clip=clip, noise_variance=noise_variance,
                    how=proofs),
        **ranged(check_range, clip, noise_variance, levels, size, weighted=weighted), "mask": mask,
    }  # fmt: skip
    released = Sum(noise=noise.released, masks=protocol, opening=opening)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=local,
        layers=stack(weigh=weigh, **above, **below),
        channel=erasure(dropout, leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=released if protocol or noise.released or opening else None,
        **run,
    )
