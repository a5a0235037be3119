import errno
import json
import os
import pathlib
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

from fedjax_priv.runs.records import atomic_file, log_file, run_folder

MANIFEST = {"system": "fedavg", "rounds": 4, "date": "2026-01-02T03:04:05+00:00", "key": "00 01", "options": {"a": 1.5}}


@pytest.fixture
def folder(tmp_path):
    run_folder.create(tmp_path / "run", MANIFEST)
    return tmp_path / "run"


def result(rounds=2, clients=3, **attrs):
    """Every kind of value a result has; -0.0, infinities and the smallest numbers show that bits are kept."""
    rng = np.random.default_rng(0)
    each, shape = ("round", "client"), (rounds, clients)
    special = np.resize(np.float32([-0.0, np.nan, np.inf, -np.inf, 1e-45]), shape)
    return xr.Dataset(
        {
            "counted": (each, rng.random(shape) < 0.5),
            "bits": (each, rng.integers(2**32 - 9, 2**32, shape, np.uint32), {"units": "b", "long_name": "bits"}),
            "status": (("round",), np.full(rounds, -(2**31), np.int32)),
            "loss": (each, special),
            "up_bytes": (("phase", *each), rng.random((2, *shape))),
            "seconds": (("round",), np.arange(rounds, dtype=np.float64), {"units": "seconds"}),
        },
        coords={
            "phase": ["model", "upload \N{GREEK SMALL LETTER THETA}"],
            "client": np.arange(clients, dtype=np.int32),
            "rate": np.float32([0.1, 0.2]),
        },
        attrs={"text": "x" * 100_000, "empty": "", "count": 2**40, "share": 0.1, "interrupted": 0} | attrs,
    )


def assert_same(a, b):
    xr.testing.assert_identical(a, b)
    assert [*a.variables] == [*b.variables]
    for name, values in a.variables.items():
        assert values.dtype == b[name].dtype
        if values.dtype.kind == "f":
            assert np.array_equal(np.signbit(values.values), np.signbit(b[name].values))
    assert {name: type(value) for name, value in a.attrs.items()} == {n: type(value) for n, value in b.attrs.items()}


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_the_manifest_comes_back(tmp_path):
    run_folder.create(tmp_path / "new" / "run", MANIFEST)
    assert run_folder.read_manifest(tmp_path / "new" / "run") == MANIFEST
    assert json.loads((tmp_path / "new" / "run" / "manifest.json").read_text()) == MANIFEST
    assert [*files(tmp_path / "new" / "run")] == ["manifest.json"]


def test_nothing_is_overwritten(folder, tmp_path):
    before = files(folder)
    with pytest.raises(FileExistsError, match=r"folder .*run is not empty: choose another name, or resume"):
        run_folder.create(folder, {"other": 1})
    assert files(folder) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="mine is not empty"):
        run_folder.create(tmp_path / "mine", MANIFEST)


def test_an_empty_folder_and_what_a_killed_process_left_are_no_obstacle(tmp_path):
    (tmp_path / ".manifest.json.0.part").write_text("{")
    run_folder.create(tmp_path, MANIFEST)
    assert run_folder.read_manifest(tmp_path) == MANIFEST


@pytest.mark.parametrize("place", ["file", "file/run"])
def test_a_file_in_the_way_is_named(tmp_path, place):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match=r"cannot make the folder of a run, .*file"):
        run_folder.create(tmp_path / place, MANIFEST)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("links", [True, False])
def test_of_those_that_race_for_a_name_one_wins(tmp_path, monkeypatch, links):
    def refused(*_):
        raise PermissionError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refused)
    barrier = threading.Barrier(8)

    def race(folder, number):
        barrier.wait()
        try:
            return run_folder.create(folder, {"winner": number}) or number
        except FileExistsError:
            return None

    with ThreadPoolExecutor(8) as racers:
        for attempt in range(20):
            folder = tmp_path / str(attempt)
            (winner,) = {*racers.map(race, [folder] * 8, range(8))} - {None}
            assert run_folder.read_manifest(folder) == {"winner": winner}
            assert [*files(folder)] == ["manifest.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "has no manifest.json"), ("{", "manifest.json is broken"), ("[1]", "holds no object")],
)
def test_a_folder_that_is_no_run_is_named(tmp_path, content, message):
    if content:
        (tmp_path / "manifest.json").write_text(content)
    for read in (run_folder.read_manifest, run_folder.load):
        with pytest.raises(ValueError, match=message) as error:
            read(tmp_path)
        assert str(tmp_path) in str(error.value)
        assert "\n" not in str(error.value)


def test_the_folder_of_a_card_is_no_run(folder):
    (folder / "manifest.json").write_text('{"command": "python -m experiments wireless errata", "scale": "quick"}')
    for read in (run_folder.read_manifest, run_folder.load):
        with pytest.raises(
            ValueError, match=r"^\S*run is not the folder of a run: it is that of a card of `reproduce`$"
        ):
            read(folder)


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 1)])
def test_a_result_comes_back_bit_for_bit(folder, shape):
    saved = result(*shape)
    run_folder.save(folder, saved)
    loaded = run_folder.load(str(folder))
    assert_same(loaded, saved)
    (folder / "result.nc").unlink()
    assert np.array_equal(loaded.up_bytes.values, saved.up_bytes.values)  # in memory: the file may go


