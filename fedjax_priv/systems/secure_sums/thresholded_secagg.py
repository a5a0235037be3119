"""Thresholded opening (Suimon et al. 2025): a committee opens a coordinate's sum only if enough clients sent it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import everyone
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import (
    on_sparse_values,
    opened_top_k,
    over_opened,
    paired_coordinates,
    plain_sparse_field,
    quantize,
    rand_k,
    scale,
    sparse_masks,
    stack,
    thresholded_masks,
)
from fedjax_priv.layers.secure_sum.expansion import most_ones
from fedjax_priv.systems._arguments import ROUND, HandsOn, coordinates, loss_rate, secure_cohort
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import of_model
from fedjax_priv.systems.releases import ThresholdedSum
from fedjax_priv.systems.secure_sums.sparse_secagg import selected

COMMITTEE = HandsOn(thresholded_masks, ("committee", "quorum", "elide", "key_agreement", "prg"))
PAIRWISE = ("elide", "key_agreement", "prg")
"""What masks of pairs have of these, if there are any below those of the committee."""


@of_known_arguments
def thresholded_secagg(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    alpha: float = 0.1,
    threshold: int = 3,
    select: Literal["pairs", "rand_k", "top_k"] = "rand_k",
    base: Literal["none", "pairwise"] = "none",
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**16,
    **how: Annotated[Any, COMMITTEE, ROUND],
) -> Algorithm:
    """FedAvg under secure sums of coordinates that each client chooses, opened where enough of them chose the same.

    Updates are scaled by beta_i / (1 - dropout). Sums of random coordinates are scaled up by what is not sent and by
    what is not opened, so that their mean is `sum_i beta_i y_i`. With "top_k" clients keep what they did not send and
    what was not opened.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      num_params: parameters of the model, d.
      alpha: fraction of the parameters that a client sends, in (0, 1]; with "pairs" an upper bound, as in SparseSecAgg.
      threshold: t, clients that must have sent a coordinate for its sum to be opened.
      select: coordinates of a client: those that its pairs draw, as in SparseSecAgg, random ones that it draws alone,
        or the largest of its update and of what it kept.
      base: masks below those of the committee: "pairwise" are those of SparseSecAgg, for "pairs" only.
      dropout: probability theta that an upload is lost.
      leave: probability that a survivor is gone when members of the committee are asked.
      levels: grid points of the quantizer per unit.
      **how: `committee`, `quorum`, `elide`, `key_agreement` and `prg` of `layers.thresholded_masks`; `server`, `block`,
        `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range, or "pairwise" masks on coordinates that pairs do not draw; the message
        names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = thresholded_secagg(local, num_clients=20, num_params=15_010, alpha=0.2, dropout=0.2)
    """
    _validate.one_of(("pairs", "rand_k", "top_k"), select=select)
    _validate.one_of(("none", "pairwise"), base=base)
    if base == "pairwise" and select != "pairs":
        raise ValueError(f"base must be 'none' unless select='pairs', got {base!r} with select={select!r}")
    size, dropout = secure_cohort(num_clients, None), loss_rate(dropout)
    _validate.integer(num_params=num_params)
    _validate.known(alpha=alpha)
    _validate.fraction(above_zero=True, alpha=alpha)
    members, run = COMMITTEE.split(how)
    masks = {name: value for name, value in members.items() if name in PAIRWISE}
    above, below, most = _selection(select, base, float(alpha), num_params, size, threshold, masks)
    fraction, grid = selected(alpha, size, {}) if select == "pairs" else 1.0, quantize(levels, max_terms=size)
    mask = thresholded_masks(below, num_values=num_params, most=most, group_size=size, threshold=threshold, **members)
    assert mask.sums.opened_by is not None
    layers = stack(
        weigh=scale(1 / (fraction * (1 - dropout))),
        **above,
        quantize=on_sparse_values(grid) if above else grid,
        mask=mask,
    )
    return federated_round(
        cohort=everyone(),
        local=local,
        layers=layers if select == "top_k" else over_opened(layers),
        channel=erasure(dropout, leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=ThresholdedSum(threshold=threshold, quorum=mask.sums.opened_by, in_pairs=base == "pairwise"),
        **run,
    )


def _selection(
    select: str, base: str, alpha: float, d: int, size: int, threshold: int, masks: dict[str, Any]
) -> tuple[Mapping[str, Layer], Layer, int]:
    """The layer that chooses coordinates, by name, the one below the committee's masks, and room for coordinates."""
    if select == "pairs":
        pairs: Any = {"alpha": alpha, "group_size": size}
        below = sparse_masks(**pairs, **masks) if base == "pairwise" else paired_coordinates(**pairs)
        sent = 1 - (1 - alpha / (size - 1)) ** (size - 1)
        return {}, of_model(d, below), max(1, most_ones(d, sent, size))
    k = coordinates(d, alpha)
    top = select == "top_k"
    chosen = opened_top_k(d, k, num_clients=size, threshold=threshold) if top else rand_k(d, k)
    return {"select": chosen}, plain_sparse_field(d), k
