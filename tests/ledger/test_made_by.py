"""A ledger is of the system and the data that made the run: what a result says of both, and what is refused."""

import functools
import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from ledger.test_by_round import DATA, DELTA, KEY, PARAMS, N, local

from fedjax_priv import simulate, sweep, systems
from fedjax_priv.base import LyingServer
from fedjax_priv.ledger import epsilon_by_round, epsilon_of_sweep, ledger, planned, rounds_within, worst
from fedjax_priv.ledger.made_by import UNKNOWN
from fedjax_priv.runs.records import mechanism, run_folder
from fedjax_priv.runs.records.run_writer import Keep
from fedjax_priv.theory import gaussian

NOISES = {"noise_multiplier": [1.0, 5.0], "seed": [0, 1]}


def central(noise_multiplier: Any = 1.0, **how):
    how = {"clip": 1.0, "sampling_rate": 0.5, **how}
    return systems.dp_fedavg(local(), num_clients=N, noise_multiplier=noise_multiplier, **how)


def steps(gradient_noise=1.0, **how):
    return systems.dp_sgd(local(gradient_noise=gradient_noise, **{"sample_clip": 1.0, **how}), num_clients=N)


def on_the_air(noise_variance: Any = 1.0, **how):
    how = {"clip": 1.0, "receiver_noise": 1.0, "participation": 0.5, **how}
    return systems.wireless(local(), noise_variance=noise_variance, **how)


def summed(threshold=2, **how):
    return systems.secagg(local(), num_clients=N, threshold=threshold, elide=True, **how)


def made_by(system, data=DATA, rounds=2):
    """A run that was planned and not trained, as `simulate` marks it."""
    run = planned(system, KEY, PARAMS, data, rounds)
    said = mechanism.text(mechanism.of(system, data.count), run.sizes["client"])
    return run.assign(mechanism=said)


@functools.cache
def trained():
    return simulate(central(), KEY, PARAMS, DATA, rounds=2, progress=False)


@pytest.mark.parametrize(
    ("make", "how", "name"),
    [
        (central, {"noise_multiplier": 5.0}, "release.noise_multiplier is 1.0, got 5.0"),
        (central, {"clip": 0.5}, "release.clip is 1.0, got 0.5"),
        (central, {"sampling_rate": 0.1}, "release.participation.rate is 0.5, got 0.1"),
        (
            central,
            {"sampling_rate": None, "cohort_size": 3},
            "release.participation.sampling is poisson, got fixed_size",
        ),
        (central, {"secure": True, "elide": True}, "release.secure is False, got True"),
        (steps, {"gradient_noise": 3.0}, "steps.sigma is 1.0, got 3.0"),
        (steps, {"sample_clip": 0.1}, "steps.clip is 1.0, got 0.1"),
        (on_the_air, {"receiver_noise": 9.0}, "release.receiver_noise is 1.0, got 9.0"),
        (on_the_air, {"noise_variance": np.arange(1.0, N + 1)}, "release.noise_variance is 1.0, got many numbers"),
        (summed, {"threshold": 3}, "release.masks.quorum.threshold is 2, got 3"),
    ],
)
def test_a_system_that_did_not_make_the_run_is_refused(make, how, name):
    run = made_by(make())
    ledger(make(), run, DATA, delta=DELTA)
    for asked in (ledger, epsilon_by_round):
        with pytest.raises(ValueError, match=f"^algorithm must be that of run, whose {name}"):
            asked(make(**how), run, DATA, delta=DELTA)


def test_the_same_system_made_again_has_its_figure(tmp_path):
    """From numbers of float32, with other masks that cancel, and from a file."""
    eps = [worst(entry.proved) for entry in ledger(central(), made_by(central()), DATA, delta=DELTA)]
    run_folder.create(tmp_path / "run", {})
    run_folder.save(tmp_path / "run", trained())
    for run in (trained(), run_folder.load(tmp_path / "run")):
        found = ledger(central(np.float32(1.0), clip=jnp.float32(1.0)), run, DATA, delta=DELTA)
        assert [worst(entry.proved) for entry in found] == eps and not any(UNKNOWN in entry.note for entry in found)
        with pytest.raises(ValueError, match="^algorithm must be that of run, whose release.noise_multiplier is 1.0"):
            ledger(central(5.0), run, DATA, delta=DELTA)
    ledger(on_the_air(jnp.float32(0.1)), made_by(on_the_air(0.1)), DATA, delta=DELTA)
    masked = systems.secagg(local(), num_clients=N, threshold=2)
    ledger(masked, made_by(summed()), DATA, delta=DELTA)


def test_noises_of_clients_are_told_apart_by_their_order_too():
    noises = np.arange(1.0, N + 1)
    run = made_by(on_the_air(jnp.asarray(noises, jnp.float32)))
    ledger(on_the_air(noises), run, DATA, delta=DELTA)
    for other in (noises[::-1].copy(), noises + (noises == N), noises[[1, 0, *range(2, N)]]):
        with pytest.raises(
            ValueError, match="^algorithm must be that of run, whose release.noise_variance.* is .*, got"
        ):
            ledger(on_the_air(other), run, DATA, delta=DELTA)


def test_a_server_that_lied_is_part_of_the_run():
    lying = central()._replace(lying_server=LyingServer(lists=lambda alive, cohort: alive))
    ledger(lying, made_by(lying), DATA, delta=DELTA)
    for system, run in ((lying, made_by(central())), (central(), made_by(lying))):
        with pytest.raises(ValueError, match="^algorithm must be that of run, whose lies is"):
            ledger(system, run, DATA, delta=DELTA)


