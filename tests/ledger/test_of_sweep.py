"""Eps of the runs of a sweep, against the ledger of each run alone."""

import functools

import jax
import numpy as np
import pytest
import xarray as xr
from ledger import test_over_the_air as over_the_air
from ledger import test_own_coins as own_coins
from ledger.test_by_round import DATA, DELTA, KEY, PARAMS, N, buffered, by_round, local, weights_of

from fedjax_priv import systems
from fedjax_priv.audit.canaries import no_samples
from fedjax_priv.base import LyingServer
from fedjax_priv.clients import once_per_model, poisson
from fedjax_priv.ledger import epsilon_by_round, epsilon_of_sweep, ledger, of_sweep, planned
from fedjax_priv.runs.grid import checked_grid, join
from fedjax_priv.theory import gaussian

AXES = {"noise_multiplier": [1.0, 2.0], "separation": [1, 2], "seed": [0, 1]}
OUTSIDER, LAST = "outsider, add/remove", (1, 1, 1)


def make(noise_multiplier, separation):
    how = {"noise_multiplier": noise_multiplier, "separation": separation}
    return systems.dp_fedavg(local(), num_clients=N, sampling_rate=1.0, **how)


@functools.cache
def plan_of(separation, seed):
    """The noise is of no account."""
    return run_of(make(1.0, separation), seed)


def run_at(noise_multiplier, separation, seed):
    accuracy = ("evaluation", [0.1, 0.5 + 0.1 * noise_multiplier + 0.1 * seed])
    return plan_of(separation, seed).assign(accuracy=accuracy)


def run_of(algorithm, seed, rounds=4):
    """As `simulate` returns it, without training."""
    run = planned(algorithm, jax.random.fold_in(KEY, seed), PARAMS, DATA, rounds)
    run = run.assign(failed_rounds=0, round=np.arange(1, rounds + 1), evaluation=[0, 4])
    return run.assign_coords(client=np.arange(run.sizes["client"])).drop_attrs()


@pytest.fixture(scope="module")
def result():
    """As `sweep` returns it; the last run was not finished."""
    grid = checked_grid(AXES)
    return join({p: run_at(**grid.at(p)) for p in grid.points if p != LAST}, grid, {"num_params": 8})


def test_each_point_has_the_eps_of_its_run_and_settings_are_asked_for_once(result, monkeypatch):
    asked = []
    monkeypatch.setattr(
        of_sweep, "epsilon_by_round",
        lambda algorithm, *a, real=of_sweep.epsilon_by_round, **k: asked.append(algorithm) or real(algorithm, *a, **k),
    )  # fmt: skip
    found = epsilon_of_sweep(make, AXES, result, DATA, delta=DELTA)
    assert found.dims == (*AXES, "adversary", "round") and found.attrs["delta"] == DELTA
    for z, b in ((1.0, 1), (2.0, 2)):
        one = found.sel(noise_multiplier=z, separation=b, seed=0, adversary=OUTSIDER)
        alone = epsilon_by_round(make(z, b), plan_of(b, 0).assign_attrs(num_params=8), DATA, delta=DELTA)
        np.testing.assert_allclose(one, alone.sel(adversary=OUTSIDER))
    assert found[LAST].isnull().all() and found.sel(adversary="server, replacement").isnull().all()
    assert len(asked) == 4  # seeds change nothing where all coins fall on one side
    high, low = (found.sel(noise_multiplier=z, separation=1, adversary=OUTSIDER).max() for z in (1.0, 2.0))
    assert high > 1.5 * low


@pytest.mark.parametrize(
    ("name", "values", "other"), [("period", [1, 3], {}), ("by_coins", [False, True], {"join_probability": 0.0})]
)
def test_points_that_differ_in_who_may_be_in_a_cohort_have_an_eps_each(name, values, other):
    """The release and the run say nothing of it."""
    of_coins, run, _ = own_coins.filled(poisson(own_coins.RATE), 2, known_count=False)
    make = lambda **value: of_coins._replace(**value)
    run = run.assign({name: run[name] * 0 + value for name, value in other.items()})
    here = {"client": np.arange(run.sizes["client"])}
    run = run.assign(failed_rounds=0, evaluation=[0, 2]).assign_coords(here).drop_attrs()
    grid = checked_grid({name: values})
    result = join(dict.fromkeys(grid.points, run), grid, {"num_params": own_coins.D})
    data = no_samples(own_coins.CLIENTS)
    found = epsilon_of_sweep(make, {name: values}, result, data, delta=DELTA)
    for place, value in enumerate(values):
        alone = epsilon_by_round(make(**{name: value}), run.assign_attrs(num_params=own_coins.D), data, delta=DELTA)
        label = alone.adversary.values[0]
        np.testing.assert_allclose(found[place].sel(adversary=label), alone.sel(adversary=label))


