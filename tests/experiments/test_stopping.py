"""Ctrl-C and SIGTERM while a card is made: nothing is written as finished, and what was begun continues."""

import importlib
import json
import os
import runpy
import signal
import sys
import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.figure
import pytest
import xarray as xr

from experiments import cards, harness
from experiments.claims import Claim
from experiments.harness import Experiment, Outcome
from experiments.resuming import next_run, stopwatch
from experiments.stopping import exit_status, interruptible, terminable
from fedjax_priv.base import ClientData
from fedjax_priv.runs.simulation import simulate
from helpers import pulling

ROUNDS = 4


class Config(NamedTuple):
    seed: int = 0


def experiment(arrives=None):
    """Two runs; a signal arrives after half of the first one."""
    data = ClientData(jnp.arange(6.0).reshape(3, 2), jnp.full(3, 2))

    def log(record):
        if arrives and record["round"] == ROUNDS // 2:
            os.kill(os.getpid(), arrives)

    def run(config):
        results = [
            simulate(pulling(), jax.random.key(seed), jnp.ones(2), data, rounds=ROUNDS, keep=next_run(), log=log)
            for seed in range(2)
        ]
        found = xr.Dataset({"rounds": ("run", [len(one["round"]) for one in results])})
        return Outcome(matplotlib.figure.Figure(), found, [Claim("a", "a", "", "b", True)])

    return Experiment("", "", {"paper": Config()}, run)


@pytest.mark.parametrize(("arrives", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_card_that_is_stopped_writes_no_results_and_continues(tmp_path, arrives, error):
    out, runs = tmp_path / "out", tmp_path / "runs"
    before = signal.getsignal(arrives)
    with pytest.raises(error) as stopped:
        harness.make(experiment(arrives), "paper", "fig", "paper", out, runs)
    assert error is KeyboardInterrupt or stopped.value.code == 143
    assert signal.getsignal(arrives) is before
    assert not out.exists()
    assert {path.name for path in runs.iterdir()} == {"run-0", "seconds.txt"}
    begun = [json.loads(line)["round"] for line in (runs / "run-0" / "log.jsonl").read_text().splitlines()]
    assert begun[-1] == ROUNDS // 2
    harness.make(experiment(), "paper", "fig", "paper", out, runs)
    assert xr.load_dataset(out / "fig.nc", engine="h5netcdf").rounds.values.tolist() == [ROUNDS, ROUNDS]


def test_ctrl_c_ends_a_card_whose_runs_are_not_written(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        harness.make(experiment(signal.SIGINT), "paper", "fig", "paper", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("context", "number"), [(interruptible, signal.SIGINT), (terminable, signal.SIGTERM)])
def test_a_signal_that_is_ignored_stays_so(context, number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with context():
            os.kill(os.getpid(), number)
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_card_can_be_made_in_another_thread(tmp_path):
    thread = threading.Thread(target=harness.make, args=(experiment(), "paper", "fig", "paper", tmp_path / "out"))
    thread.start()
    thread.join()
    assert (tmp_path / "out" / "verdicts.json").exists()


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path, monkeypatch):
    harness.write_json(tmp_path / "verdicts.json", ["old"])
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        harness.write_json(tmp_path / "verdicts.json", ["new"])
    assert (tmp_path / "verdicts.json").read_text() == '[\n  "old"\n]\n'
    assert [*tmp_path.iterdir()] == [tmp_path / "verdicts.json"]


def test_results_that_are_made_again_are_none_before_all_is_written(tmp_path, monkeypatch):
    harness.make(experiment(), "paper", "fig", "paper", tmp_path)
    monkeypatch.setattr(harness.pictures, "write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        harness.make(experiment(), "paper", "fig", "paper", tmp_path)
    assert not (tmp_path / "verdicts.json").exists()


def test_a_full_disk_does_not_change_how_a_card_ends(tmp_path, monkeypatch):
    seconds = tmp_path / "seconds.txt"
    seconds.write_text("7200\n")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(SystemExit, match="143"), stopwatch(tmp_path):
        sys.exit(143)
    assert seconds.read_text() == "7200\n"


@pytest.mark.parametrize("content", ["", "7200.0.1"])
def test_seconds_that_cannot_be_read_are_counted_anew(tmp_path, content):
    (tmp_path / "seconds.txt").write_text(content)
    with stopwatch(tmp_path) as elapsed:
        assert 0 <= elapsed() < 100
    assert 0 <= float((tmp_path / "seconds.txt").read_text()) < 100


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("experiments.__main__", ["wireless", "fig6"]), ("experiments.queue", ["--minutes", "1", "wireless.fig6"])],
)
def test_ctrl_c_is_a_line_and_exit_status_130(monkeypatch, capsys, module, arguments):
    def chosen(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cards, "chosen", chosen)
    monkeypatch.setattr(sys, "argv", ["python", *arguments])
    with pytest.raises((SystemExit, KeyboardInterrupt)) as stopped:  # the second would end the tests
        runpy.run_path(importlib.import_module(module).__file__, run_name="__main__")
    assert isinstance(stopped.value, SystemExit) and stopped.value.code == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("interrupted; ")


def test_a_command_that_ends_by_itself_has_its_own_status(capsys):
    assert [exit_status(lambda said=status: said, "interrupted") for status in (None, 0, 1)] == [0, 0, 1]
    assert not capsys.readouterr().err