def test_a_run_of_parts_without_numbers_is_compared_by_what_they_are():
    level = lambda c: on_the_air(level=lambda round, gain: jnp.float32(c))
    run = made_by(level(1.0))
    ledger(level(2.0), run, DATA, delta=DELTA)  # not known: functions have no text
    with pytest.raises(ValueError, match="whose release.level is a function, got 1.0$"):
        ledger(on_the_air(), run, DATA, delta=DELTA)
    own = central()._replace(release=object())
    (entry,) = ledger(own, made_by(own), DATA, delta=DELTA)
    assert entry.proved.epsilon is None
    with pytest.raises(ValueError, match="whose release is CentralNoise, got object$"):
        ledger(own, made_by(central()), DATA, delta=DELTA)


def test_other_data_and_parts_of_cohorts_are_refused():
    system, run = central(), made_by(central())
    with pytest.raises(ValueError, match="^data must be that of run, got clients with other numbers of samples$"):
        ledger(system, run, DATA._replace(count=DATA.count.at[3].add(-1)), delta=DELTA)
    more = DATA._replace(count=jnp.append(DATA.count, 1))
    with pytest.raises(ValueError, match=f"^data must be that of run, of {N} clients, got {N + 1} clients$"):
        ledger(system, run, more, delta=DELTA)
    with pytest.raises(ValueError, match=f"^run must have all places of its cohorts, {N}, got 2$"):
        ledger(system, run.isel(client=slice(0, 2)), DATA, delta=DELTA)
    ledger(system, run.isel(round=slice(0, 1)), DATA, delta=DELTA)


def test_joined_runs_and_rounds_without_numbers_are_refused():
    """Runs of one key, joined, have the same noise twice."""
    run = made_by(central())
    joined = xr.concat([run, run.assign_coords(round=[3, 4])], "round", data_vars="all")
    with pytest.raises(ValueError, match="^run must be one run, got several in a row: of one key they have the same"):
        ledger(central(), joined, DATA, delta=DELTA)
    with pytest.raises(ValueError, match="^run must have the coordinate round, by which it is whole, got none$"):
        ledger(central(), run.isel(round=[1]).drop_vars("round"), DATA, delta=DELTA)


def test_who_comes_again_sooner_than_the_accountant_counts_on_has_no_figure():
    """Two plans in a row: client 3 is in four of eight rounds, where a client may be in three; a place that sends
    nothing does not count."""
    system = central(sampling_rate=None, cohort_size=2, separation=3)
    plan = planned(system, KEY, PARAMS, DATA, 8)
    client = np.array([[0, 3], [1, 4], [2, 5], [0, 3], [3, 1], [4, 2], [5, 0], [3, 1]])
    joined = plan.assign(client_id=(("round", "client"), client))
    (entry,) = ledger(system, joined, DATA, delta=DELTA)
    assert entry.proved.why == "a client came again after 1 rounds, and the accountant counts on 3"
    there = np.ones((1, 8, 2))
    there[0, 4, 0] = 0
    quiet = joined.assign(up_bytes=(joined.up_bytes.dims, there))
    assert worst(ledger(system, quiet, DATA, delta=DELTA)[0].proved) == pytest.approx(gaussian.epsilon(DELTA, 3**0.5))
    assert worst(ledger(system, plan, DATA, delta=DELTA)[0].proved) == pytest.approx(gaussian.epsilon(DELTA, 3**0.5))


def test_a_sweep_says_it_at_each_point(tmp_path):
    keep = Keep(tmp_path / "sweep")
    swept = sweep(central, NOISES, KEY, PARAMS, DATA, rounds=2, keep=keep, progress=False)
    for result in (swept, run_folder.load(keep.folder)):
        eps = epsilon_of_sweep(central, NOISES, result, DATA, delta=DELTA).isel(adversary=0, round=-1)
        for place, z in enumerate(NOISES["noise_multiplier"]):
            (one, *_) = ledger(central(z), result.isel(noise_multiplier=place, seed=0), DATA, delta=DELTA)
            assert worst(one.proved) == eps[place, 0]
            with pytest.raises(ValueError, match=f"whose release.noise_multiplier is {z}, got 2.0$"):
                ledger(central(2.0), result.isel(noise_multiplier=place, seed=0), DATA, delta=DELTA)
        for other in (lambda noise_multiplier: central(2 * noise_multiplier), lambda noise_multiplier: central(1.0)):
            with pytest.raises(ValueError, match="^algorithm must be that of run, whose release.noise_multiplier"):
                epsilon_of_sweep(other, NOISES, result, DATA, delta=DELTA)


def test_a_result_that_does_not_say_it_is_not_compared_and_the_notes_say_so():
    older = trained().drop_vars("mechanism")
    assert all(UNKNOWN in entry.note for entry in ledger(central(5.0), older, DATA, delta=DELTA))
    lacks = json.loads(trained().mechanism.item())
    del lacks["release"]["stays"], lacks["places"]
    lacks["release"]["new"] = 3
    run = trained().assign(mechanism=json.dumps(lacks))
    assert not any(UNKNOWN in entry.note for entry in ledger(central(), run, DATA, delta=DELTA))


def test_a_plan_is_no_run_and_serves_other_noise():
    plan = planned(central(), KEY, PARAMS, DATA, 2)
    assert not any(UNKNOWN in entry.note for entry in ledger(central(5.0), plan, DATA, delta=DELTA))
    assert rounds_within(central(), KEY, PARAMS, DATA, 1e6, delta=DELTA, most=2) == 2
