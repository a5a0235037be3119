"""Whole programs in a folder: the same bits without tracing, and never another program's."""

import importlib.metadata
import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from children import Child, command
from fedjax_priv import simulate
from fedjax_priv.cli import commands, program_cache
from fedjax_priv.runs.programs import kept_programs, lowering
from fedjax_priv.runs.programs.kept_programs import KeptPrograms, kept_or_lowered, name_of, surroundings
from fedjax_priv.runs.simulation import simulate_kept
from helpers import pulling, targets

TRAIN = targets(4, 5)
KEY = jax.random.key(1)
ONE = jax.devices()[:1]


def shape(*dims, dtype=jnp.float32, device=0):
    return jax.ShapeDtypeStruct(dims, dtype, sharding=SingleDeviceSharding(jax.devices()[device]))


def test_whatever_a_program_depends_on_changes_its_name():
    around = surroundings(ONE)
    usual = {"about": {"system": "fedavg", "alpha": 0.1}, "rounds": 2, "args": (shape(3), shape(2)), "at": around}

    def name(**changed):
        how = usual | changed
        return name_of(how["about"], how["rounds"], how["args"], how["at"])

    others = [
        name(about={"system": "secagg", "alpha": 0.1}),
        name(about={"system": "fedavg", "alpha": 0.1 + 1e-16}),
        name(about={"system": "fedavg", "alpha": "0.1"}),
        name(about={"system": "fedavg", "alpha": 0.1, "beta": None}),
        name(rounds=3),
        name(args=(shape(4), shape(2))),
        name(args=(shape(2), shape(3))),
        name(args=(shape(3, dtype=jnp.int32), shape(2))),
        name(args=(shape(3), shape(2, device=1))),
        name(args=((shape(3),), shape(2))),
        *(name(at=around | {part: "another"}) for part in around),
    ]
    assert len({name(), *others}) == 1 + len(others) and {len(each) for each in others} == {64}
    assert name() == name(about={"alpha": 0.1, "system": "fedavg"}, at=dict(reversed(surroundings(ONE).items())))


def test_surroundings_are_what_surrounds(monkeypatch):
    first = surroundings(ONE)
    changed = lambda: {part for part, value in surroundings(ONE).items() if value != first[part]}
    assert not changed()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert changed() == {"environment"}
    monkeypatch.undo()
    monkeypatch.setattr(importlib.metadata, "version", lambda library: "99" if library == "optax" else "1")
    assert changed() == {"libraries"}
    monkeypatch.undo()
    jax.config.update("jax_default_matmul_precision", "highest")
    assert changed() == {"settings"}
    jax.config.update("jax_default_matmul_precision", None)
    assert surroundings(jax.devices()[:2])["devices"] != first["devices"] and not changed()
    assert "flags" in first["processor"] or "Features" in first["processor"] or "uname" in first["processor"]


def test_every_source_file_counts(tmp_path):
    def digest():
        kept_programs.sources_of.cache_clear()
        return kept_programs.sources_of(tmp_path)

    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("x = 1\n")
    seen = [digest()]
    for change in (
        lambda: (tmp_path / "room" / "a.py").write_text("x = 2\n"),
        lambda: (tmp_path / "b.py").write_text(""),
        lambda: (tmp_path / "b.py").rename(tmp_path / "c.py"),
        lambda: (tmp_path / "room" / "a.py").rename(tmp_path / "a.py"),
    ):
        change()
        seen.append(digest())
    assert len({*seen}) == 5
    (tmp_path / "notes.txt").write_text("of no program")
    assert digest() == seen[-1]
    kept_programs.sources_of.cache_clear()


@pytest.fixture(scope="module")
def system():
    """One of few operations, and how often its round was traced."""
    algorithm, traced = pulling(), []
    return algorithm._replace(step=lambda *args: traced.append(1) or algorithm.step(*args)), traced


def rounds_of(system, folder, rounds=2, learning_rate=0.1, data=TRAIN):
    algorithm, _ = system
    return simulate_kept(
        algorithm, KEY, jnp.zeros(5), data, rounds=rounds, evaluate=None, every=2, keep=None, progress=False,
        programs=KeptPrograms(folder, {"learning_rate": learning_rate}),
    )  # fmt: skip


def same(one, other):
    for name in ("params", "loss", "up_bytes", "status"):
        np.testing.assert_array_equal(one[name], other[name], strict=True)


