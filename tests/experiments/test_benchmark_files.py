"""Tables of benchmarks are written whole: where that fails, the one before stays."""

import os
import pathlib
import sys

import pytest

from experiments.accelerators import table as of_accelerators
from experiments.benchmarks import report, script
from experiments.benchmarks.lr_mnist_turns import table as of_turns


def by_script(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmark", "--out", str(folder / "made.json")])
    script.main("", lambda: {"seconds": 1.0})


def by_accelerators(folder, monkeypatch):
    monkeypatch.setattr(of_accelerators, "RESULTS", folder)
    of_accelerators.write({})


def by_turns(folder, monkeypatch):
    monkeypatch.setattr(of_turns, "table", lambda made: "")
    of_turns.write(folder, {})


def by_peers(folder, monkeypatch):
    monkeypatch.setattr(report, "_markdown", lambda *_: "")
    report.write(folder, [], [1.0], pathlib.Path())


WRITERS = {
    by_script: ["made.json"],
    by_accelerators: ["programs.json", "README.md"],
    by_turns: ["lr_mnist.json", "lr_mnist.md"],
    by_peers: ["peers.json", "peers.md"],
}


@pytest.mark.parametrize("write", WRITERS)
def test_a_table_that_cannot_be_written_leaves_the_one_before(write, tmp_path, monkeypatch):
    names = WRITERS[write]
    write(tmp_path, monkeypatch)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    for name in names:
        (tmp_path / name).write_text("the one before")

    def full(_):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path, monkeypatch)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(names, "the one before")
