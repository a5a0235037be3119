"""SparseSecAgg (Algorithm 1): every pair of clients picks a random few coordinates; only those are masked and sent."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import public_weighted_mean, quantize, scale, sparse_masks, stack
from fedjax_priv.layers.sparse_mask import sparse_protocol
from fedjax_priv.systems._arguments import ROUND, HandsOn, everyone_or, loss_rate, secure_cohort
from fedjax_priv.systems._distributed_noise import distributed_noise
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import ranged
from fedjax_priv.systems.releases import SparseSum

MASKS = HandsOn(sparse_protocol, ("neighbours", "threshold", "expand", "elide", "key_agreement", "prg"))


@of_known_arguments
def sparse_secagg(
    local: Local,
    *,
    num_clients: int,
    alpha: float | Array = 0.1,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    levels: float | Array = 2.0**16,
    normalize: Literal["expected", "survivors"] = "expected",
    clip: float | Array | None = None,
    noise_variance: float | Array | None = None,
    check_range: bool = False,
    **how: Annotated[Any, MASKS, ROUND],
) -> Algorithm:
    """FedAvg under secure aggregation of random coordinates.

    The server can read much of what it sums, alone or in pairs: `leakage` shows how much.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      alpha: upper bound of the fraction of coordinates that a client sends, in (0, 1]; static in a sweep unless
        `expand` is "dense".
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability theta that a client is lost after the masks are agreed and before its upload.
      leave: probability that a survivor is gone when the server asks for shares.
      levels: grid points of the quantizer per unit (c in eqs. 15-17 of the paper, which gives no value).
      normalize: "expected" scales updates by beta_i / (p (1 - dropout)) (eq. 16) and by clients / cohort, so that the
        sum has the mean `sum_i beta_i y_i` (Lemma 1). "survivors" scales by beta_i / p and divides by the survivors'
        total weight, which clients tell the server.
      clip: largest Euclidean norm of a scaled update on all coordinates, sent or not; no clipping if not given.
      noise_variance: variance of the Skellam noise that each client adds at each coordinate before masking. Needs
        `clip`; static in a sweep. The server may read an upload alone, so the noise of one client must suffice.
      check_range: as in `secagg`.
      **how: `neighbours`, `threshold`, `expand`, `elide`, `key_agreement` and `prg` of
        `layers.sparse_mask.sparse_protocol`; `server`, `block`, `mesh`, `observe` and `lying_server` of
        `federated_round`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = sparse_secagg(local, num_clients=20, alpha=0.1, dropout=0.2)
    """
    _validate.one_of(("expected", "survivors"), normalize=normalize)
    size, dropout = secure_cohort(num_clients, cohort_size), loss_rate(dropout)
    alpha = _validate.fraction(above_zero=True, alpha=alpha)
    _validate.positive(alpha=alpha)
    masks, run = MASKS.split(how)
    mask = sparse_masks(alpha=alpha, group_size=size, **masks)
    noise = distributed_noise(clip, noise_variance, levels, max_terms=size, group_size=1)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=local,
        layers=stack(
            weigh=weigh(normalize, selected(alpha, size, masks), size / num_clients, dropout),
            **noise.above,
            quantize=quantize(levels, max_terms=size),
            **noise.below,
            **ranged(check_range, clip, noise_variance, levels, size),
            mask=mask,
        ),
        channel=erasure(dropout, leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=SparseSum(alpha=alpha, noise=noise.released, masks=mask.sums.protocol),
        **run,
    )


def selected(alpha: float | Array, size: int, masks: Mapping[str, Any]) -> Array:
    """p, the fraction of coordinates that a client of `size` sends (eq. 14)."""
    peers = float(size - 1 if (k := masks.get("neighbours", "all")) == "all" else k)
    return -jnp.expm1(peers * jnp.log1p(-jnp.asarray(alpha, jnp.float32) / peers))


def weigh(normalize: str, fraction: Array, drawn: float, dropout: float | Array) -> Layer:
    """Weights of updates of which a `fraction` of the coordinates is sent, by a fraction `drawn` of the clients."""
    if normalize == "survivors":
        return public_weighted_mean(factor=1 / fraction)
    return scale(1 / (fraction * drawn * (1 - dropout)))
