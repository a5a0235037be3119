"""Runs that leave a folder: what is in it, how they go on, and what is refused."""

import errno
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import kept_runs
import pytest
import xarray as xr
from kept_runs import DATA, ROUNDS, SMALL, D, N, plain, velocity

from fedjax_priv import Keep
from fedjax_priv.runs import simulation
from fedjax_priv.runs.ending import SimulationError
from fedjax_priv.runs.records import log_file, owner_lock, run_folder
from fedjax_priv.runs.records.run_writer import RunWriter
from helpers import targets

run, stopped = (functools.partial(each, system=SMALL) for each in (kept_runs.run, kept_runs.stopped))


@pytest.fixture(scope="module")
def whole():
    return run()


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "half"
    stopped(folder)
    return folder


@pytest.fixture
def half(stopped_once, tmp_path):
    """Folder of a run that stopped after three rounds."""
    return shutil.copytree(stopped_once, tmp_path / "half")


def test_a_run_leaves_its_result_manifest_and_log(tmp_path, whole):
    records = []
    result = run(keep=Keep(tmp_path / "a" / "b", config={"system": "toy"}), log=records.append)
    xr.testing.assert_identical(plain(result), plain(whole))
    xr.testing.assert_identical(run_folder.load(tmp_path / "a" / "b"), result)
    assert sorted(os.listdir(tmp_path / "a" / "b")) == ["facts.json", "log.jsonl", "manifest.json", "result.nc"]
    stated = run_folder.read_manifest(tmp_path / "a" / "b")
    assert stated["system"] == result.attrs["system"] == "toy" and stated["rounds"] == ROUNDS
    logged = log_file.read(tmp_path / "a" / "b")
    assert [record["round"] for record in logged] == [record["round"] for record in records] == [*range(ROUNDS + 1)]
    assert records[-1]["norm"] == logged[-1]["metrics"]["norm"] == result.norm[-1]
    assert records[-1]["loss"] == pytest.approx(result.loss[-1].mean().item(), rel=1e-6)
    total = float((result.up_bytes + result.down_bytes).sum("phase").mean("client").sum())
    assert sum(record["megabytes"] for record in records) == pytest.approx(total / 1e6)


def test_a_finished_run_is_read_and_not_run(tmp_path, whole):
    run(keep=Keep(tmp_path / "a"))
    records = []
    again = run(keep=Keep(tmp_path / "a", resume=True), log=records.append)
    xr.testing.assert_identical(plain(again), plain(whole))
    assert records == []


def test_a_stopped_run_whose_clients_are_spread_over_devices_goes_on_with_the_same_bits(tmp_path):
    kept_runs.stopped(tmp_path / "a")
    again = Keep(tmp_path / "a", resume=True)
    with pytest.raises(ValueError, match="holds another run and cannot be resumed: program of 1 rounds is "):
        kept_runs.run(keep=again, devices=1)
    xr.testing.assert_identical(plain(kept_runs.run(keep=again)), plain(kept_runs.run()))


def test_a_stopped_run_goes_on_with_the_same_bits(half, whole):
    records = []
    result = run(keep=Keep(half, resume=True), log=records.append)
    xr.testing.assert_identical(plain(result), plain(whole))
    assert [record["round"] for record in records] == [4, 5, 6]
    assert not (half / run_folder.CHECKPOINT).exists()


def test_sigterm_writes_a_checkpoint_between_those_that_are_due(tmp_path, whole):
    records, before = [], signal.getsignal(signal.SIGTERM)
    stopped(tmp_path / "a", checkpoint=4, at=3)
    assert [path.name for path in (tmp_path / "a" / run_folder.CHECKPOINT).glob("chunks*")] == [
        "chunks-00000-00000003.npz"
    ], "none of the rounds before was due"
    assert signal.getsignal(signal.SIGTERM) == before
    xr.testing.assert_identical(
        plain(run(keep=Keep(tmp_path / "a", every=4, resume=True), log=records.append)), plain(whole)
    )
    assert records[0]["round"] == 4


