import datetime
import pathlib
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

from fedjax_priv.runs.records import manifest as module
from fedjax_priv.runs.records.manifest import manifest


def test_versions_device_and_key():
    key = jax.random.key(5_000_000, impl="threefry2x32")
    got = manifest(key=key)
    assert got["jax_version"] == jax.__version__ and got["numpy_version"] == np.__version__
    assert got["python_version"] == sys.version.split()[0]
    assert (got["backend"], got["device_kind"], got["num_devices"]) == ("cpu", "cpu", 8)
    assert got["key_impl"] == "threefry2x32"
    assert [int(word, 16) for word in str(got["key"]).split()] == [0, 5_000_000]
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(str(got["date"]))
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)


def test_arguments_are_flat():
    got = manifest(key=jax.random.key(0), n=np.int64(3), lr=np.float32(0.5), on=True, name="x", block=None, k=(1, 2))
    kept = {name: got[name] for name in ("n", "lr", "on", "name", "block", "k")}
    assert kept == dict(n=3, lr=0.5, on=1, name="x", block="None", k="(1, 2)")
    assert {type(value) for value in got.values()} <= {int, float, str}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit_is_that_of_the_checkout_which_tracks_the_package(tmp_path, monkeypatch):
    def git(*arguments):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit():
        return manifest(key=jax.random.key(0))["commit"]

    file = tmp_path / "package" / "manifest.py"
    file.parent.mkdir()
    shutil.copy(pathlib.Path(module.__file__), file)
    monkeypatch.setattr(module, "__file__", str(file))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit() == "unknown"
    git("init")
    assert commit() == "unknown"  # inside a checkout, but not part of it
    git("add", "package")
    git("commit", "-m", "first")
    head = git("rev-parse", "HEAD")
    assert commit() == head
    file.write_text("changed")
    assert commit() == f"{head}-dirty"
    monkeypatch.setenv("PATH", "")
    assert commit() == "unknown"
