"""Asynchronous rounds: the clients whose updates arrive next, each trained from the model given when its job began.

Source: FedBuff (Nguyen et al. 2022, arXiv 2106.06639), Algorithm 1, in virtual time. The times of jobs do not depend on
the model, so the schedule is a draw, and its state has the jobs under way. A round is the K arrivals that fill the
server's buffer; then the buffer is emptied. Every round makes a new version of the model, even if it fails.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float32, Int, Int32, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.clients.capped_draws import capped
from fedjax_priv.clients.cohort_rows import Counts, cohort_of, only_those
from fedjax_priv.clients.job_times import JobLaw, JobTimes, job_times
from fedjax_priv.keys import named, per_client

MOST_VERSIONS = 2**16
"""The most models that a run keeps."""


class Jobs(NamedTuple):
    """Jobs under way between two rounds."""

    client: Int32[Array, " m"]
    version: Int32[Array, " m"]  # the round whose model the client was given
    left: Float32[Array, " m"]  # time until its update arrives
    idle: PyTree  # int32 [i + 1], clients without a job, in any order, and one spare place; (): everyone has a job
    clock: Float32[Array, ""]  # virtual time


def buffered(
    buffer_size: int,
    concurrency: int | None = None,
    *,
    max_staleness: int,
    max_jobs: int | None = None,
    law: JobLaw = "half_normal",
    mean_time: ArrayLike = 1.0,
) -> Draw:
    """The clients of the next K arrivals, in ascending order; clients train all the time.

    With `concurrency`, there are M slots. An arrival frees its slot, and a client drawn uniformly among the idle ones
    takes the slot with the newest model. So slow clients have fewer jobs only because they are less often idle. After
    the K-th arrival the server makes a new model, and the client that takes the last freed slot gets this one. The mean
    staleness is (M - 1) / K for any law.

    Without `concurrency`, all clients train all the time: a client starts again as soon as the server has used its
    update, so fast clients have more jobs. If the population is K, this is a synchronous round.

    No client has two jobs under way, or two updates in a buffer. An arrival that is too stale fills a place and is not
    `selected`. Rounds measure `staleness`, `too_stale`, and the `virtual_time` at the end of the round.

    With `max_jobs`, a client stops after so many jobs. A slot stays empty while nobody may take it. If fewer jobs are
    left than places, the round has only the jobs that arrive, and finally none; the other places are not `selected`.
    Rounds measure which places were `unfilled`, and how many clients have `stopped`.

    Args:
      buffer_size: K, arrivals of a round.
      concurrency: M, jobs under way at any time. None: a job of every client.
      max_staleness: an arrival that is more rounds behind is left out; below 2**16. The server keeps `max_staleness` +
        1 models.
      max_jobs: of a client; any number if not given.
      law: of the times of a client's jobs.
      mean_time: their mean, > 0, of every client or `[n]`.

    Raises:
      ValueError: an argument is out of range or, by `init`, the population is below M + K - 1 (M - 1 under way, K - 1
        in the buffer, one for the free slot), or below K where everyone trains.

    Examples:
      >>> draw = buffered(10, concurrency=33, max_staleness=20)  # of at least 42 clients
      >>> print(draw.versions)
      21
    """
    _validate.integer(buffer_size=buffer_size)
    _validate.integer(at_least=0, max_staleness=max_staleness)
    if max_staleness >= MOST_VERSIONS:
        raise ValueError(f"max_staleness must be below {MOST_VERSIONS}, got {max_staleness}: one more model is kept")
    if concurrency is not None:
        _validate.integer(concurrency=concurrency)
    times, versions = job_times(law, mean_time), max_staleness + 1
    if max_jobs is not None:
        _validate.integer(max_jobs=max_jobs)
        return _of_enough(
            capped(buffer_size, concurrency, max_jobs=max_jobs, versions=versions, times=times),
            buffer_size,
            concurrency,
        )

    def init(key: Key, n: int) -> Jobs:
        slots = n if concurrency is None else concurrency
        check_population(n, buffer_size, concurrency)
        order = jnp.arange(n) if concurrency is None else jax.random.permutation(named(key, "who"), n)
        client = order[:slots].astype(jnp.int32)
        left = _times(times.checked(n), key, client)
        idle = () if concurrency is None else jnp.append(order[slots:], 0).astype(jnp.int32)
        return Jobs(client, jnp.zeros(slots, jnp.int32), left, idle, jnp.float32(0))

    def apply(key: Key, jobs: Jobs, round: Int[Array, ""], count: Counts) -> tuple[Cohort, Jobs]:
        arrive = _from_everyone if concurrency is None else _from_slots
        client, staleness, jobs = arrive(key, jobs, round, buffer_size, times)
        ascending = jnp.argsort(client)
        who = cohort_of(client[ascending], round, count)._replace(staleness=staleness[ascending])
        return only_those(who, who.staleness < versions), jobs

    def measures(who: Cohort, jobs: Jobs) -> Mapping[str, Array]:
        return {"staleness": who.staleness, "too_stale": who.staleness >= versions, "virtual_time": jobs.clock}

    return Draw(init, apply, versions=versions, measures=measures)


def _of_enough(draw: Draw, buffer_size: int, concurrency: int | None) -> Draw:
    """The same draw; its `init` refuses a population that is too small."""

    def init(key: Key, n: int) -> PyTree:
        check_population(n, buffer_size, concurrency)
        return draw.init(key, n)

    return draw._replace(init=init)


def check_population(num_clients: int, buffer_size: int, concurrency: int | None) -> None:
    """Checks that a free slot always finds an idle client, or that everyone together fills the buffer.

    Raises:
      ValueError: there are too few clients, or `concurrency` is no integer >= 1.
    """
    if concurrency is not None:
        _validate.integer(concurrency=concurrency)
    if buffer_size > num_clients:
        raise ValueError(f"buffer_size must be at most {num_clients}, the number of clients, got {buffer_size}")
    if concurrency is not None and (most := num_clients - buffer_size + 1) < concurrency:
        raise ValueError(
            f"concurrency must be at most {most}, as of {num_clients} clients up to {buffer_size - 1} are in the "
            f"buffer, got {concurrency}"
        )


def _times(times: JobTimes, key: Key, client: Array) -> Array:
    return times.draw(per_client(lambda key: key, named(key, "job"), client), client)


def _from_everyone(key: Key, jobs: Jobs, round: Array, number: int, times: JobTimes) -> tuple[Array, Array, Jobs]:
    """The first arrivals: the shortest times left, since nobody starts again before the end of the round."""
    client = jnp.argsort(jobs.left, stable=True)[:number].astype(jnp.int32)
    finish = jobs.left[client[-1]]
    left = (jobs.left - finish).at[client].set(_times(times, key, client))
    version = jobs.version.at[client].set(round + 1)
    return client, round - jobs.version[client], Jobs(jobs.client, version, left, (), jobs.clock + finish)


def _from_slots(key: Key, jobs: Jobs, round: Array, number: int, times: JobTimes) -> tuple[Array, Array, Jobs]:
    """One arrival after the other; a client that started in this round may arrive in it."""
    spare = jobs.idle.size - 1

    def arrival(jobs: Jobs, place: Array) -> tuple[Jobs, tuple[Array, Array, Array]]:
        slot = jnp.argmin(jobs.left)
        old, now, last = jobs.client[slot], jobs.left[slot], place == number - 1
        own = jax.random.fold_in(key, place)
        new, idle = _exchange(named(own, "who"), jobs.idle, old, jnp.where(last, spare + 1, spare - place))
        time = now + times.draw(named(own, "job")[None], new[None])[0]
        after = jobs._replace(
            client=jobs.client.at[slot].set(new),
            version=jobs.version.at[slot].set(jnp.where(last, round + 1, round)),
            left=jobs.left.at[slot].set(time),
            idle=idle,
        )
        return after, (old, round - jobs.version[slot], now)

    jobs, (client, staleness, now) = jax.lax.scan(arrival, jobs, jnp.arange(number))
    return client, staleness, jobs._replace(left=jobs.left - now[-1], clock=jobs.clock + now[-1])


def _exchange(key: Key, idle: Array, arrived: Array, number: Array) -> tuple[Array, Array]:
    """Draws one of the first `number` idle clients; returns it, and the others followed by the client that arrived.

    Places from `number` on hold clients in the buffer; at the last arrival these are idle too.
    """
    idle = idle.at[-1].set(arrived)
    place = jax.random.randint(key, (), 0, number)
    return idle[place], idle.at[place].set(idle[number - 1]).at[number - 1].set(arrived)