@pytest.mark.parametrize("system", [systems.cdp_fl, systems.robust_fedavg])
def test_points_that_differ_in_the_noise_of_local_steps_have_an_eps_each(system):
    """The release says nothing of it."""
    noisy = lambda sigma: local(sample_clip=1.0, gradient_noise=sigma)
    make = lambda sigma: system(noisy(sigma), num_clients=N)
    axes = {"sigma": [1.0, 4.0]}
    grid = checked_grid(axes)
    result = join({p: run_of(make(**grid.at(p)), 0) for p in grid.points}, grid, {"num_params": 8})
    found = epsilon_of_sweep(make, axes, result, DATA, delta=DELTA)
    for sigma in axes["sigma"]:
        np.testing.assert_allclose(found.sel(sigma=sigma), by_round(make(sigma), 4))
    assert (found.sel(sigma=1.0) > found.sel(sigma=4.0)).all()


def test_of_a_point_it_is_known_who_trained():
    """Of clients that come by coins, who did not come has spent nothing. Where a run is shorter, all are floats."""
    noisy = local(sample_clip=1.0, gradient_noise=2.0)
    make = lambda rate: systems.cdp_fl(noisy, num_clients=N, cohort=poisson(rate))
    axes = {"rate": [0.5, 1.0]}
    grid = checked_grid(axes)
    runs = {p: run_of(make(**grid.at(p)), 0, rounds=4 - p[0]) for p in grid.points}
    found = epsilon_of_sweep(make, axes, join(runs, grid, {"num_params": 8}), DATA, delta=DELTA)
    for p, run in runs.items():
        alone = epsilon_by_round(make(**grid.at(p)), run.assign_attrs(num_params=8), DATA, delta=DELTA)
        np.testing.assert_allclose(found[p][:, : run.sizes["round"]], alone)
    steps = found.sel(adversary="everybody, replacement of a sample")
    assert steps.sel(rate=0.5)[3] == steps.sel(rate=1.0)[2], "nobody came in all of four rounds"


@pytest.mark.parametrize("first", ["honest", "lying"])
def test_a_point_whose_server_lies_has_no_eps_of_an_honest_one(first):
    """Whichever is asked first."""
    lies = {"honest": None, "lying": LyingServer(models=lambda key, state: state.params)}
    axes = {"server": dict(sorted(lies.items(), reverse=first == "lying"))}
    make = lambda server: systems.dp_fedavg(local(), num_clients=N, lying_server=server)
    grid = checked_grid(axes)
    result = join({p: run_of(make(**grid.at(p)), 0) for p in grid.points}, grid, {"num_params": 8})
    found = epsilon_of_sweep(make, axes, result, DATA, delta=DELTA)
    nothing = found.isnull().all(("adversary", "round"))
    assert found.server.values[0] == first
    assert not nothing.sel(server="honest") and nothing.sel(server="lying")


@pytest.mark.parametrize("name", ["staleness", "factor"])
def test_an_axis_may_have_the_name_of_what_accountants_read(name):
    """Else its value would pass for everybody's staleness."""
    how = {"num_clients": N, "buffer_size": 2, "concurrency": 4, "clip": 1.0, "noise_multiplier": 2.0}
    algorithm = buffered() if name == "factor" else systems.fedbuff(local(), **how)
    runs = [run_of(algorithm, seed, rounds=10) for seed in (3, 0)]
    axes = {name: [30.0, 20.0]}
    result = join({(i,): run for i, run in enumerate(runs)}, checked_grid(axes), {"num_params": 8})
    make = {"factor": lambda factor: algorithm, "staleness": lambda staleness: algorithm}[name]
    found = epsilon_of_sweep(make, axes, result, DATA, delta=DELTA)
    for i, run in enumerate(runs):
        alone = epsilon_by_round(algorithm, run, DATA, delta=DELTA)
        xr.testing.assert_equal(found.isel({name: i}, drop=True), alone)
        xr.testing.assert_equal(epsilon_by_round(algorithm, result.isel({name: i}), DATA, delta=DELTA), alone)


