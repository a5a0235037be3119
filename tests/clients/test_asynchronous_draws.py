"""Asynchronous draws: the law of staleness, who is where, and the same schedule in every program."""

import functools
import heapq

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.clients import asynchronous_draws, buffered
from fedjax_priv.clients.job_times import _UNIT, job_times
from helpers import chi_square, refuses

KEY = jax.random.key(11)
ROUNDS, START_UP = 1000, 100


@functools.cache
def scheduled(n, *args, mean_time=1.0, rounds=ROUNDS, **how):
    """Cohorts and jobs of rounds in a row; `mean_time` is a number or a tuple."""
    draw = buffered(*args, **{"max_staleness": 400, **how}, mean_time=np.float32(mean_time))
    count = jnp.ones(n, jnp.int32)

    def step(jobs, round):
        who, jobs = draw.apply(jax.random.fold_in(KEY, round), jobs, round, count)
        return jobs, (who.client, who.staleness, who.selected, jobs, jobs.clock)

    run = jax.jit(lambda: jax.lax.scan(step, draw.init(KEY, n), jnp.arange(rounds)))
    return jax.tree.map(np.asarray, run()[1])


def deviations(staleness, expected):
    """Of the mean staleness from what is expected, in standard errors, from means of blocks of 50 rounds."""
    blocks = staleness[START_UP:].mean(1).reshape(-1, 50).mean(1)
    return (blocks.mean() - expected) / (blocks.std(ddof=1) / np.sqrt(len(blocks)) + 1e-9)


@pytest.mark.parametrize("law", _UNIT)
def test_mean_staleness_of_slots(law):
    """(M - 1) / K = 3.2 for 33 slots and K = 10, whatever the law; the control, M / K, is rejected."""
    _, staleness, *_ = scheduled(60, 10, 33, law=law)
    assert abs(staleness[START_UP:].mean() - 3.2) < 0.05
    assert abs(deviations(staleness, 3.2)) < 4.5


def test_as_many_slots_as_places():
    """M = K = 10: 0.9; the control is 1. M = K = 1: nobody is ever behind."""
    _, staleness, *_ = scheduled(30, 10, 10)
    assert abs(deviations(staleness, 0.9)) < 4.5
    assert deviations(staleness, 1.0) < -10
    _, fresh, _, _, clock = scheduled(5, 1, 1)
    assert not fresh.any()
    assert (np.diff(clock) >= 0).all()


def test_flushes_per_unit_of_time():
    """M / (K E[L]), half-normal jobs of mean 2."""
    *_, clock = scheduled(60, 10, 33, mean_time=2.0)
    rate = (ROUNDS - START_UP) / (clock[-1] - clock[START_UP - 1])
    assert rate == pytest.approx(33 / (10 * 2.0), rel=0.03)


def test_the_mean_time_of_a_flush_is_that_of_jobs_and_not_of_clients():
    """Fast clients are idle more often, and have more jobs."""
    mean_time = np.exp(np.random.default_rng(0).normal(size=60))
    clients, *_, clock = scheduled(60, 10, 33, mean_time=tuple(mean_time))
    rate = (ROUNDS - START_UP) / (clock[-1] - clock[START_UP - 1])
    of_jobs = mean_time[clients[START_UP:]].mean()
    assert rate == pytest.approx(33 / (10 * of_jobs), rel=0.03)
    assert rate > 1.2 * 33 / (10 * mean_time.mean())


def test_exponential_jobs_arrive_as_a_poisson_process():
    """Of rate M: times between flushes have a Gamma law, and a job is behind by a geometric number of arrivals."""
    slots, size = 33, 10
    _, staleness, _, _, clock = scheduled(60, size, slots, law="exponential")
    intervals = np.diff(clock) * slots
    assert stats.kstest(intervals, stats.gamma(size).cdf).pvalue > 1e-3
    assert stats.kstest(intervals, stats.gamma(size + 1).cdf).pvalue < 1e-6  # the control
    fresh = np.mean(1 - (1 - 1 / slots) ** np.arange(1, size + 1))
    assert abs(deviations(staleness == 0, fresh)) < 4.5


def test_nobody_is_twice_anywhere_and_everyone_is_somewhere():
    """The smallest population, M + K - 1, where a free slot finds one idle client."""
    n, slots, size = 12, 7, 6
    clients, staleness, _, jobs, _ = scheduled(n, size, slots)
    assert all(len({*row}) == size and (np.diff(row) > 0).all() for row in clients)
    everybody = np.sort(np.concatenate([jobs.client, jobs.idle[:, :-1]], axis=1), axis=1)
    assert (everybody == np.arange(n)).all()
    assert (staleness >= 0).all() and clients.shape == (ROUNDS, size)


