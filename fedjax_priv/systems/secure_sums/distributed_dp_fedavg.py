"""DP-FedAvg whose noise the clients add: clipped, rotated, rounded, noisy updates in a secure sum of few bits.

Kairouz, Liu and Steinke (ICML 2021) with discrete Gaussian noise; Agarwal, Kairouz and Liu (NeurIPS 2021) with Skellam
noise. Nobody, the server included, sees a sum with less noise than the honest clients in it have added.
"""

import math
from typing import Literal

from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local, Received
from fedjax_priv.channels import erasure
from fedjax_priv.clients.bounded_updates import bounded
from fedjax_priv.crypto.modulus import ring
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import (
    discrete_gaussian_noise,
    integer_skellam_noise,
    pairwise_masks,
    rotate,
    round_within,
    stack,
    stateless,
    wrap,
)
from fedjax_priv.layers.noise_discrete_gaussian import MAX_SCALE
from fedjax_priv.layers.rotation import padded_length
from fedjax_priv.layers.rounding import BETA
from fedjax_priv.systems._arguments import MASKS, Masked, everyone_or, loss_rate, secure_cohort
from fedjax_priv.systems._distributed_noise import condition_of
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import adding
from fedjax_priv.systems.releases import DistributedNoise, Sum

FINEST = 2.0**15
"""Most grid points per clipping norm: a finer grid costs no less noise."""
GROWTH = {"linear": 2, "sqrt": 1}
"""By which power of n the squared norm of a sum without noise grows."""
NOISE = {"discrete_gaussian": discrete_gaussian_noise, "skellam": lambda scale: integer_skellam_noise(scale**2)}


