import contextlib
import inspect
import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr
from jax.custom_batching import custom_vmap

from fedjax_priv import Keep, simulate, sweep
from fedjax_priv.base import ClientData
from fedjax_priv.keys import named
from fedjax_priv.layers import plain_field
from fedjax_priv.runs.ending import SimulationError
from fedjax_priv.runs.grid import checked_grid, join
from fedjax_priv.runs.records import run_folder
from fedjax_priv.runs.records.measured_names import variables_of, without_axes
from fedjax_priv.runs.shared_programs import axis_kinds
from fedjax_priv.systems import fedavg, secagg
from helpers import mesh_of, pulling, refuses, remembering, targets

D, N, KEY = 8, 6, jax.random.key(3)
DATA = targets(N, D)
TRACES = []


def make(rate, cohort_size=None, dropout=0.2, **how):
    TRACES.append((cohort_size, isinstance(rate, jax.core.Tracer)))
    server = optax.sgd(rate)
    return fedavg(remembering(), server=server, dropout=dropout, cohort_size=cohort_size, exact=False, **how)


def plain(result):
    values = result.drop_attrs().drop_vars(["seconds", "failed_rounds"], errors="ignore")
    return values.assign_attrs(num_params=result.attrs["num_params"])


def run(axes, *, make=make, params=None, data=DATA, rounds=4, every=2, **how):
    params = jnp.zeros(D) if params is None else params
    evaluate = lambda w: {"norm": jnp.square(w).sum()}
    return sweep(make, axes, KEY, params, data, rounds=rounds, every=every, evaluate=evaluate, progress=False, **how)


def alone(system, *, seed=None, params=None, data=DATA):
    key = KEY if seed is None else jax.random.fold_in(KEY, seed)
    params = jnp.zeros(D) if params is None else params(named(key, "params"))
    evaluate = lambda w: {"norm": jnp.square(w).sum()}
    return simulate(system, key, params, data, rounds=4, every=2, evaluate=evaluate, progress=False)


AXES = {"rate": [0.1, 0.3, 0.5], "cohort_size": [2, 4], "seed": [0, 7]}


def drawn(key):
    """First parameters of a seed."""
    return jax.random.normal(key, (D,))


WAVES = dict(params=drawn, over="clients", at_once=4)


@pytest.fixture(scope="module")
def traced():
    """All points in four waves, and of which cohort sizes programs were traced."""
    TRACES.clear()
    return run(AXES, **WAVES), [size for size, traced in TRACES if traced]


@pytest.fixture(scope="module")
def whole(traced):
    return traced[0]


SMALL = dict(make=pulling, **WAVES)


@pytest.fixture(scope="module")
def small():
    """The same points of an algorithm of few operations."""
    return run(AXES, **SMALL)


def test_a_point_is_the_run_alone(whole):
    """Draws, losses of the first round and bytes bit for bit; what a traced rate was multiplied with to 1e-6."""
    rate, cohort_size, seed = 0.1, 2, 7
    one = alone(make(rate, cohort_size, mesh=None), seed=seed, params=drawn)
    point = whole.sel(rate=rate, cohort_size=cohort_size, seed=seed).isel(client=slice(cohort_size))
    assert one.attrs["failed_rounds"] == point.failed_rounds
    for name in ("counted", "client_id", "status", "up_bytes", "down_bytes"):
        np.testing.assert_array_equal(one[name], point[name])
    for name in ("loss", "params", "norm"):
        np.testing.assert_allclose(point[name], one[name], rtol=2e-6, atol=2e-6)
    other = whole.sel(rate=rate, cohort_size=cohort_size, seed=7 - seed)
    assert not np.array_equal(one.params, other.params)
    assert abs(one.norm[0] - other.norm[0]) > 0.01  # every seed has its own first parameters