def test_sigterm_in_the_last_chunk_writes_the_result_and_ends_the_process(tmp_path, whole, capsys):
    stopped(tmp_path / "a", at=ROUNDS)
    assert "SIGTERM: all rounds are done, the result is in" in capsys.readouterr().err
    records = []
    xr.testing.assert_identical(plain(run(keep=Keep(tmp_path / "a", resume=True), log=records.append)), plain(whole))
    assert records == []


@pytest.mark.parametrize("error", [ValueError("no space"), KeyboardInterrupt()])
def test_sigterm_before_an_error_or_ctrl_c_ends_the_process(tmp_path, whole, capsys, error):
    def stop_and_fail(record):
        if record["round"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            raise error

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop:
        run(keep=Keep(tmp_path / "a"), log=stop_and_fail)
    assert stop.value.code == 143 and signal.getsignal(signal.SIGTERM) is before
    assert f"SIGTERM: the run can be resumed; it ended with {error!r}" in capsys.readouterr().err
    xr.testing.assert_identical(plain(run(keep=Keep(tmp_path / "a", resume=True))), plain(whole))


def test_a_handler_of_sigterm_that_python_cannot_put_back_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    monkeypatch.setattr(signal, "signal", lambda number, handler: pytest.fail("replaced"))
    assert run(rounds=1, keep=Keep(tmp_path / "a")).attrs["rounds_done"] == 1


def test_ctrl_c_returns_what_there_is_and_the_folder_goes_on(tmp_path, capsys, whole):
    def interrupt(record):
        if record["round"] == 3:
            raise KeyboardInterrupt

    kept = run(keep=Keep(tmp_path / "a"), log=interrupt)
    assert kept.attrs["interrupted"] == 1 and "rounds are kept" in capsys.readouterr().err
    assert not (tmp_path / "a" / run_folder.RESULT).exists()
    xr.testing.assert_identical(plain(run(keep=Keep(tmp_path / "a", resume=True))), plain(whole))


def test_ctrl_c_in_the_first_chunk_of_a_resumed_run_returns_the_parameters_of_its_checkpoint(half):
    def interrupt(record):
        raise KeyboardInterrupt

    kept = run(keep=Keep(half, resume=True), log=interrupt)
    assert (kept.attrs["interrupted"], kept.attrs["rounds_done"]) == (1, 3)
    assert float(jnp.square(kept.params.values).sum()) == pytest.approx(kept.norm.values[-1].item(), rel=1e-6)


def test_resume_starts_where_there_is_nothing(tmp_path, whole):
    (tmp_path / ".manifest.json.x.part").write_text("{")  # as after an early kill
    xr.testing.assert_identical(plain(run(keep=Keep(tmp_path, resume=True))), plain(whole))


@pytest.mark.parametrize(
    ("how", "difference"),
    [
        (dict(rounds=7), "rounds is 7, was 6"),
        (dict(every=2), "every is 2, was 1"),
        (dict(key=jax.random.key(6)), "key is 00000000 00000006, was 00000000 00000005"),
        (dict(config={"lr": 0.1}), "lr is 0.1, was not given"),
        (dict(params=jnp.ones(D)), "params is "),
        (dict(samples=targets(N, D, seed=1)), "data is "),
        (
            dict(rate=0.25),
            r"program of 1 rounds is .* \(a program is what system, model, loss and evaluate compile to\)$",
        ),
        (dict(evaluate=lambda w: {"norm": jnp.abs(w).sum()}), "program of evaluate is "),
    ],
)
def test_another_run_is_refused_and_the_difference_is_named(half, how, difference):
    before = {file: file.read_bytes() for file in half.rglob("*") if file.is_file() and file.name != "lock"}
    keep = Keep(half, resume=True, config=how.pop("config", {}))
    with pytest.raises(ValueError, match="holds another run and cannot be resumed: .*" + difference):
        run(how.pop("samples", DATA), keep=keep, **how)
    assert {file: file.read_bytes() for file in before} == before


def test_a_finished_run_is_not_read_for_another(tmp_path):
    run(keep=Keep(tmp_path / "a"))
    again = Keep(tmp_path / "a", resume=True)
    for how, difference in ((dict(rate=0.25), "program of"), (dict(params=jnp.ones(D)), "params is")):
        with pytest.raises(ValueError, match="holds another run and cannot be resumed: .*" + difference):
            run(keep=again, **how)
    assert run(keep=again).attrs["interrupted"] == 0


def test_a_start_that_is_refused_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="evaluate must return a dict"):
        run(keep=Keep(tmp_path / "a"), evaluate=lambda w: w)
    assert not (tmp_path / "a").exists()
    with pytest.raises(
        ValueError, match=r"keep.config must not use names of the manifest and of the result, got \['rounds'\]"
    ):
        run(keep=Keep(tmp_path / "a", config={"rounds": 4}))
    with pytest.raises(ValueError, match="evaluate must return a dict"):
        run(keep=Keep(tmp_path), evaluate=lambda w: w)
    assert tmp_path.is_dir() and not [*tmp_path.iterdir()], "the folder was there"


