"""Asynchronous rounds in which a client stops after a number of jobs, so that eps is known before a run."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32

from fedjax_priv.base import Cohort, Draw, Key
from fedjax_priv.clients.cohort_rows import Counts, cohort_of, only_those
from fedjax_priv.clients.job_times import JobTimes
from fedjax_priv.keys import named


class CappedJobs(NamedTuple):
    """The job of each client between two rounds; slots that nobody may take are empty."""

    left: Float32[Array, " n"]  # time until its update arrives; infinite: it has no job
    version: Int32[Array, " n"]  # the round whose model the client was given last
    given: Int32[Array, " n"]  # number of jobs so far
    clock: Float32[Array, ""]  # virtual time


def capped(buffer_size: int, concurrency: int | None, *, max_jobs: int, versions: int, times: JobTimes) -> Draw:
    """`clients.buffered` with `max_jobs`, for checked arguments; a round takes O(K n) time.

    Places that nobody fills hold a client that is not `selected`, of staleness 0.
    """

    def init(key: Key, n: int) -> CappedJobs:
        slots = n if concurrency is None else concurrency
        works = jnp.zeros(n, bool).at[jax.random.permutation(named(key, "who"), n)[:slots]].set(True)
        keys = jax.random.split(named(key, "job"), n)
        left = jnp.where(works, times.checked(n).draw(keys, jnp.arange(n)), jnp.inf)
        return CappedJobs(left, jnp.zeros(n, jnp.int32), works.astype(jnp.int32), jnp.float32(0))

    def apply(key: Key, jobs: CappedJobs, round: Int[Array, ""], count: Counts) -> tuple[Cohort, CappedJobs]:
        n = count.size
        slots = n if concurrency is None else concurrency
        fill = Slots(named(key, "job"), slots, max_jobs, times)
        client, staleness, came, jobs = _arrivals(fill, jobs, round, buffer_size)
        ascending = jnp.argsort(client)
        who = cohort_of(client[ascending], round, count)._replace(staleness=staleness[ascending])
        return only_those(who, came[ascending] & (who.staleness < versions)), jobs

    def measures(who: Cohort, jobs: CappedJobs) -> Mapping[str, Array]:
        late = who.staleness >= versions
        stopped = (jobs.given >= max_jobs) & jnp.isinf(jobs.left)
        return {
            "staleness": who.staleness, "too_stale": late, "virtual_time": jobs.clock,
            "unfilled": ~who.selected & ~late, "stopped": stopped.sum(),
        }  # fmt: skip

    return Draw(init, apply, versions=versions, measures=measures)


class Slots(NamedTuple):
    """How free slots are filled."""

    key: Key
    number: int  # the most jobs under way
    max_jobs: int
    times: JobTimes


def _arrivals(fill: Slots, jobs: CappedJobs, round: Array, number: int) -> tuple[Array, Array, Array, CappedJobs]:
    """For each place the client, its staleness, and whether one arrived; free slots then get the newest model."""

    def place(state: tuple[CappedJobs, Array, Array], at: Array) -> tuple[tuple, tuple]:
        jobs, waiting, before = state
        first = jnp.argmin(jobs.left)
        came = jnp.isfinite(jobs.left[first])
        client = jnp.where(came, first, jnp.argmin(waiting)).astype(jnp.int32)
        now = jnp.where(came, jobs.left[first], before)
        late = jnp.where(came, round - jobs.version[client], 0)
        jobs, waiting = jobs._replace(left=jobs.left.at[client].set(jnp.inf)), waiting.at[client].set(True)
        return (_started(fill, jobs, ~waiting & (at < number - 1), round, now, at), waiting, now), (client, late, came)

    start = jobs, jnp.zeros(jobs.left.shape, bool), jnp.float32(0)
    (jobs, _, now), (client, late, came) = jax.lax.scan(place, start, jnp.arange(number))
    anybody = jnp.ones(jobs.left.shape, bool)
    again = lambda at, jobs: _started(fill, jobs, anybody, round + 1, now, at)
    jobs = jax.lax.fori_loop(number, 2 * number, again, jobs)
    return client, late, came, jobs._replace(left=jobs.left - now, clock=jobs.clock + now)


def _started(
    fill: Slots, jobs: CappedJobs, may: Bool[Array, " n"], version: Array, now: Array, at: Array
) -> CappedJobs:
    """Starts one more job, if a slot is free, of a client drawn uniformly among idle clients that may have another."""
    own = jax.random.fold_in(fill.key, at)
    idle = may & jnp.isinf(jobs.left) & (jobs.given < fill.max_jobs)
    number = idle.sum()
    place = jax.random.randint(named(own, "who"), (), 0, jnp.maximum(number, 1))
    new = jnp.argmax(jnp.cumsum(idle) > place)
    starts = (number > 0) & (jnp.isfinite(jobs.left).sum() < fill.number)
    time = now + fill.times.draw(named(own, "job")[None], new[None])[0]
    put = lambda a, value: a.at[new].set(jnp.where(starts, value, a[new]))
    return jobs._replace(
        left=put(jobs.left, time), version=put(jobs.version, version), given=put(jobs.given, jobs.given[new] + 1)
    )
