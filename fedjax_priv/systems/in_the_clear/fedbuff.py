"""FedBuff (Nguyen et al., AISTATS 2022): asynchronous training, a new model for every K updates that arrive."""

import math
from typing import Any, Literal, get_args

from jax.typing import ArrayLike
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators import mean
from fedjax_priv.base import Algorithm, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import bounded, buffered
from fedjax_priv.clients.asynchronous_draws import check_population
from fedjax_priv.clients.job_times import JobLaw
from fedjax_priv.engine.round import federated_round
from fedjax_priv.layers import clip as clipping
from fedjax_priv.layers import discounted_mean, plain, quantize, stack
from fedjax_priv.server_noise import independent, noisy_sum
from fedjax_priv.systems._arguments import Run
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.releases import BufferedNoise

CAVEATS = (
    "noise of the server is float32: who sees its lowest bits may see more than the figures say (Mironov 2012)",
    "times of jobs are drawn: where they depend on a client's data, who comes when tells of these, and no figure holds",
)


@of_known_arguments
def fedbuff(
    local: Local,
    *,
    num_clients: int,
    buffer_size: int | None = None,
    concurrency: int | None = None,
    max_staleness: int | None = None,
    staleness_power: float | Array = 0.5,
    normalize: Literal["buffer", "weights"] = "buffer",
    job_law: JobLaw = "half_normal",
    mean_time: ArrayLike = 1.0,
    clip: float | Array | None = None,
    noise_multiplier: float | Array | None = None,
    levels: float | Array = 2.0**20,
    secure_sum: Layer | None = None,
    **run: Run,
) -> Algorithm:
    """`w <- w - sum_{i in buffer} s(tau_i) Delta_i / K` (arXiv 2106.06639, Algorithm 1), in virtual time.

    A round is a flush of the buffer. `Delta_i` is the update of a client that began from the model of tau_i rounds ago,
    and `s(tau) = (1 + tau)^-staleness_power`. `clients.buffered` says who arrives when; it measures `staleness`,
    `too_stale` and `virtual_time`. `server=optax.sgd(rate)` is the server's learning rate.

    With `noise_multiplier`, figures hold against everybody but the server, who sees every update. Who arrives when is
    public: nothing is amplified, and a client pays for each of its updates, `s(tau)^2` times that of a fresh one.

    Args:
      local: training of a client.
      num_clients: clients in the data, n.
      buffer_size: K, arrivals of a round. 10, or everyone if they are fewer, if not given.
      concurrency: M, jobs under way at any time, each of a client drawn uniformly among the idle; at most n - K + 1.
        Everyone trains all the time if not given, so that fast clients send more updates.
      max_staleness: an update that is more rounds behind is left out. It takes as many copies of the model, and one.
        Five times the mean, (M - 1) / K, if not given.
      staleness_power: 1/2 in FedBuff; 0 weighs all updates alike.
      normalize: "buffer" divides by K, as FedBuff does, "weights" by the sum of the weights `s(tau_i)`.
      job_law: law of the times of a client's jobs.
      mean_time: mean time of a job, of every client or `[n]`; the unit of virtual time.
      clip: C, largest norm of an update, before it is weighted; no clipping if not given.
      noise_multiplier: z, standard deviation of the server's noise on the sum of the weighted updates, over `clip`; no
        noise if not given.
      levels: with `secure_sum`, grid points of the quantizer per unit.
      secure_sum: an innermost layer that adds field elements; floats in the clear if not given. `plain_field()` stands
        for an enclave that shows the server the sum alone. Pairwise masks of clients that begin at different times do
        not meet in a buffer.
      **run: arguments of `federated_round`: `server`, `block`, `mesh` and `observe`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = fedbuff(local, num_clients=100, buffer_size=10, concurrency=33)
    """
    _validate.integer(num_clients=num_clients)
    buffer_size = min(10, num_clients) if buffer_size is None else buffer_size
    _validate.integer(buffer_size=buffer_size)
    _validate.one_of(("buffer", "weights"), normalize=normalize)
    _validate.one_of(get_args(JobLaw), job_law=job_law)
    staleness_power = _validate.non_negative(staleness_power=staleness_power)
    clip = clip if clip is None else _validate.positive(clip=clip)
    if concurrency is not None:
        _validate.integer(concurrency=concurrency)
    check_population(num_clients, buffer_size, concurrency)
    if max_staleness is None:
        max_staleness = math.ceil(5 * ((concurrency or num_clients) - 1) / buffer_size)
    total = float(buffer_size) if normalize == "buffer" else None
    parts: dict[str, Any]
    if noise_multiplier is None:
        above = {} if clip is None else {"clip": clipping(clip)}
        send = {"send": plain()} if secure_sum is None else _rounded(levels, buffer_size, secure_sum)
        layers = stack(**above, mean=discounted_mean(staleness_power, total=total), **send)
        parts = dict(local=local, layers=layers, aggregate=mean())
    else:
        _check_private(clip, normalize, secure_sum)
        parts = _private(local, buffer_size, clip, noise_multiplier, staleness_power)
    return federated_round(
        cohort=buffered(buffer_size, concurrency, max_staleness=max_staleness, law=job_law, mean_time=mean_time),
        channel=erasure(),
        num_clients=num_clients,
        **parts,
        **run,
    )


def _rounded(levels: float | Array, buffer_size: int, secure_sum: Layer) -> dict[str, Layer]:
    return {"quantize": quantize(levels, max_terms=buffer_size), "sum": secure_sum}


def _check_private(clip: Any, normalize: str, secure_sum: Layer | None) -> None:
    if clip is None:
        raise ValueError("clip must be given with noise_multiplier, the noise over it, got None")
    if normalize != "buffer":
        raise ValueError(f"normalize must be 'buffer' with noise_multiplier, got {normalize!r}: weights get no noise")
    if secure_sum is not None:
        raise ValueError("secure_sum must not be given with noise_multiplier: rounding adds to the norms of updates")


def _private(local: Local, buffer_size: int, clip: Any, noise_multiplier: Any, power: float | Array) -> dict[str, Any]:
    """Updates over `clip`, in the unit ball whatever a client holds; noise on the sum, whoever came."""
    noise_multiplier = _validate.non_negative(noise_multiplier=noise_multiplier)
    layers = stack(mean=discounted_mean(power, total=1.0), send=plain())
    return dict(
        local=bounded(local, clip=clip),
        layers=layers._replace(caveats=(*layers.caveats, *CAVEATS)),
        aggregate=noisy_sum(independent(), noise_multiplier, clip / buffer_size),
        release=BufferedNoise(noise_multiplier, clip, power),
    )
