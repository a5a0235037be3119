"""Eps of the runs of a sweep, against the ledger of each run alone."""

import functools

import jax
import numpy as np
import pytest
from ledger import test_over_the_air as over_the_air
from ledger.test_by_round import DATA, DELTA, KEY, PARAMS, N, buffered, by_round, local, weights_of

from fedjax_priv import systems
from fedjax_priv.clients import once_per_model
from fedjax_priv.ledger import epsilon_by_round, epsilon_of_sweep, of_sweep, planned
from fedjax_priv.runs.grid import checked_grid, join
from fedjax_priv.theory import gaussian

AXES = {"noise_multiplier": [1.0, 2.0], "separation": [1, 2], "seed": [0, 1]}
OUTSIDER, LAST = "outsider, add/remove", (1, 1, 1)


def make(noise_multiplier, separation):
    how = {"noise_multiplier": noise_multiplier, "separation": separation}
    return systems.dp_fedavg(local(), num_clients=N, sampling_rate=1.0, **how)


def run_at(noise_multiplier, separation, seed):
    return run_of(make(noise_multiplier, separation), seed, noise_multiplier)


def run_of(algorithm, seed, noise_multiplier=1.0, rounds=4):
    """As `simulate` returns it, without training."""
    run = planned(algorithm, jax.random.fold_in(KEY, seed), PARAMS, DATA, rounds)
    accuracy = ("evaluation", [0.1, 0.5 + 0.1 * noise_multiplier + 0.1 * seed])
    run = run.assign(failed_rounds=0, accuracy=accuracy, round=np.arange(1, rounds + 1), evaluation=[0, 4])
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
        np.testing.assert_allclose(one, by_round(make(z, b), 4).sel(adversary=OUTSIDER))
    assert found[LAST].isnull().all() and found.sel(adversary="server, replacement").isnull().all()
    assert len(asked) == 4  # seeds change nothing where all coins fall on one side
    high, low = (found.sel(noise_multiplier=z, separation=1, adversary=OUTSIDER).max() for z in (1.0, 2.0))
    assert high > 1.5 * low


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


def test_a_run_is_not_asked_for_what_only_others_measured():
    """Users that sat out void the accountant of those that join; here no run had any, and one could not have."""
    over = {"forgets": over_the_air.LOCAL, "remembers": once_per_model(over_the_air.LOCAL)}
    noisy = functools.partial(systems.wireless, clip=0.5, noise_variance=0.4, receiver_noise=0.7)
    nobody = ("round", "client"), np.zeros((over_the_air.ROUNDS, over_the_air.N), bool)
    phase = {"up_bytes": (("round", "phase", "client"), np.ones((over_the_air.ROUNDS, 1, over_the_air.N)))}
    forgets = over_the_air.run_of(0.6).assign(failed_rounds=0, **phase).assign_coords(phase=["upload"]).drop_attrs()
    grid = checked_grid({"local": over})
    result = join({(0,): forgets, (1,): forgets.assign(sat_out=nobody)}, grid, {"num_params": 8})
    found = epsilon_of_sweep(noisy, {"local": over}, result, over_the_air.DATA, delta=DELTA)
    for name, run in (("forgets", forgets), ("remembers", forgets.assign(sat_out=nobody))):
        alone = epsilon_by_round(noisy(over[name]), run, over_the_air.DATA, delta=DELTA)
        assert alone.notnull().all()
        np.testing.assert_array_equal(found.sel(local=name, adversary=alone.adversary), alone)


def test_other_axes_are_refused(result):
    wrong = {**AXES, "noise_multiplier": [1.0, 3.0]}
    with pytest.raises(ValueError, match="axes must be those of the sweep"):
        epsilon_of_sweep(make, wrong, result, DATA, delta=DELTA)
