"""Clients that stop after so many jobs: who may go on, empty slots, and rounds that nobody can fill."""

import functools
import heapq
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_priv.clients import buffered
from helpers import refuses

KEY = jax.random.key(12)


@functools.cache
def scheduled(n, *args, rounds, seed=12, mean_time=1.0, **how):
    """Of rounds in a row: clients, staleness, who is selected, measures and jobs."""
    draw: Any = buffered(*args, **{"max_staleness": 200, **how}, mean_time=np.float32(mean_time))

    def step(jobs, round):
        who, jobs = draw.apply(jax.random.fold_in(jax.random.key(seed), round), jobs, round, jnp.ones(n, jnp.int32))
        return jobs, (who.client, who.staleness, who.selected, draw.measures(who, jobs), jobs)

    run = jax.jit(lambda: jax.lax.scan(step, draw.init(jax.random.key(seed), n), jnp.arange(rounds)))
    return jax.tree.map(np.asarray, run()[1])


def test_nobody_has_more_jobs_than_allowed_and_everybody_gets_all_of_them():
    """20 clients with 3 jobs each, 6 slots, 4 places: 15 rounds, the last ones not full, and then empty ones."""
    client, _, came, measured, jobs = scheduled(20, 4, 6, rounds=25, max_jobs=3)
    assert (np.bincount(client[came], minlength=20) == 3).all()
    assert all(len({*row}) == 4 and (np.diff(row) > 0).all() for row in client)
    assert (jobs.given <= 3).all() and (np.diff(jobs.given, axis=0) >= 0).all()
    full = came.all(1)
    assert full[:12].all() and not came[-5:].any() and came.sum() == 60
    assert (measured["unfilled"] == ~came).all() and not measured["too_stale"].any()
    assert measured["stopped"][-1] == 20 and measured["stopped"][0] == 0 and (np.diff(measured["stopped"]) >= 0).all()


def test_the_clock_stands_where_nobody_comes():
    _, staleness, came, measured, jobs = scheduled(20, 4, 6, rounds=25, max_jobs=3)
    time, empty = measured["virtual_time"], ~came.any(1)
    assert np.isfinite(time).all() and (np.diff(time) >= 0).all()
    assert (np.diff(time)[empty[1:]] == 0).all() and (np.diff(time)[~empty[1:]] > 0).all()
    assert not staleness[~came].any() and np.isinf(jobs.left[-1]).all()


def test_slots_stay_empty_only_while_nobody_may_take_them():
    """Jobs under way and those allowed: 6, or as many as there are idle clients below the cap after a flush."""
    *_, jobs = scheduled(20, 4, 6, rounds=25, max_jobs=3)
    busy = np.isfinite(jobs.left)
    may = (~busy & (jobs.given < 3)).sum(1)
    assert ((busy.sum(1) == 6) | (may == 0)).all() and (busy.sum(1) <= 6).all()
    assert (busy.sum(1) == 6)[:8].all() and busy.sum(1)[-12:].max() > 0


@pytest.mark.parametrize(("size", "slots"), [(10, 33), (10, 10)])
def test_a_cap_that_nobody_reaches_changes_no_law(size, slots):
    """(M - 1) / K on average, and equal shares; the control is M / K."""
    client, staleness, came, *_ = scheduled(60, size, slots, rounds=700, max_jobs=10**6)
    blocks = staleness[100:].mean(1).reshape(-1, 50).mean(1)
    error = blocks.std(ddof=1) / np.sqrt(len(blocks))
    assert abs(blocks.mean() - (slots - 1) / size) < 4.5 * error < abs(blocks.mean() - slots / size) and came.all()
    share = np.bincount(client.ravel(), minlength=60)
    assert (abs(share - share.mean()) < 5 * np.sqrt(share.mean())).all()


def test_who_begins_is_uniform_among_those_who_may():
    """One slot and one place of four clients: the next is any of the four, whoever came last."""
    client, *_ = scheduled(4, 1, 1, rounds=4000, max_jobs=10**6)
    pairs = np.bincount(4 * client[:-1, 0] + client[1:, 0], minlength=16)
    assert (abs(pairs - 250) < 5 * np.sqrt(250)).all()


def test_everyone_training_against_a_queue_of_events():
    """Fixed times of every client's own, 3 jobs each: the schedule is known to the end, with the last places empty."""
    mean, size, most = (1.0, 1.5, 2.25, 4.0, 7.0), 2, 3
    client, staleness, came, measured, _ = scheduled(5, size, rounds=10, max_jobs=most, law="fixed", mean_time=mean)
    queue, given, clock = [(m, i, 0) for i, m in enumerate(mean)], [1] * 5, 0.0
    heapq.heapify(queue)
    for round in range(10):
        held = []
        while len(held) < size and queue:
            clock, who, start = heapq.heappop(queue)
            held.append((who, round - start))
        found = [*zip(client[round].tolist(), staleness[round].tolist(), came[round].tolist(), strict=True)]
        assert [(who, late) for who, late, here in found if here] == sorted(held)
        assert measured["virtual_time"][round] == pytest.approx(clock)
        for who, _ in held:
            if given[who] < most:
                given[who] += 1
                heapq.heappush(queue, (clock + mean[who], who, round + 1))
    assert given == [most] * 5 and not queue


def test_fast_clients_stop_first():
    """Everyone trains: clients of mean 1 reach the cap long before those of mean 8."""
    client, _, came, measured, _ = scheduled(8, 2, rounds=20, max_jobs=5, mean_time=(1.0,) * 4 + (8.0,) * 4)
    last = [np.flatnonzero((client == i).any(1) & came.any(1))[-1] for i in range(8)]
    assert max(last[:4]) < min(last[4:]) and measured["stopped"][-1] == 8


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: buffered(2, max_staleness=1, max_jobs=0), "max_jobs must be an integer >= 1, got 0"),
    (
        lambda: buffered(3, 4, max_staleness=1, max_jobs=2).init(KEY, 5),
        "concurrency must be at most 3, as of 5 clients up to 2 are in the buffer, got 4",
    ),
)