@of_known_arguments
def distributed_dp_fedavg(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    clip: float | Array = 1.0,
    noise_multiplier: float | Array = 1.0,
    noise: Literal["discrete_gaussian", "skellam"] = "discrete_gaussian",
    bits: int = 16,
    shares: int | None = None,
    cohort_size: int | None = None,
    weight_cap: float | None = None,
    mean_weight: float = 1.0,
    failure: float = BETA,
    deviations: float = 4.0,
    growth: Literal["linear", "sqrt"] = "linear",
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    secure_sum: Layer | None = None,
    **how: Masked,
) -> Algorithm:
    """`w <- w - sum_S (clip_C(w_i Delta_i) + noise_i) / W`, the sum taken modulo 2**bits, with a public W.

    Each client clips its update, rotates it at random as all clients of the round do, rounds it to a grid until it is
    short enough, adds noise and sends it modulo 2**bits, masked: `bits` for each number, of which there are as many as
    the next power of two from d on. W is the expected number of survivors times `mean_weight`. An update that is not
    finite counts as 0, so no data of a client makes a round fail. The step gamma of the grid solves
    `2**B gamma = 2 k sqrt(C^2 n^2 / d' + (gamma^2 / 4 + sigma^2) n)` for n clients and each client's noise sigma, but
    is at least 2**-15 C and 2**-14 sigma. A coordinate of the sum that is more than k deviations from 0 wraps, and
    nobody notices.

    Args:
      local: training of a client.
      num_clients: clients in the data.
      num_params: parameters of the model, d.
      clip: C, largest Euclidean norm of what a client adds to the sum.
      noise_multiplier: z, standard deviation over `clip` of the noise that `shares` clients add to the sum; static in a
        sweep.
      noise: law of a client's noise. Sums of Skellam noise are Skellam; those of discrete Gaussian noise are nearly
        discrete Gaussian, at a cost that is small from one grid point on, and without proof below a half.
      bits: B, of a number on the wire, from 2 to 32; 10 to 16 are usual.
      shares: fewest honest clients whose noise is in a sum that is opened, for which z holds; the threshold of the
        secure sum if not given. If more come, there is more noise.
      cohort_size: clients of every round, drawn uniformly without replacement; everyone if not given.
      weight_cap: number of samples from which on a client has weight 1; one with fewer has weight samples / weight_cap.
        All have weight 1 if not given.
      mean_weight: public constant for the mean weight of a client.
      failure: beta, probability that one draw of the rounding is too long, see `layers.round_within`.
      deviations: k, of a coordinate of the sum, that there is room for on each side of 0.
      growth: how the norm of a sum of n updates grows: as n, or as their square root, `"sqrt"`, if they have no common
        direction; then n stands for n^2 in the step, which is finer. If sums grow faster they wrap.
      dropout: probability that a client is lost after the masks are agreed and before its upload.
      leave: probability that a survivor is gone when the server asks for shares.
      secure_sum: another innermost layer than `pairwise_masks(..., bits=bits)`, of the same bits, such as
        `enrolled_masks(..., bits=bits)`, or `plain_ring(bits)` for the same sum in the clear, where nobody is
        asked for shares, so `leave` must be 0. Not `plain_field()`: a sum of residues in F_q tells how many of them are
        negative, and is as long as 32 bits.
      **how: `neighbours`, `threshold`, `elide`, `consistency`, `bind_model`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `server`, `block`, `mesh`, `observe` and `lying_server` of `federated_round`.

    Raises:
      ValueError: an argument outside its range, or too few bits for so many clients; the message names it and the
        allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = distributed_dp_fedavg(local, num_clients=20, num_params=15_010, clip=1.0, noise_multiplier=1.0)
    """
    size, dropout = secure_cohort(num_clients, cohort_size), loss_rate(dropout)
    _validate.one_of(NOISE, noise=noise)
    _validate.one_of(GROWTH, growth=growth)
    _validate.integer(num_params=num_params)
    _validate.integer(at_least=2, bits=bits)
    _validate.known(noise_multiplier=noise_multiplier, deviations=deviations)
    _validate.non_negative(noise_multiplier=noise_multiplier)
    _validate.positive(deviations=deviations)
    _validate.fraction(above_zero=True, mean_weight=mean_weight)
    clip = _validate.positive(clip=clip)
    masks, run = MASKS.split(how)
    own = secure_sum is None
    mask = pairwise_masks(group_size=size, bits=bits, **masks) if own else adding(ring(bits), secure_sum, masks, leave)
    shares = _shares(shares, mask.sums.threshold, size)
    deviation, padded = float(noise_multiplier) / math.sqrt(shares), padded_length(num_params)
    finest = MAX_SCALE / max(deviation, MAX_SCALE / FINEST)
    levels = min(1 / grid_step(bits, deviation, float(deviations), size, padded, growth), finest)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=bounded(local, clip=clip, weight_cap=weight_cap),
        layers=stack(
            divide=_times(clip / (size * (1 - dropout) * mean_weight)),
            rotate=rotate(num_params),
            round=round_within(levels, max_norm=1.0, failure=failure),
            noise=NOISE[noise](levels * deviation),
            wrap=wrap(bits),
            mask=mask,
        ),
        channel=erasure(dropout, leave=leave),
        aggregate=mean(),
        num_clients=num_clients,
        release=Sum(
            noise=DistributedNoise(
                noise_variance=(levels * deviation) ** 2, max_norm=levels, clip=clip, group_size=size if own else 1,
                threshold=mask.sums.threshold, num_values=padded, condition=condition_of(masks), law=noise,
                failure=float(failure), bits=bits, weight_cap=weight_cap,
            ),
            masks=mask.sums.protocol,
        ),
        **run,
    )  # fmt: skip


def grid_step(
    bits: int, deviation: float, deviations: float, clients: int, num_values: int, growth: str = "linear"
) -> float:
    """gamma, over the clipping norm, where a sum of `clients` has room for so many of its deviations on each side.

    Raises:
      ValueError: rounding alone needs more room.
    """
    room = 4.0**bits - deviations**2 * clients
    if room <= 0:
        least = math.floor(math.log(deviations**2 * clients, 4)) + 1
        raise ValueError(f"bits must be at least {least} for sums of {clients} clients, got {bits}")
    return 2 * deviations * math.sqrt((clients ** GROWTH[growth] / num_values + deviation**2 * clients) / room)


def _shares(shares: int | None, threshold: int, size: int) -> int:
    if shares is None:
        return threshold
    _validate.integer(shares=shares)
    if shares > size:
        raise ValueError(f"shares must be at most the clients of a round, {size}, got {shares}")
    return shares


def _times(factor: float | Array) -> Layer:
    """Sums are multiplied by a public number."""

    def decode(received: Received) -> Received:
        return received._replace(value=received.value * factor)

    return stateless(decode=decode)