def test_constants_of_a_jitted_part_belong_to_the_program(tmp_path):
    """Large ones too, and keys."""

    def measure(constant, key):
        inner = jax.jit(lambda w: (w[None, :] * constant).sum() + jax.random.normal(key))
        return lambda w: {"norm": inner(w)}

    first, key = jnp.ones((40, D)), jax.random.key(1)
    keep = Keep(tmp_path / "a")
    run(keep=keep, evaluate=measure(first, key))
    again = keep._replace(resume=True)
    run(keep=again, evaluate=measure(first + 0, key))
    for other in (measure(first.at[30, 3].set(9.0), key), measure(first, jax.random.key(2))):
        with pytest.raises(ValueError, match="cannot be resumed: program of evaluate is"):
            run(keep=again, evaluate=other)


def test_a_state_is_overwritten_in_place_with_a_folder_as_well(tmp_path):
    """Otherwise the rows of all clients would be in memory twice."""
    seen = []

    def watched(run):
        def advance(inputs, state, rounds):
            before = state.memory.addressable_data(0).unsafe_buffer_pointer()
            out = run(inputs, state, rounds)
            seen.append(before == out[0].memory.addressable_data(0).unsafe_buffer_pointer())
            return out

        return advance

    with pytest.MonkeyPatch.context() as patch:
        lower_runs = simulation.lower_runs

        def lower_watched(*args, **how):
            lowered = lower_runs(*args, **how)
            return lowered._replace(compile=lambda: (e := lowered.compile())._replace(advance=watched(e.advance)))

        patch.setattr(simulation, "lower_runs", lower_watched)
        data = targets(2000, D)
        kept_runs.run(data, local=velocity(), keep=Keep(tmp_path / "a"), devices=1)
    assert seen == [True] * ROUNDS


def test_a_number_that_is_not_finite_may_name_a_run(tmp_path):
    run(keep=Keep(tmp_path / "a", config={"clip": float("inf")}))
    run(keep=Keep(tmp_path / "a", resume=True, config={"clip": float("inf")}))


def test_another_version_is_refused(half):
    manifest = json.loads((half / run_folder.MANIFEST).read_text())
    (half / run_folder.MANIFEST).write_text(json.dumps(manifest | {"jax_version": "0.0.1", "date": "another"}))
    with pytest.raises(ValueError, match=r"jax_version is [\d.]+, was 0\.0\.1$"):
        run(keep=Keep(half, resume=True))


def test_other_flags_of_the_compiler_are_refused(half, monkeypatch):
    """Their programs may have other bits."""
    before = run_folder.read_manifest(half)["xla_flags"]
    monkeypatch.setenv("XLA_FLAGS", " --xla_cpu_enable_fast_math=true")
    with pytest.raises(ValueError, match=f"xla_flags is --xla_cpu_enable_fast_math=true, was {re.escape(before[:20])}"):
        run(keep=Keep(half, resume=True))


def test_a_folder_that_is_taken_is_refused(half):
    with pytest.raises(FileExistsError, match="is not empty: choose another name, or resume"):
        run(keep=Keep(half))
    with pytest.raises(ValueError, match=r"keep\.every must be a multiple of every = 2, got 3"):
        run(every=2, keep=Keep(half.parent / "new", every=3))
    assert not (half.parent / "new").exists()


HOLD = "import fcntl, sys; file = open(sys.argv[1], 'wb'); fcntl.flock(file, fcntl.LOCK_EX); print('held'); input()"


