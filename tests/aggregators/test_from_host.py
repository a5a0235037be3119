"""Rules on the host, in a round."""

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lost_on_the_host
from children import Child, count_devices
from fedjax_priv import aggregators, sweep, systems
from fedjax_priv.aggregators import from_host
from fedjax_priv.status import Status
from helpers import one_round, targets, towards_target

N, D = 6, 8
KEY = jax.random.key(1)
DATA = targets(N, D)
ROWS = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


def test_over_seeds_rounds_and_devices_only_rows_that_are_there_are_shown():
    """`w - median(w - x_i)` is the median of the `x_i` that arrived."""
    sizes = []

    def median(rows):
        sizes.append(len(rows))
        rows.sort(0)  # its own copy
        return (rows[(len(rows) - 1) // 2] + rows[len(rows) // 2]) / 2

    make = lambda: systems.robust_fedavg(
        towards_target(), num_clients=N, aggregate=from_host(median), num_byzantine=2, dropout=0.4
    )
    runs = sweep(make, {"seed": [1, 2]}, KEY, lambda key: jnp.zeros(D), DATA, rounds=3)
    assert sorted(sizes) == sorted(runs.counted.sum("client").values.ravel()) and min(sizes) < N
    for run, arrived in zip(runs.params.values, runs.counted.isel(round=-1).values, strict=True):
        np.testing.assert_allclose(run, np.median(np.asarray(DATA.examples)[arrived], 0), rtol=1e-5, atol=1e-6)


def test_on_an_array_and_with_steps_before_it():
    seen = []
    whole = from_host(lambda rows: seen.append(rows) or rows.mean(0, dtype=np.float64))
    np.testing.assert_allclose(whole(ROWS, np.arange(N) < 4), ROWS[:4].mean(0), rtol=1e-5)
    np.testing.assert_array_equal(seen[0], ROWS[:4])
    assert (whole(ROWS, np.zeros(N, bool)) == 0).all() and len(seen) == 1
    mixed = aggregators.pre_aggregated(aggregators.clipping(1.0), whole)(ROWS)
    norms = np.linalg.norm(ROWS, axis=1, keepdims=True)
    np.testing.assert_allclose(mixed, (ROWS / np.maximum(norms, 1)).mean(0), rtol=1e-5, atol=1e-6)


def test_a_direction_that_is_not_finite_fails_the_round_and_keeps_the_model():
    system = systems.robust_fedavg(
        towards_target(), num_clients=N, aggregate=from_host(lambda rows: np.full(D, np.nan)), mesh=None
    )
    before, after, info = one_round(system, DATA, D)
    assert int(info.status) == Status.NOT_FINITE and (after.params == before.params).all()


BAD = [
    (lambda rows: rows[:, 0], r"^function of from_host must return an array of shape \(8,\), got \(6,\)$"),
    (lambda rows: {}["lost"], "^function of from_host raised KeyError: 'lost'$"),
    (lambda rows: sys.exit(3), "^function of from_host raised SystemExit: 3$"),
]


@pytest.mark.parametrize(("function", "message"), BAD)
def test_what_goes_wrong_on_the_host_is_said(function, message):
    with pytest.raises(RuntimeError, match=message):
        from_host(function)(ROWS)
    from_host(lambda rows: rows[0])(ROWS)  # and is forgotten


def test_in_a_loop_over_step_the_round_fails_and_the_error_is_logged(caplog):
    system = systems.robust_fedavg(towards_target(), num_clients=N, aggregate=from_host(BAD[1][0]), mesh=None)
    before, after, info = one_round(system, DATA, D)
    assert int(info.status) == Status.NOT_FINITE and (after.params == before.params).all()
    (record,) = caplog.records
    assert re.match(BAD[1][1], record.message) and record.exc_info[0] is KeyError


def test_an_error_on_the_host_ends_the_run_and_not_the_process():
    Child(count_devices).ended()  # whoever comes first waits for what all children import
    Child(lost_on_the_host.in_the_second_round, jax_num_cpu_devices=2).ended(timeout=35)


def test_behind_a_step_it_is_still_unknown_how_many_it_tolerates():
    rule = aggregators.pre_aggregated(aggregators.clipping(1.0), from_host(lambda rows: rows.mean(0)))
    assert rule.most_byzantine is None
    systems.robust_fedavg(towards_target(), num_clients=9, num_byzantine=4, aggregate=rule)
