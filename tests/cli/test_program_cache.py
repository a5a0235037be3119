"""Where commands keep compiled programs."""

import os
import pathlib
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import monitoring

from children import Child, command
from fedjax_priv.cli import main, program_cache, system_commands
from fedjax_priv.cli.program_cache import drop_oldest, keep_programs

PLACE = "fedjax_priv/programs"


def use(times):
    """A program, in a process of its own that keeps it; prints how often JAX found it."""
    hits = []
    monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("/cache_hits")))
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", None)
    os.environ["XDG_CACHE_HOME"] = os.getcwd()
    keep_programs()
    assert jax.jit(lambda x: x * times + 0.5)(jnp.arange(3.0))[1] == times + 0.5
    print(sum(hits))


def test_a_program_is_compiled_once(tmp_path):
    """The control is another program."""
    first, said = Child(use, 7, folder=tmp_path).ended()
    off = "JAX_ENABLE_COMPILATION_CACHE=false"
    assert said == f"fedjax-priv: compiled programs are kept in {tmp_path / PLACE} (not with {off})\n"
    kept = {*(tmp_path / PLACE).iterdir()}
    again, _ = Child(use, 7, folder=tmp_path).ended()
    assert {*(tmp_path / PLACE).iterdir()} == kept
    Child(use, 8, folder=tmp_path).ended()
    assert {*(tmp_path / PLACE).iterdir()} > kept
    assert int(first) == 0 < int(again)


@pytest.fixture
def kept_here(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = {name: value for name, value in jax.config.values.items() if "cache" in name}
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)


def test_what_the_user_has_set_stays(kept_here, capsys):
    for name, value in {"jax_compilation_cache_dir": "elsewhere", "jax_enable_compilation_cache": False}.items():
        jax.config.update(name, value)
        keep_programs()
        jax.config.update("jax_compilation_cache_dir", None)
    assert not kept_here.exists() and capsys.readouterr().err == ""


def test_a_folder_that_cannot_be_written_is_done_without(kept_here, capsys):
    kept_here.write_text("a file")
    keep_programs()
    said = capsys.readouterr().err
    assert said.startswith("fedjax-priv: compiled programs are not kept: ") and said.count("\n") == 1
    assert jax.config.values["jax_compilation_cache_dir"] is None


def test_the_folder_stays_small(tmp_path):
    for age, name in enumerate(["new", "older", "oldest"]):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    drop_oldest(tmp_path, 300)
    assert len([*tmp_path.iterdir()]) == 3
    drop_oldest(tmp_path, 299)
    assert {entry.name for entry in tmp_path.iterdir()} == {"new", "older"}
    drop_oldest(tmp_path, 0)
    assert not [*tmp_path.iterdir()]


def test_the_folder_is_the_platform_s(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    found = program_cache._cache_folder
    for given, place in {str(tmp_path / "x"): "x", "relative": ".cache", "": ".cache"}.items():
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert found() == tmp_path / place
    monkeypatch.setattr(sys, "platform", "darwin")
    assert found() == tmp_path / "Library" / "Caches"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "y"))
    assert found() == tmp_path / "y"


@pytest.mark.parametrize("arguments", ["demo", "bench", "run fedavg", "sweep fedavg --axis seed=0", "audit fedavg"])
def test_commands_that_run_programs_keep_them(arguments, monkeypatch, capsys):
    def keep():
        raise ValueError("asked to keep")

    monkeypatch.setattr(main, "keep_programs", keep)
    monkeypatch.setattr(system_commands, "keep_programs", keep)
    with pytest.raises(SystemExit):
        command(*arguments.split())
    assert capsys.readouterr().err == "fedjax-priv: asked to keep\n"


def test_the_library_and_other_commands_keep_nothing(monkeypatch, kept_here, capsys):
    command("list", kept_here.parent)
    assert not kept_here.exists()
    files = pathlib.Path(program_cache.__file__).parents[1].rglob("*.py")
    setting = {file.name for file in files if "compilation_cache_dir" in file.read_text()}
    assert setting == {"program_cache.py"}
