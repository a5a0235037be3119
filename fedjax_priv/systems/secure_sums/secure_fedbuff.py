"""FedBuff in which the server reads the sum of a buffer alone: asynchronous LightSecAgg, or one-shot aggregation.

So, Ali, Guler and Avestimehr 2021 (arXiv 2110.02177) and the asynchronous part of LightSecAgg (So et al., MLSys 2022).
"""

import math
from typing import Annotated, Any, Literal

from jax.typing import ArrayLike
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.clients.asynchronous_draws import check_population
from fedjax_priv.clients.job_times import JobLaw
from fedjax_priv.crypto import field
from fedjax_priv.crypto.lattice import check_coins, spacing_of_weighed
from fedjax_priv.layers import coded_masks, one_shot_masks
from fedjax_priv.systems._arguments import ROUND, HandsOn, fitting_spacing, not_together
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import of_model
from fedjax_priv.systems.in_the_clear.fedbuff import fedbuff

FRESH = {"coded": 64, "one_shot": 8}
"""Factors of fresh updates: the paper's, as far as we know, and one that leaves room for errors."""
FINEST = 2.0**16
CODE = HandsOn(coded_masks, ("colluders", "lost", "elide"))
COMMITTEE = HandsOn(one_shot_masks, ("committee", "fewest", "length"))