def test_runs_that_differ_in_the_factors_of_updates_only_have_an_eps_each():
    """Whose job ends when is fixed, so that all else is the same; the cheaper run comes first."""
    axes = {"seed": [3, 0]}
    grid = checked_grid(axes)
    runs = {point: run_of(buffered(), **grid.at(point), rounds=10) for point in grid.points}
    result = join(runs, grid, {"num_params": 8})
    found = epsilon_of_sweep(buffered, axes, result, DATA, delta=DELTA).sel(adversary="device, zero-out")
    paid = np.array([weights_of(run) for run in runs.values()])
    assert paid[0, -1] < paid[1, -1]
    np.testing.assert_allclose(found, gaussian.epsilon(DELTA, np.sqrt(paid) / 2), rtol=1e-6)


@pytest.fixture(scope="module")
def mixed():
    """A sweep, with its runs alone: one of fewer users, and one that can and does not measure who sat out."""
    users = {"few": 3, "all": over_the_air.N, "remembers": over_the_air.N}
    grid, every, runs = checked_grid({"system": [*users, "not run"]}), over_the_air.run_of(0.6), {}
    shape = every.client_id.shape
    every = every.assign(up_bytes=(("round", "phase", "client"), np.ones((len(every["round"]), 1, shape[1]))))
    every = every.assign(failed_rounds=0).assign_coords(phase=["upload"], client=np.arange(shape[1]))
    for name, n in users.items():
        sat_out = {"sat_out": (("round", "client"), np.zeros(shape, bool))} if name == "remembers" else {}
        runs[name] = every.assign(sat_out).isel(client=slice(n)).drop_attrs()
    return join({(i,): run for i, run in enumerate(runs.values())}, grid, {"num_params": 8}), runs


def on_the_air(system):
    local = over_the_air.LOCAL if system != "remembers" else once_per_model(over_the_air.LOCAL)
    return systems.wireless(local, clip=0.5, noise_variance=0.4, receiver_noise=0.7)


@pytest.mark.parametrize("system", ["few", "all", "remembers"])
def test_a_point_is_asked_for_nothing_that_only_others_have(mixed, system):
    """Users who sat out void the accountant of those who join; users of a larger cohort add noise."""
    result, runs = mixed
    whole = epsilon_of_sweep(on_the_air, {"system": list(result.system.values)}, result, over_the_air.DATA, delta=DELTA)
    by_round, alone = (
        epsilon_by_round(on_the_air(system), run, over_the_air.DATA, delta=DELTA)
        for run in (result.sel(system=system), runs[system])
    )
    assert alone.notnull().all() and whole.sel(system="not run").isnull().all()
    for found in (by_round, whole.sel(system=system, adversary=alone.adversary)):
        np.testing.assert_array_equal(found, alone)
    entries = (
        ledger(on_the_air(system), run, over_the_air.DATA, delta=DELTA)
        for run in (result.sel(system=system), runs[system])
    )
    for entry, expected in zip(*entries, strict=True):
        assert entry.proved.epsilon == expected.proved.epsilon
        assert alone[0, -1] == pytest.approx(expected.proved.epsilon)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"system": "not run"}, "run must be one that was run, got a point of a sweep that was not"),
        ({}, r"run must be one run, such as result.sel\(seed=0\) of a sweep, got client_id by \('system', "),
    ],
)  # fmt: skip
def test_what_is_no_run_is_refused(mixed, point, message):
    for asked in (ledger, epsilon_by_round):
        with pytest.raises(ValueError, match=message):
            asked(on_the_air("all"), mixed[0].sel(point), over_the_air.DATA, delta=DELTA)


def test_a_run_without_rounds_has_no_ledger(mixed):
    nothing = mixed[1]["all"].isel(round=slice(0))
    with pytest.raises(ValueError, match="run must have a round, got none"):
        ledger(on_the_air("all"), nothing, over_the_air.DATA, delta=DELTA)
    assert epsilon_by_round(on_the_air("all"), nothing, over_the_air.DATA, delta=DELTA).sizes["round"] == 0


def test_other_axes_are_refused(result):
    wrong = {**AXES, "noise_multiplier": [1.0, 3.0]}
    with pytest.raises(ValueError, match="axes must be those of the sweep"):
        epsilon_of_sweep(make, wrong, result, DATA, delta=DELTA)