def test_after_a_flush_everyone_who_is_idle_is_as_likely_to_be_next():
    """One slot, three clients, all in each buffer: who begins a round is uniform, whoever began the last one."""
    *_, jobs, _ = scheduled(3, 3, 1)
    first = jobs.client[:, 0]
    pairs = np.bincount(3 * first[:-1] + first[1:], minlength=9)
    assert chi_square(pairs, np.full(9, pairs.sum() / 9))[1] > 1e-3


def test_shares_of_jobs_by_speed():
    """Where everyone trains, as 1 / E[L] (K = 1, nobody is held). In slots about as 1 / (W + E[L]), W a common time to
    wait: W = 2 fills 4 slots with 4 clients of mean 1 and 4 of mean 4.
    """
    mean_time = (1.0,) * 4 + (4.0,) * 4
    times = dict(mean_time=mean_time, rounds=4000)
    count = lambda clients: np.bincount(clients[START_UP:].ravel(), minlength=8)
    slots = count(scheduled(8, 1, 4, **times)[0])
    np.testing.assert_allclose(slots.reshape(2, 4).sum(1) / slots.sum(), [2 / 3, 1 / 3], rtol=0.1)
    clients, staleness, *_ = scheduled(8, 1, **times)
    rates = 1 / np.array(mean_time)
    share = rates / rates.sum()
    np.testing.assert_allclose(count(clients) / count(clients).sum(), share, rtol=0.1)
    late = staleness[START_UP:].ravel()
    for client, mean in ((0, 1.0), (7, 4.0)):
        mine = late[clients[START_UP:].ravel() == client].mean()
        assert mine == pytest.approx(mean * rates.sum() - 1, rel=0.12)


def test_everyone_training_against_a_queue_of_events():
    """Fixed times of every client's own: the schedule is known. A client starts again after the flush."""
    mean, size = np.array([1.0, 1.5, 2.25, 4.0, 7.0], np.float32), 2
    draw = buffered(size, max_staleness=9, law="fixed", mean_time=mean)
    jobs, step = draw.init(KEY, 5), jax.jit(draw.apply)
    queue, held, clock = [(float(m), i, 0) for i, m in enumerate(mean)], [], 0.0
    heapq.heapify(queue)
    for round in range(12):
        while len(held) < size:
            clock, client, start = heapq.heappop(queue)
            held.append((client, round - start))
        who, jobs = step(KEY, jobs, jnp.int32(round), jnp.ones(5, jnp.int32))
        assert [*zip(who.client.tolist(), who.staleness.tolist(), strict=True)] == sorted(held)
        assert float(jobs.clock) == pytest.approx(clock)
        for client, _ in held:
            heapq.heappush(queue, (clock + float(mean[client]), client, round + 1))
        held = []


def smallest(key, idle, arrived, number):
    """In place of `_exchange`: the idle client of the smallest number takes the slot."""
    idle = idle.at[-1].set(arrived)
    place = jnp.argmin(jnp.where(jnp.arange(idle.size) < number, idle, idle.size + 99))
    return idle[place], idle.at[place].set(idle[number - 1]).at[number - 1].set(arrived)


@pytest.mark.parametrize(("size", "slots"), [(3, 5), (4, 2)])
def test_slots_against_a_queue_of_events(monkeypatch, size, slots):
    """Fixed times, and a free slot is the smallest idle client's: after the last place any client's."""
    monkeypatch.setattr(asynchronous_draws, "_exchange", smallest)
    mean, version = np.random.default_rng(0).uniform(0.5, 5, 9).astype(np.float32), dict.fromkeys(range(9), 0)
    draw = buffered(size, slots, max_staleness=99, law="fixed", mean_time=mean)
    jobs, step = draw.init(KEY, 9), jax.jit(draw.apply)
    queue = [(float(mean[client]), client) for client in jobs.client.tolist()]
    heapq.heapify(queue)
    for round in range(20):
        held = []
        for place in range(size):
            clock, client = heapq.heappop(queue)
            held.append((client, round - version[client]))
            full = place == size - 1
            new = min({*range(9)} - {c for _, c in queue} - ({*()} if full else {c for c, _ in held}))
            version[new] = round + full
            heapq.heappush(queue, (clock + float(mean[new]), new))
        who, jobs = step(KEY, jobs, jnp.int32(round), jnp.ones(9, jnp.int32))
        assert [*zip(who.client.tolist(), who.staleness.tolist(), strict=True)] == sorted(held)
        assert float(jobs.clock) == pytest.approx(clock, rel=1e-5)