@of_known_arguments
def secure_fedbuff(
    local: Local,
    *,
    num_clients: int,
    num_params: int,
    masks: Literal["coded", "one_shot"] = "coded",
    buffer_size: int | None = None,
    concurrency: int | None = None,
    max_staleness: int | None = None,
    staleness_power: float = 0.5,
    weight_levels: int | None = None,
    normalize: Literal["buffer", "weights"] | None = None,
    job_law: JobLaw = "half_normal",
    mean_time: ArrayLike = 1.0,
    max_jobs: int | None = None,
    clip: float | None = None,
    noise_multiplier: float | Array | None = None,
    levels: float | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    threshold: int | None = None,
    coins: int = 21,
    failure: float = 0.0,
    **how: Annotated[Any, CODE, COMMITTEE, ROUND],
) -> Algorithm:
    """`w <- w - sum_i f_i Delta_i / sum_i f_i` over a buffer, of which the server sees this sum and no update.

    `f_i`, which is `c_g s(tau_i)` rounded at random to an integer, is public. The server multiplies masked uploads by
    it, and holders of shares multiply their answers by it. So updates from models of different rounds are in one sum. A
    mask belongs to one job and is never used again. Holders answer once for a job: two answers with different factors
    would be two equations for one mask.

    With "coded" masks (LightSecAgg) a job's shares go to all clients when it begins, and `threshold` clients of the
    buffer answer. With "one_shot" masks clients send one message, when they upload, and a committee of the buffer
    answers. The factors also multiply the errors of these masks, so `levels` must be lower.

    With coded masks of T `colluders` and a `threshold` U, a client sends about 1 + n / (U - T) times the model for a
    job: 21 times if n = 40, K = 8 and nothing else is given. Fewer `colluders` or `lost`, or one-shot masks, make it
    less. If not given, U is K - 3 K / 10, rounded up. A round with fewer uploads or answers fails: of rounds with
    K = 10, 1.3% at `dropout` 0.1 and 12% at 0.2. A higher `lost` lets fewer fail.

    Args:
      local: training of a client.
      num_clients: clients in the data, n.
      num_params: parameters of the model, d.
      masks: how uploads are masked.
      buffer_size: K, arrivals of a round, at least 2; the default is 10, or all clients if there are fewer.
      concurrency: M, jobs in progress at any time; if not given, everyone trains all the time.
      max_staleness: an update that is more rounds behind is left out; the default is five times the mean, (M - 1) / K.
      staleness_power: 1/2 in FedBuff; 0 weighs all updates alike. Static in a sweep.
      weight_levels: c_g, the factor of a fresh update; 64, or 8 with "one_shot" masks, if not given. 1 with
        `staleness_power=0` weighs all alike.
      normalize: "weights" divides by the sum of the factors, "buffer" by K c_g. If not given, it is "buffer" with
        noise, which needs that, and "weights" without.
      job_law: law of the times of a client's jobs.
      mean_time: mean time of a job, of every client or `[n]`.
      max_jobs: most jobs of a client, after which it stops; any number if not given.
      clip: C, largest norm of an update, before it is weighed; no clipping if not given. Static in a sweep.
      noise_multiplier: z, standard deviation of the server's noise on the sum of updates times `f_i / c_g`, over
        `clip`; no noise if not given.
      levels: c_l, grid points of the quantizer per unit, or with noise per `clip`. The sum must not wrap: with `clip`
        this is checked by `K c_g c_l C`; without it, a client whose update is too long makes the round fail. The
        default is the largest power of two up to 2**16 that leaves room for updates of norm `clip`, or of norm 4
        without `clip`.
      dropout: probability that an upload is lost.
      leave: probability that a client of the buffer is gone when holders or members are asked.
      threshold: answers that open a sum; for "coded" masks fewest uploads in it, too. If not given, as for the layer.
      coins: with "one_shot", of each sign in an error of a mask.
      failure: with "one_shot", probability per round that errors corrupt a sum, which nobody notices (Hoeffding's
        bound); 0 spends the most bits of the field.
      **how: `colluders`, `lost` and `elide` of `layers.coded_masks`; `committee`, `fewest` and `length` of
        `layers.one_shot_masks`, which takes `elide` too; `server`, `block`, `mesh`, `observe` and `lying_server` of
        `federated_round`.

    Raises:
      ValueError: an argument outside its range, one of the other masks, or sums that could wrap; the message names it
        and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = secure_fedbuff(local, num_clients=100, num_params=15_010, concurrency=33, colluders=5)
    """
    _validate.one_of(("coded", "one_shot"), masks=masks)
    _validate.integer(num_params=num_params)
    weight_levels = FRESH[masks] if weight_levels is None else weight_levels
    _validate.integer(weight_levels=weight_levels)
    _validate.integer(at_least=2, num_clients=num_clients)
    buffer_size = min(10, num_clients) if buffer_size is None else buffer_size
    _validate.integer(at_least=2, buffer_size=buffer_size)
    check_population(num_clients, buffer_size, concurrency)
    check_coins(coins)
    _validate.known(failure=failure)
    _validate.fraction(below_one=True, failure=failure)
    code, rest = CODE.split(how)
    members, run = COMMITTEE.split(rest)
    about = {"group_size": buffer_size, "threshold": threshold, "elide": code.pop("elide", False)}
    if masks == "coded":
        errors = ({} if coins == 21 else {"coins": coins}) | ({"failure": failure} if failure else {})
        not_together(COMMITTEE.given(members) | errors, "masks='coded'")
        innermost = coded_masks(num_values=num_params, holders=num_clients, **about, **code)
    else:
        not_together(CODE.given(code), "masks='one_shot'")
        innermost = _one_shot(num_params, weight_levels, coins, failure, about | members)
    if normalize is None:
        normalize = "weights" if noise_multiplier is None else "buffer"
    if levels is None:
        longest = 1.0 if noise_multiplier is not None else 4.0 if clip is None else clip
        levels = _finest(buffer_size * weight_levels * innermost.sums.spacing, longest)
    return fedbuff(
        local, num_clients=num_clients, buffer_size=buffer_size, concurrency=concurrency, max_staleness=max_staleness,
        staleness_power=staleness_power, weight_levels=weight_levels, normalize=normalize, job_law=job_law,
        mean_time=mean_time, max_jobs=max_jobs, clip=clip, noise_multiplier=noise_multiplier, levels=levels,
        dropout=dropout, leave=leave, secure_sum=of_model(num_params, innermost), **run,
    )  # fmt: skip


def _finest(terms: int, longest: float) -> float:
    """The finest grid, a power of two, on which updates of this norm are below `quantize`'s limit for so many terms."""
    _validate.known(clip=longest)
    _validate.positive(clip=longest)
    room = max(field.HALF // terms - 1, 1) / float(longest)
    return min(FINEST, 2.0 ** (math.ceil(math.log2(room)) - 1))


def _one_shot(num_params: int, largest: int, coins: int, failure: float, about: dict[str, Any]) -> Layer:
    """Masks whose errors, each times a factor of at most `largest`, are rounded away."""
    size = about["group_size"]
    given = f"buffer_size = {size}, weight_levels = {largest}, coins = {coins} and failure = {failure:g}"
    spacing = fitting_spacing(spacing_of_weighed(size, coins, num_params, float(failure), largest), size, given)
    return one_shot_masks(spacing=spacing, coins=coins, **about)
