"""Runs whose samples stay on the host, in a pool: the same bits, and what it cannot run."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from kept_runs import DATA, KEY, POOL, D, N, plain, run, stopped, velocity

from fedjax_priv import Keep, simulate
from fedjax_priv.base import ClientData
from fedjax_priv.clients import sample
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.runs.ending import SimulationError
from fedjax_priv.systems import fedavg, fedbuff
from helpers import remembering


def test_a_pool_is_the_population_on_the_devices_bit_for_bit(tmp_path):
    """Cohorts of 3 out of 8 return: what they carried comes back by client. Stopped and resumed as well."""
    samples = ClientData(POOL.fetch(np.arange(N)), POOL.count)
    there = run(samples, local=velocity())
    assert len(np.unique(there.client_id)) < there.client_id.size
    pooled = run(POOL, local=velocity())
    xr.testing.assert_identical(plain(pooled), plain(there))
    assert pooled.dtypes == there.dtypes
    stopped(tmp_path / "a", POOL, local=velocity())
    resumed = run(POOL, local=velocity(), keep=Keep(tmp_path / "a", resume=True))
    xr.testing.assert_identical(plain(resumed), plain(there))


def unreadable(ids):
    """Only the first client's samples can be read."""
    if len(ids) > 1:
        raise OSError("no such file")
    return POOL.fetch(ids)


@pytest.mark.parametrize("samples", [DATA, POOL])
def test_no_metric_takes_the_name_of_what_is_measured(samples):
    """A result has one variable of a name: the metric would be read as what the rounds measured."""
    system = fedbuff(velocity(), num_clients=N, buffer_size=2, concurrency=3, mesh=None)
    staleness = lambda params: {"staleness": params.sum()}
    with pytest.raises(ValueError, match=r"variable of the result or entry of the log, got \['staleness'\]"):
        simulate(system, KEY, jnp.zeros(D), samples, rounds=1, evaluate=staleness, progress=False)


def test_what_a_pool_cannot_run():
    system = fedavg(velocity(), cohort_size=3, exact=False, mesh=None)
    simulate_pool = lambda system, pool=POOL: simulate(system, KEY, jnp.zeros(D), pool, rounds=1, progress=False)
    with pytest.raises(ValueError, match="algorithm must have a draw, as from federated_round"):
        simulate_pool(system._replace(draw=None))
    for rows in (jnp.arange(N), jnp.arange(N) == 4):  # in the second, only one in the middle differs
        start = jnp.broadcast_to(rows.astype(jnp.float32)[:, None], (N, D))
        uneven = velocity()._replace(init=lambda n, params, start=start: start)
        with pytest.raises(ValueError, match="must give all clients the same initial state"):
            simulate_pool(fedavg(uneven, cohort_size=3))
    with pytest.raises(SimulationError, match="no such file"):
        simulate_pool(system, POOL._replace(fetch=unreadable))


@pytest.mark.usefixtures("any_platform")
def test_only_the_forms_of_its_devices_are_traced():
    def not_here(*args):
        raise AssertionError("this device is a CPU's")

    here = lambda function: functools.partial(by_platform, function, not_here)
    system = fedavg(velocity(), cohort_size=3, exact=False, mesh=None)
    system = system._replace(init=here(system.init), step=here(system.step), draw=here(system.draw))
    assert simulate(system, KEY, jnp.zeros(D), POOL, rounds=1, progress=False).status.item() == 0


def test_the_draw_of_an_algorithm_is_the_cohort_of_its_rounds():
    system = fedavg(remembering(), cohort_size=3, exact=False, mesh=None)

    @jax.jit
    def clients():
        state = system.init(KEY, jnp.zeros(D), DATA)
        ahead, _ = system.draw(KEY, state.draw, state.round, DATA.count)
        other, _ = sample(3).apply(KEY, (), state.round, DATA.count)
        return ahead.client, system.step(KEY, state, DATA)[1].client, other.client

    ahead, came, other = clients()
    np.testing.assert_array_equal(ahead, came)
    assert not np.array_equal(other, came)  # the control: another key