def test_dimensions_are_the_axes(whole):
    assert tuple(whole.sizes)[:3] == ("rate", "cohort_size", "seed")
    assert whole.params.dims == ("rate", "cohort_size", "seed", "parameter")
    assert whole.sizes["client"] == 4 and whole.loss.sel(cohort_size=2).isel(client=slice(2, 4)).isnull().all()
    assert whole.rate.values.tolist() == [0.1, 0.3, 0.5]
    assert whole.attrs["runs"] == whole.attrs["runs_done"] == 12 and whole.attrs["interrupted"] == 0
    assert json.loads(whole.attrs["axes"])["seed"] == [0, 7]
    assert whole.up_bytes.attrs["units"] == "B" and whole.failed_rounds.dtype.kind == "i"


def test_each_program_compiles_once(traced):
    """Two cohort sizes, chunks of one length: two programs, whatever the number of rates, seeds and waves."""
    result, sizes = traced
    assert result.attrs["programs"] == 2 and result.attrs["waves"] == 4
    assert sorted(sizes) == [2, 2, 4, 4]  # init and the rounds
    assert result.attrs["compile_seconds"] > 0


def test_devices_and_waves_change_nothing(small):
    """Runs over devices; none of them has memory for two."""
    got = run(AXES, make=pulling, params=drawn, over="runs", memory=1.0)
    for name in ("counted", "client_id", "status", "up_bytes"):
        np.testing.assert_array_equal(got[name], small[name])
    np.testing.assert_allclose(got.params, small.params, rtol=2e-6, atol=2e-6)
    assert got.attrs["waves"] == 2  # without memory still a run on each device


@pytest.mark.parametrize("over", ["clients", "runs"])
def test_the_number_of_a_round_is_one_for_all_runs(over):
    """Else each run would look up for itself who is scheduled, and those clients' samples."""

    @custom_vmap
    def number(round):
        return round

    @number.def_vmap
    def _(axis_size, in_batched, round):
        raise AssertionError(f"{axis_size} numbers")

    def make(rate):
        system = pulling(rate)
        once = lambda state: state._replace(round=number(state.round))
        return system._replace(step=lambda key, state, data: system.step(key, once(state), data))

    assert plain(run({"rate": [0.1, 0.3]}, make=make, over=over)).equals(plain(run({"rate": [0.1, 0.3]}, make=pulling)))


def test_fewer_runs_than_devices_are_side_by_side_where_no_more_are_asked_for():
    rates = {"rate": [*np.linspace(0.1, 0.9, jax.device_count())]}
    assert run(rates, make=pulling, rounds=2, at_once=2).attrs["waves"] == jax.device_count() / 2


@pytest.mark.parametrize(("first", "then"), [(None, 2), (2, None)])
def test_a_resumed_sweep_is_spread_as_it_began_whatever_it_may_take_at_once(tmp_path, first, then):
    """Runs on all devices, or clients of two runs; it was an error of JAX, about axes that devices do not divide."""
    rates, keep = {"rate": [*np.linspace(0.1, 0.9, jax.device_count())]}, Keep(tmp_path / "a")

    def stop(record):
        if record["round"] == 2:
            raise Killed("no space")

    with pytest.raises(Killed):
        run(rates, make=pulling, rounds=4, every=2, at_once=first, keep=keep, log=stop)
    resumed = run(rates, make=pulling, rounds=4, every=2, at_once=then, keep=keep._replace(resume=True))
    whole = run(rates, make=pulling, rounds=4, every=2, at_once=first)
    xr.testing.assert_identical(plain(resumed), plain(whole))
    assert resumed.attrs["waves"] == whole.attrs["waves"]