def test_a_result_is_replaced_and_saved_again(folder):
    run_folder.save(folder, result(interrupted=1))
    again = run_folder.load(folder).assign_attrs(interrupted=0)
    run_folder.save(folder, again)
    assert_same(run_folder.load(folder), result())
    assert files(folder).keys() == {"manifest.json", "result.nc"}


def test_what_clients_did_is_compressed(folder):
    values = result(200, 100, text="")[["counted", "loss"]]
    run_folder.save(folder, values)
    assert (folder / "result.nc").stat().st_size < values.nbytes / 2


@pytest.mark.parametrize("broken", [b"", b"no netCDF", "half"])
def test_a_result_that_is_missing_or_broken_is_said(folder, broken):
    with pytest.raises(ValueError, match=r"has no result.nc yet: the run is in progress, or was stopped"):
        run_folder.load(folder)
    run_folder.save(folder, result())
    content = (folder / "result.nc").read_bytes()
    (folder / "result.nc").write_bytes(content[: len(content) // 2] if broken == "half" else broken)
    with pytest.raises(ValueError, match=r"^\S*result.nc is broken: [^\n]+$"):
        run_folder.load(folder)


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: run_folder.save(folder, result(1, 1)),
        lambda folder: log_file.truncate(folder, lambda record: False),
        lambda folder: run_folder.create(folder / "new", MANIFEST),
    ],
    ids=["result", "log", "manifest"],
)
def test_a_full_disk_leaves_what_was_there(folder, monkeypatch, write):
    run_folder.save(folder, result())
    log_file.append(folder, {"round": 1})
    before = files(folder)
    monkeypatch.setattr(atomic_file.os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot .*No space left on device: '.*'$") as error:
        write(folder)
    assert error.value.errno == errno.ENOSPC
    assert files(folder) == before
    assert not (folder / "new").exists() or not [*(folder / "new").iterdir()]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.name != "posix" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this process may not mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk):
    run = small_disk / "run"
    run_folder.create(run, MANIFEST)
    log_file.append(run, {"round": 1})
    (small_disk / "filler").write_bytes(bytes(44 * 1024))
    for write in (
        lambda: run_folder.save(run, result(clients=1, text="x" * 60_000)),
        lambda: [log_file.append(run, {"round": 2, "text": "x" * 1000}) for _ in range(99)],
        lambda: [run_folder.create(small_disk / str(i), MANIFEST) for i in range(99)],
    ):
        with pytest.raises(OSError, match="No space left on device: '.*'$"):
            write()
    assert run_folder.read_manifest(run) == MANIFEST
    assert log_file.read(run)[0] == {"round": 1}
    assert files(run).keys() == {"manifest.json", "log.jsonl"}


def test_a_folder_that_cannot_be_written_is_named(folder, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(pathlib.Path, "mkdir", refused)
    monkeypatch.setattr(pathlib.Path, "open", refused)
    for write, what in (
        (lambda: run_folder.create(folder / "new", MANIFEST), "make the folder of a run"),
        (lambda: log_file.append(folder, {}), "write the log"),
        (lambda: run_folder.save(folder, result()), "write the result"),
    ):
        with pytest.raises(PermissionError, match=rf"cannot {what}, Permission denied: '.*run"):
            write()


def test_whatever_hdf5_raises_the_result_is_broken(folder, monkeypatch):
    """A stand-in: of flipped bytes some give a RuntimeError, and others never end."""

    def fails(*args, **how):
        raise RuntimeError("Object visitation failed")

    run_folder.save(folder, result())
    monkeypatch.setattr(run_folder.xr, "load_dataset", fails)
    with pytest.raises(ValueError, match=r"^\S*result.nc is broken: Object visitation failed$"):
        run_folder.load(folder)