@pytest.fixture(scope="module")
def folder(system, tmp_path_factory):
    place = tmp_path_factory.mktemp("programs")
    rounds_of(system, place)
    return place


def test_a_kept_program_is_not_traced_and_gives_the_same_bits(system, folder):
    algorithm, traced = system
    traced.clear()
    again = rounds_of(system, folder)
    assert not traced
    same(again, simulate(algorithm, KEY, jnp.zeros(5), TRAIN, rounds=2, every=2, progress=False))
    assert traced  # the control


def test_a_damaged_file_is_said_and_written_again(system, folder, capsys):
    _, traced = system
    before = rounds_of(system, folder)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    garbage = pickle.dumps("no program")
    flipped = lambda place: whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    for damaged in (
        b"",
        whole[:-1],
        flipped(0),
        flipped(len(whole) // 2),
        kept_programs.hashlib.sha256(garbage).digest() + garbage,
    ):
        file.write_bytes(damaged)
        capsys.readouterr(), traced.clear()
        same(rounds_of(system, folder), before)
        said = capsys.readouterr().err
        assert said.startswith(f"fedjax-priv: {file} cannot be used and is made again: ") and said.count("\n") == 1
        assert traced and len(file.read_bytes()) > len(whole) // 2
    capsys.readouterr(), traced.clear()
    same(rounds_of(system, folder), before)
    assert not traced and not capsys.readouterr().err


def test_a_folder_that_is_not_there_is_done_without(system, tmp_path, capsys):
    same(rounds_of(system, tmp_path / "none"), rounds_of(system, tmp_path))
    assert capsys.readouterr().err.count("a compiled program is not kept: ") == 1


def test_a_program_that_calls_the_host_is_not_kept(tmp_path):
    """The controls are programs without a call, with a large table and without."""
    table = np.arange(2000.0, dtype=np.float32)
    functions = (lambda x: jax.pure_callback(np.sin, x, x)), (lambda x: x + 1.0), (lambda x: x + table)
    kept, x = KeptPrograms(tmp_path, {}), jnp.arange(2000.0)
    for files, function in enumerate(functions):
        lowered = kept_or_lowered(kept, files, x, ONE, lambda f=function: lowering.lower(jax.jit(f), x))
        assert np.isfinite(lowered.compile()(x)).all()
        assert len([*tmp_path.iterdir()]) == files
    again = kept_or_lowered(kept, files, x, ONE, lambda: pytest.fail("lowered again"))
    np.testing.assert_array_equal(again.compile()(x), x + table)


def test_other_samples_are_another_program(system, tmp_path):
    """An algorithm may be made from them, such as its noise from the sizes of clients."""
    _, traced = system
    for data, again in ((TRAIN, True), (TRAIN, False), (TRAIN._replace(count=TRAIN.count - 1), True)):
        traced.clear()
        rounds_of(system, tmp_path, data=data)
        assert bool(traced) == again


RUN = ["run", "fedavg", "--model", "softmax", "--num-clients", "8", "--num-steps", "1", "--rounds", "1", "--every", "1"]


def run_and_count(place, whole, *more):
    """A command with the folder of programs in `place`; prints how many programs were lowered."""
    lower, lowered = lowering.lower, []
    lowering.lower = lambda *args: lowered.append(1) or lower(*args)
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", None)
    program_cache._cache_folder = lambda: place
    if not whole:
        commands.folder_of_whole_programs = lambda: None
    command(*RUN, "--folder", place / f"run{len([*place.iterdir()])}", "--json", place / "table.json", *more)
    print(f"lowered {len(lowered)}")


def test_a_command_in_another_process_finds_its_program(tmp_path):
    """Also where JAX's own cache had it before; another seed is the same program, another step size is not."""
    both, only_evaluation = "lowered 2", "lowered 1"
    rows = []
    for whole, more, count in (
        (False, (), both), (True, (), both), (True, (), only_evaluation),
        (True, ("--seed", "1"), only_evaluation), (True, ("--learning-rate", "0.2"), both),
    ):  # fmt: skip
        out, said = Child(run_and_count, tmp_path, whole, *more, folder=tmp_path).ended()
        assert count in out and said.count("\n") == 1
        (row,) = json.loads((tmp_path / "table.json").read_text())
        rows.append((row["metrics"], row["up_bytes"]))
        (tmp_path / "table.json").unlink()
    assert rows[0] == rows[1] == rows[2] and len({str(row) for row in rows}) == 3