def test_samples_can_depend_on_axes_and_those_of_other_shapes_are_other_programs(tmp_path):
    def samples(clients, scale):
        data = targets(clients, D)
        return ClientData(data.examples * scale, data.count)

    axes, keep = {"clients": [4, 6], "scale": [1.0, 2.0], "rate": [0.5, 0.25]}, Keep(tmp_path / "a")
    got = run(axes, make=pulling, data=samples, keep=keep)
    assert got.attrs["programs"] == 2 and got.sizes["client"] == 6
    one = alone(pulling(0.5), data=samples(4, 2.0))
    np.testing.assert_allclose(got.params.sel(clients=4, scale=2.0, rate=0.5), one.params, rtol=2e-6, atol=2e-6)
    assert not np.allclose(got.params.sel(clients=4, scale=1.0, rate=0.5), one.params)
    xr.testing.assert_identical(run(axes, make=pulling, data=samples, keep=keep._replace(resume=True)), got)


def test_parts_of_an_algorithm_have_names():
    def with_rule(rule, rate):
        return pulling(rule(rate))

    twice = lambda rate: 2 * rate
    got = run({"rule": {"as it is": jnp.float32, "twice": twice}, "rate": [0.1, 0.2]}, make=with_rule)
    assert got.rule.values.tolist() == ["as it is", "twice"] and got.attrs["programs"] == 2
    np.testing.assert_array_equal(got.params.sel(rule="twice", rate=0.1), got.params.sel(rule="as it is", rate=0.2))
    assert not np.allclose(got.params.sel(rule="twice", rate=0.2), got.params.sel(rule="as it is", rate=0.2))


def test_secure_aggregation_is_swept_exactly():
    """Masks cancel in a wave: the sums of SecAgg are those of the same field elements in the clear, and alone."""
    system = lambda dropout, **how: secagg(
        remembering(), num_clients=N, dropout=dropout, levels=2.0**16, normalize="survivors", **how
    )
    batched = run({"dropout": [0.0, 0.25], "seed": [0]}, make=system, rounds=2)
    key, clear = jax.random.fold_in(KEY, 0), system(0.25, mesh=None, secure_sum=plain_field())
    one = simulate(clear, key, jnp.zeros(D), DATA, rounds=2, every=2, progress=False)
    np.testing.assert_array_equal(batched.params.sel(dropout=0.25, seed=0), one.params)
    assert one.counted.values.sum() < 2 * N


class Killed(Exception):
    pass


def test_an_error_keeps_the_finished_runs(small):
    seconds = []

    def log(record):
        if record["cohort_size"] == 4 and record["round"] == 2:
            raise Killed("no space")
        seconds.append(record["seconds"] * (record["cohort_size"] == 2))

    with pytest.raises(SimulationError, match="after 6 of 12 runs: no space") as caught:
        run(AXES, **SMALL, log=log)
    kept = caught.value.dataset
    assert kept.attrs["runs_done"] == 6 and kept.attrs["interrupted"] == 1
    shares = kept.seconds.sel(cohort_size=2).isel(evaluation=-1)
    assert float(shares.sum()) < 0.6 * sum(seconds), "runs of a wave share its time"
    np.testing.assert_array_equal(kept.params.sel(cohort_size=2), small.params.sel(cohort_size=2))
    assert kept.params.sel(cohort_size=4).isnull().all()


def test_it_is_resumed_after_sigterm_with_the_same_bits(tmp_path, small, capsys):
    seen = []

    def stop_once(record):
        seen.append(record)
        if record["cohort_size"] == 4 and record["round"] == 2 and record["seed"] == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stopped:
        run(AXES, **SMALL, keep=Keep(tmp_path / "a"), log=stop_once)
    assert stopped.value.code == 143 and signal.getsignal(signal.SIGTERM) is before
    assert "resume the run in" in capsys.readouterr().err
    first, seen[:] = [*seen], []
    resumed = run(AXES, **SMALL, keep=Keep(tmp_path / "a", resume=True), log=seen.append)
    xr.testing.assert_identical(plain(resumed), plain(small))
    rest_of_the_third_wave, fourth = [4] * 3, [0] * 3 + [2] * 3 + [4] * 3
    assert [record["round"] for record in seen] == rest_of_the_third_wave + fourth
    logged = [json.loads(line) for line in (tmp_path / "a" / "log.jsonl").read_text().splitlines()]
    assert [line["round"] for line in logged] == [record["round"] for record in first + seen]


