"""FedBuff (Nguyen et al., AISTATS 2022): asynchronous training, a new model for every K updates that arrive."""

import math
from typing import Literal, get_args

from jax.typing import ArrayLike
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, Draw, Layer, Local
from fedjax_priv.channels import erasure
from fedjax_priv.clients import buffered, weighed_by_staleness
from fedjax_priv.clients.asynchronous_draws import check_population
from fedjax_priv.clients.job_times import JobLaw, job_times
from fedjax_priv.clients.staleness_factors import mean_factors
from fedjax_priv.engine.round import federated_round
from fedjax_priv.systems._arguments import Run, leave_rate, loss_rate, nobody_asked, unless_unknown
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.in_the_clear.buffer_sums import BufferSum, checked, parts_of


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
    max_jobs: int | None = None,
    clip: float | Array | None = None,
    noise_multiplier: float | Array | None = None,
    levels: float | Array = 2.0**20,
    weight_levels: int | None = None,
    secure_sum: Layer | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    **run: Run,
) -> Algorithm:
    """`w <- w - sum_{i in buffer} s(tau_i) Delta_i / K` (arXiv 2106.06639, Algorithm 1), in virtual time.

    A round is a flush of the buffer. `Delta_i` is the update of a client that began from the model of tau_i rounds ago,
    and `s(tau) = (1 + tau)^-staleness_power`. `clients.buffered` says who arrives when; it measures `staleness`,
    `too_stale` and `virtual_time`. `server=optax.sgd(rate)` is the server's learning rate.

    With `noise_multiplier`, figures hold against everybody but the server, who sees every update, or with `secure_sum`
    the exact sum. Who arrives when is public, so sampling does not amplify privacy. Each update of a client adds to its
    privacy loss (a squared distance), `s(tau)^2` times as much as a fresh one. With `max_jobs` the total is at most
    `max_jobs` times that of a fresh update, which is known before the run.

    Args:
      local: training of a client.
      num_clients: clients in the data, n.
      buffer_size: K, arrivals of a round; the default is 10, or all clients if there are fewer.
      concurrency: M, jobs in progress at any time, each of a client drawn uniformly among the idle; at most n - K + 1.
        If not given, everyone trains all the time, so that fast clients send more updates.
      max_staleness: an update that is more rounds behind is left out. The server keeps `max_staleness` + 1 models. The
        default is five times the mean staleness, (M - 1) / K.
      staleness_power: 1/2 in FedBuff; 0 weighs all updates alike.
      normalize: "buffer" divides by K, as FedBuff does, "weights" by the sum of the weights `s(tau_i)`.
      job_law: law of the times of a client's jobs.
      mean_time: mean time of a job, of every client or `[n]`; the unit of virtual time.
      max_jobs: c, most jobs of a client, after which it stops; any number if not given. If fewer jobs are left than
        places in the buffer, a round has only these.
      clip: C, largest norm of an update, before it is weighted; no clipping if not given.
      noise_multiplier: z, standard deviation of the server's noise on the sum of the weighted updates, over `clip`; no
        noise if not given.
      levels: with `secure_sum`, grid points of the quantizer per unit; with `noise_multiplier` too, per `clip`.
      weight_levels: c_g, with `secure_sum`: the server multiplies uploads by the integers `c_g s(tau)`, rounded at
        random (`clients.weighed_by_staleness`). If not given, clients weigh their updates before they round them.
      secure_sum: an innermost layer that adds field elements; floats in the clear if not given. `plain_field()` stands
        for an enclave that shows only the sum to the server, and needs `leave` 0; `secure_fedbuff` has masks. Pairwise
        masks are refused, because clients begin at different times and need not meet in a buffer.
      dropout: probability that an update is lost on its way; it fills a place.
      leave: with `secure_sum`, probability that a client of the buffer is gone when masks are opened.
      **run: arguments of `federated_round`: `server`, `block`, `mesh`, `observe` and `lying_server`.

    Raises:
      ValueError: an argument outside its range; the message names it and the allowed values.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=1)
      >>> system = fedbuff(local, num_clients=100, buffer_size=10, concurrency=33)
    """
    _validate.integer(num_clients=num_clients)
    size = min(10, num_clients) if buffer_size is None else buffer_size
    _validate.integer(buffer_size=size)
    _validate.one_of(get_args(JobLaw), job_law=job_law)
    about = checked(
        BufferSum(
            buffer_size=size, staleness_power=staleness_power, normalize=normalize, clip=clip,
            noise_multiplier=noise_multiplier, levels=levels, weight_levels=weight_levels, secure_sum=secure_sum,
            max_jobs=max_jobs, leave=leave,
        )
    )  # fmt: skip
    if secure_sum is None:
        nobody_asked(leave, "secure_sum=None")
    draw = _arrivals(num_clients, size, concurrency, max_staleness, max_jobs, job_law, mean_time)
    if weight_levels is not None:
        mean_factors(draw.versions, {"staleness_power": staleness_power}, {"weight_levels": weight_levels})
        draw = weighed_by_staleness(draw, staleness_power, levels=weight_levels)
    parts = parts_of(local, about)
    settings = _validate.array(_validate.positive, mean_time=mean_time), loss_rate(dropout), leave_rate(leave)
    return federated_round(
        cohort=draw,
        channel=erasure(loss_rate(dropout), leave=leave),
        num_clients=num_clients,
        **parts | {"aggregate": unless_unknown(parts["aggregate"], *settings)},
        **run,
    )


def _arrivals(
    num_clients: int,
    size: int,
    concurrency: int | None,
    max_staleness: int | None,
    max_jobs: int | None,
    law: JobLaw,
    mean_time: ArrayLike,
) -> Draw:
    """The draw of a round; an update counts up to five times the mean staleness if not given."""
    check_population(num_clients, size, concurrency)
    job_times(law, mean_time).checked(num_clients)
    if max_staleness is None:
        max_staleness = math.ceil(5 * ((concurrency or num_clients) - 1) / size)
    return buffered(size, concurrency, max_staleness=max_staleness, max_jobs=max_jobs, law=law, mean_time=mean_time)