def test_a_folder_without_a_run_cannot_be_resumed_and_the_error_does_not_say_so(tmp_path):
    (tmp_path / ".DS_Store").touch()
    with pytest.raises(FileExistsError, match="is not empty: choose another name$"):
        run(keep=Keep(tmp_path, resume=True))


def test_two_processes_cannot_run_in_one_folder(half, whole):
    command = [sys.executable, "-u", "-c", HOLD, half / run_folder.CHECKPOINT / "lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(OSError, match="is in use by another run"):
            run(keep=Keep(half, resume=True))
        other.communicate(b"go\n")
    xr.testing.assert_identical(plain(run(keep=Keep(half, resume=True))), plain(whole))


def test_a_file_system_without_locks_is_not_another_run(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(owner_lock.fcntl, "flock", no_locks)
    with pytest.raises(OSError, match="cannot lock, Operation not supported: .*lock'$"):
        run(keep=Keep(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_of_two_processes_that_begin_at_once_one_runs(tmp_path, monkeypatch, whole):
    """The other one makes the folder after this one has not found it."""
    create, others = run_folder.create, []

    def create_late(folder, asked):
        monkeypatch.setattr(run_folder, "create", create)
        others.append(RunWriter(Keep(folder, resume=True), asked, 1))
        create(folder, asked)

    monkeypatch.setattr(run_folder, "create", create_late)
    with pytest.raises(OSError, match="a is in use by another run$"):
        run(keep=Keep(tmp_path / "a", resume=True))
    others[0].close()
    xr.testing.assert_identical(plain(run(keep=Keep(tmp_path / "a", resume=True))), plain(whole))


def test_a_broken_checkpoint_is_named(half):
    state = half / run_folder.CHECKPOINT / "state.npz"
    state.write_bytes(state.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"state\.npz is broken"):
        run(keep=Keep(half, resume=True))


@pytest.mark.parametrize("finished", [True, False])
def test_without_facts_nothing_says_which_run_it_is(half, finished):
    if finished:
        run(keep=Keep(half, resume=True))
    (half / "facts.json").unlink()
    before = sorted(path for path in half.rglob("*") if path.name != "lock")
    with pytest.raises(ValueError, match=r"facts\.json is missing: nothing says which run the"):
        run(targets(N, D, seed=1), keep=Keep(half, resume=True))
    assert sorted(path for path in half.rglob("*") if path.name != "lock") == before
    (half / "facts.json").write_text("[]")
    with pytest.raises(ValueError, match=r"facts\.json is broken: it holds no object$"):
        run(keep=Keep(half, resume=True))


def test_a_checkpoint_that_a_kill_left_beside_the_result_is_removed(half):
    left = shutil.copytree(half / run_folder.CHECKPOINT, half.parent / "left")
    run(keep=Keep(half, resume=True))
    shutil.copytree(left, half / run_folder.CHECKPOINT)
    run(keep=Keep(half, resume=True))
    assert not (half / run_folder.CHECKPOINT).exists()


def test_a_full_disk_loses_nothing_in_memory_nor_in_the_folder(tmp_path, monkeypatch, whole):
    writes, fsync = [], os.fsync

    def full(handle):
        writes.append(1)
        if len(writes) > 30:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SimulationError, match="of 6 rounds: .*cannot write a checkpoint, No space left") as caught:
        run(keep=Keep(tmp_path / "a"))
    done = caught.value.dataset.attrs["rounds_done"]
    assert 0 < done < ROUNDS
    monkeypatch.setattr(os, "fsync", fsync)
    records, save = [], run_folder.save
    monkeypatch.setattr(run_folder, "save", lambda *_: full(None))
    with pytest.raises(SimulationError, match="after 6 of 6 rounds: .*No space left"):
        run(keep=Keep(tmp_path / "a", resume=True), log=records.append)
    assert records[0]["round"] > 1, "what the first run had finished was still there"
    monkeypatch.setattr(run_folder, "save", save)
    again = run(keep=Keep(tmp_path / "a", resume=True), log=records.append)
    assert len(records) < ROUNDS, "and all of it once the result could not be written"
    xr.testing.assert_identical(plain(again), plain(whole))
    assert [record["round"] for record in log_file.read(tmp_path / "a")] == [*range(ROUNDS + 1)]