def test_a_sweep_whose_waves_are_all_done_is_joined_without_a_program(tmp_path, monkeypatch, small):
    """As after a kill, or on a full disk, between the last checkpoint and the result."""

    def full(*_):
        raise OSError("no space left")

    save = run_folder.save
    monkeypatch.setattr(run_folder, "save", full)
    with pytest.raises(SimulationError, match="no space left"):
        run(AXES, **SMALL, keep=Keep(tmp_path / "a"))
    monkeypatch.setattr(run_folder, "save", save)
    joined = run(AXES, **SMALL, keep=Keep(tmp_path / "a", resume=True))
    assert joined.attrs["programs"] == 0 and joined.attrs["num_params"] == D
    xr.testing.assert_identical(plain(joined), plain(small))


def times(scale):
    return lambda rate, cohort_size: pulling(scale * rate, cohort_size)


@pytest.mark.parametrize("finished", [True, False])
def test_another_sweep_is_refused_and_the_difference_is_named(tmp_path, finished):
    """Also where it would only be read: values behind names, parameters, samples and programs are compared."""
    axes, folder = {"rate": {"low": 0.1, "high": 0.2}, "cohort_size": [2, 3]}, tmp_path / "a"

    def interrupt(record):
        if record["cohort_size"] == 3 and not finished:
            raise Killed("now")

    with contextlib.nullcontext() if finished else pytest.raises(SimulationError):
        run(axes, make=times(1.0), keep=Keep(folder), log=interrupt)
    again = Keep(folder, resume=True)
    for how, difference in (
        (dict(axes=axes | {"rate": {"low": 0.1, "high": 0.3}}), "inputs of wave 0 is"),
        (dict(params=jnp.ones(D)), "inputs of wave 0 is"),
        (dict(data=targets(N, D, seed=1)), "data is"),
        (dict(make=times(2.0)), r"program 0\.0 of 2 rounds is"),
        (dict(axes=axes | {"cohort_size": [2, 4]}), r"axes is .*2, 4\]}, was .*2, 3\]}"),
        (dict(axes=axes | {"seed": [1]}), "axes is"),
    ):
        with pytest.raises(ValueError, match="cannot be resumed: .*" + difference):
            run(**{"axes": axes, "make": times(1.0)} | how, keep=again)
    assert run(axes, make=times(1.0), keep=again).attrs["runs_done"] == 4


def test_sigterm_between_two_waves_ends_the_process(tmp_path, capsys):
    def stop(record):
        if record["cohort_size"] == 2 and record["round"] == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit):
        run({"rate": [0.1], "cohort_size": [2, 3]}, make=pulling, keep=Keep(tmp_path / "a"), log=stop)
    assert "SIGTERM before wave 1: resume" in capsys.readouterr().err


def test_static_axes_may_come_from_a_generator_and_the_result_names_them(tmp_path):
    how, keep = dict(make=pulling, rounds=2), Keep(tmp_path / "a")
    first = run({"rate": [0.5, 0.25]}, static=(name for name in ["rate"]), keep=keep, **how)
    assert first.attrs["static"] == '["rate"]' and first.attrs["programs"] == 2
    xr.testing.assert_identical(
        run({"rate": [0.5, 0.25]}, static=["rate"], keep=keep._replace(resume=True), **how), first
    )


def test_numbers_of_which_one_has_a_point_are_one_program():
    assert run({"rate": [1, 0.5]}, make=pulling, rounds=2).attrs["programs"] == 1