def test_who_has_the_first_slots_is_uniform():
    """2 of 5 clients, drawn by the key of a run: all ten pairs, and either order."""
    first = jax.jit(jax.vmap(lambda key: buffered(1, 2, max_staleness=1).init(key, 5).client))
    pairs = np.asarray(first(jax.random.split(KEY, 4000)))
    assert (
        chi_square(
            np.bincount(5 * pairs[:, 0] + pairs[:, 1], minlength=25)[~np.eye(5, dtype=bool).ravel()], np.full(20, 200.0)
        )[1]
        > 1e-3
    )


def test_everyone_in_the_buffer_is_a_synchronous_round():
    clients, staleness, *_ = scheduled(6, 6)
    assert not staleness.any()
    assert (clients == np.arange(6)).all()


def test_the_usual_limit_of_staleness_leaves_out_who_is_slow():
    """Of 33 slots and K = 10 the limit is 16: few are left out, but half of the slowest, and nobody fast."""
    mean_time = np.exp(np.random.default_rng(0).normal(size=60))
    clients, _, selected, *_ = scheduled(60, 10, 33, mean_time=tuple(mean_time), max_staleness=16)
    share = np.bincount(clients[~selected], minlength=60) / np.bincount(clients.ravel(), minlength=60)
    assert 0.01 < (~selected).mean() < 0.04 and share[mean_time.argmax()] > 0.35
    assert not share[mean_time < 0.7].any() and 6 < mean_time.max() / np.median(mean_time) < 7


@pytest.mark.parametrize("capped", [{}, dict(max_jobs=10**6)])
def test_clients_that_begin_together_have_independent_times(capped):
    """Where all restart in each round, their times are new: of the law, and no two of them go together."""
    draw = buffered(4, max_staleness=1, law="exponential", **capped)
    keys, count = jax.random.split(KEY, 2000), jnp.ones(4, jnp.int32)
    first = jax.jit(jax.vmap(lambda key: draw.init(key, 4).left))(keys)
    start = draw.init(KEY, 4)
    again = jax.jit(jax.vmap(lambda key: draw.apply(key, start, jnp.int32(0), count)[1].left))(keys)
    for times in map(np.asarray, (first, again)):
        assert stats.kstest(times.ravel(), "expon").pvalue > 1e-3
        assert abs(np.corrcoef(times.T) - np.eye(4)).max() < 5 / np.sqrt(len(times))


def test_arrivals_that_are_too_stale_are_left_out_and_change_no_schedule():
    clients, staleness, selected, *_ = scheduled(60, 10, 33)
    few = scheduled(60, 10, 33, max_staleness=3)
    assert (few[0] == clients).all() and (few[1] == staleness).all()
    assert selected.all()
    assert (few[2] == (staleness <= 3)).all() and not few[2].all()


@pytest.mark.parametrize(("law", "variance"), [("half_normal", np.pi / 2 - 1), ("exponential", 1.0), ("fixed", 0.0)])
def test_times_of_jobs(law, variance):
    keys = jax.random.split(KEY, 20_000)
    client = jnp.arange(20_000) % 2
    times = np.asarray(jax.jit(job_times(law, np.array([1.0, 3.0])).draw)(keys, client)) / np.where(client, 3, 1)
    assert times.mean() == pytest.approx(1, abs=0.03)
    assert times.var() == pytest.approx(variance, abs=0.06)


def test_a_mean_that_is_traced_and_out_of_range_gives_no_time():
    """A client of such a mean never arrives, or all virtual times are NaN."""
    keys, client = jax.random.split(KEY, 4), jnp.arange(4)
    times = jax.jit(lambda mean: job_times("fixed", mean).draw(keys, client))
    np.testing.assert_array_equal(times(jnp.array([2.0, 0.0, -1.0, jnp.inf])), [2.0, np.nan, np.nan, np.nan])


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: buffered(0, max_staleness=1), "buffer_size must be an integer >= 1, got 0"),
    (lambda: buffered(2, 0, max_staleness=1), "concurrency must be an integer >= 1, got 0"),
    (
        lambda: buffered(2, max_staleness=2**16),
        "max_staleness must be below 65536, got 65536: one more model is kept",
    ),
    (lambda: buffered(2, max_staleness=-1), "max_staleness must be an integer >= 0, got -1"),
    (lambda: buffered(2, max_staleness=1, mean_time=0.0), "mean_time must be a finite number > 0, got 0.0"),
    (
        lambda: buffered(3, 4, max_staleness=1).init(KEY, 5),
        "concurrency must be at most 3, as of 5 clients up to 2 are in the buffer, got 4",
    ),
    (lambda: buffered(6, max_staleness=1).init(KEY, 5), "buffer_size must be at most 5, the number of clients, got 6"),
    (
        lambda: buffered(2, max_staleness=1, mean_time=np.ones(4)).init(KEY, 5),
        r"mean_time must be a number, or one per client; shape \(\) or \(5,\), got \(4,\)",
    ),
)