test_bad_arguments = refuses(
    lambda axes, how: run(axes, **how),
    ({}, {}, "axes must be a dict with at least one axis, .*, got none"),
    ({"rate": []}, {}, r"axes\['rate'\] must be values in a list"),
    ({"rate": [0.1, 0.1]}, {}, r"axes\['rate'\] must have each value once"),
    ({"round": [1.0]}, {}, "axes must have names without a slash that results and logs do not use"),
    ({"wave": [1.0]}, {}, r"that results and logs do not use, got \['wave'\]"),
    ({"rate": [0.1], "norm": [1, 2]}, dict(make=lambda rate, norm: make(rate)), "evaluate must name its metrics"),
    ({"rate": [0.1], "seed": [-1]}, {}, "seed must be an integer >= 0, got -1"),
    ({"rate": [0.1], "seed": [7]}, dict(make=lambda rate, seed=0: make(rate)), "make must not take 'seed'"),
    ({"rate": [0.1], "seed": [2**32]}, {}, r"seed must be an integer below 2\*\*32"),
    ({"dropout": [0.1, 1.5], "rate": [0.1]}, {}, "dropout must be"),
    ({"rate": [0.1], "cohort_size": [2, -1]}, {}, "cohort_size must be an integer >= 1, got -1"),
    ({"rate": [optax.sgd]}, {}, r"axes\['rate'\] must be a dict with a name for each value"),
    ({"rate": [0.1], "seed": [0], "cohort_size": [2**70, 2]}, dict(keep=Keep("a")), r"axes\['cohort_size'\].* netCDF"),
    ({"rate": [0.1]}, dict(static="rate"), "static must be names of axes in a list, got 'rate'"),
    ({"rate": [0.1]}, dict(static=["speed"]), r"static must be names of axes, got \['speed'\]"),
    ({"rate": [0.1]}, dict(params=lambda: PARAMS), r"params must be a function of \(key\), got one of \(\)"),
    ({"rate": [0.1]}, dict(at_once=0), "at_once must be an integer >= 1"),
    (
        {"rate": [0.1]},
        dict(at_once=2, memory=1.0),
        "memory must not be given with at_once = 2, which decides the same, got 1.0",
    ),
    ({"rate": [0.1]}, dict(memory=-1.0), "memory must be a finite number > 0"),
    ({"rate": [0.1]}, dict(rounds=0), "rounds must be an integer >= 1"),
    ({"rate": [0.1]}, dict(rounds=2**40, every=2**40), r"rounds must be below 2\*\*31"),
    (
        {"speed": [0.1]},
        dict(make=lambda rate: None),
        r"axes must be 'seed' or arguments of make or data, here \['rate'\], got \['speed'\]",
    ),
    ({"rate": [0.1]}, dict(make=lambda rate: make(rate, mesh=mesh_of(2)), over="runs"), "must leave mesh at 'auto'"),
)


def test_what_is_measured_under_the_name_of_an_axis_keeps_its_values():
    run = lambda level: xr.Dataset({"level": ("round", [level, 2 * level])}, {"phase": ("phase", ["upload"])})
    found = join({(0,): run(1.0), (1,): run(3.0)}, checked_grid({"level": [1.0, 3.0]}), {})
    np.testing.assert_array_equal(found.measured_level, [[1, 2], [3, 6]])
    assert found.measured_level.dims == ("level", "round") and found.level.values.tolist() == [1, 3]


def test_a_name_that_only_looks_like_that_of_a_measured_variable_is_kept():
    run = xr.Dataset({"level": ("round", [1.0]), "measured_level": ("round", [2.0])})
    assert {name: values.item() for name, values in variables_of(run).items()} == {"level": 1, "measured_level": 2}
    xr.testing.assert_identical(without_axes(run), run)


def test_a_list_of_axes_and_a_system_for_make_are_refused():
    with pytest.raises(ValueError, match=r"^axes must be a dict with at least one axis, .*, got list$"):
        inspect.unwrap(checked_grid)([("seed", [1, 2])])  # pyright: ignore[reportArgumentType]
    system = pulling(0.1)
    with pytest.raises(ValueError, match=r"^make must be a function of axes that returns a system, got Algorithm$"):
        inspect.unwrap(axis_kinds)(checked_grid({"seed": [1, 2]}), system, None, ())  # pyright: ignore[reportArgumentType]
