"""The queue of cards at paper scale: an order, a time limit, and cards that continue."""

import json
import os
import pathlib
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import pytest
import xarray as xr

from experiments import cards, harness, queue, reproduce
from experiments.cards import Card
from experiments.claims import Claim
from experiments.harness import Experiment, Outcome
from experiments.resuming import next_run, resuming
from fedjax_priv.base import ClientData
from fedjax_priv.runs.sweep import sweep
from helpers import pulling

NAMES = ("first", "second", "third")
THREE = [Card("paper", name, "", name) for name in NAMES]
PROCESS = """
import os, pathlib, signal, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
runs = pathlib.Path(sys.argv[sys.argv.index("--runs") + 1])
runs.mkdir(parents=True, exist_ok=True)
with open(runs / "started", "a") as file:
    file.write(sys.argv[2])
{work}
out.mkdir(parents=True, exist_ok=True)
(out / "manifest.json").write_text("{{}}")
(out / "verdicts.json").write_text("[]")
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Makes three cards, with the given lines of Python in their process."""
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(reproduce, "HERE", tmp_path / "experiments")
    monkeypatch.chdir(tmp_path)

    def run(line="pass", seconds=60.0):
        (tmp_path / "experiments" / "__main__.py").write_text(PROCESS.format(work=line))
        return [one.state for one in queue.work(THREE, pathlib.Path("out"), pathlib.Path("runs"), seconds)]

    return run


class Config(NamedTuple):
    seed: int = 0


def two_runs(number, rounds, name=None):
    data = ClientData(jnp.arange(6.0).reshape(3, 2), jnp.full(3, 2))
    key, axes = jax.random.key(number), {"rate": [0.5, 0.25]}
    return sweep(pulling, axes, key, jnp.ones(2), data, rounds=rounds, keep=next_run(name), progress=False)


def experiment(fails):
    """Two sweeps; `fails` says whether the machine stops between them."""

    def run(config):
        whole = []
        for number in range(2):
            if number and fails():
                raise KeyboardInterrupt
            whole.append(two_runs(number, rounds=2).params)
        picture = matplotlib.figure.Figure()
        return Outcome(picture, xr.Dataset({"params": xr.concat(whole, "sweep")}), [Claim("a", "a", "", "b", True)])

    return Experiment("", "", {"paper": Config()}, run)


def test_an_experiment_that_was_stopped_continues_with_what_it_had(tmp_path):
    stopped, out = experiment(lambda: True), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        harness.make(stopped, "paper", "fig", "paper", out, tmp_path / "runs")
    assert not out.exists()
    result, seconds = tmp_path / "runs" / "run-0" / "result.nc", tmp_path / "runs" / "seconds.txt"
    written = result.stat().st_mtime_ns
    seconds.write_text("1000.0")
    harness.make(experiment(lambda: False), "paper", "fig", "paper", out, tmp_path / "runs")
    assert result.stat().st_mtime_ns == written
    assert 1000 < json.loads((out / "manifest.json").read_text())["seconds"] < 1100
    harness.make(experiment(lambda: False), "paper", "fig", "paper", tmp_path / "alone")
    ours, alone = (xr.load_dataset(tmp_path / name / "fig.nc", engine="h5netcdf") for name in ("out", "alone"))
    np.testing.assert_array_equal(ours.params, alone.params)
    assert next_run() is None


def test_another_experiment_in_the_folder_is_refused_by_name(tmp_path):
    with resuming(tmp_path / "runs"):
        two_runs(0, rounds=2)
    with resuming(tmp_path / "runs"), pytest.raises(ValueError, match="rounds"):
        two_runs(0, rounds=3)


def test_named_runs_continue_in_any_order_and_are_not_counted(tmp_path):
    with resuming(tmp_path):
        two_runs(1, rounds=2, name="b")
    first = (tmp_path / "run-b" / "result.nc").stat().st_mtime_ns
    with resuming(tmp_path):
        two_runs(0, rounds=2)
        two_runs(1, rounds=2, name="b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-0", "run-b"]
    assert (tmp_path / "run-b" / "result.nc").stat().st_mtime_ns == first


def test_the_order_has_every_card_that_can_be_made_at_paper_scale_once():
    every = {
        f"{card.paper}.{card.name}"
        for card in cards.cards()
        if "paper" in cards.experiments(card.paper)[card.name].scales
    }
    assert sorted(queue.ORDER) == sorted(every)


def test_cards_are_made_in_order_and_those_with_results_are_left(work):
    assert work() == ["made"] * 3
    assert work("raise SystemExit(5)") == ["had results"] * 3


def test_a_card_that_fails_does_not_stop_the_others_and_is_said_to_have_failed(work):
    assert work("if sys.argv[2] == 'first': raise SystemExit(5)") == ["failed with exit status 5", "made", "made"]


@pytest.mark.parametrize("content", ["", "[{", "[1]", "[]"])
def test_a_card_whose_results_cannot_be_read_is_made(work, content):
    """Of the last one the manifest is missing."""
    folder = pathlib.Path("out/paper/second-paper")
    folder.mkdir(parents=True)
    (folder / "verdicts.json").write_text(content)
    assert [work()[1], work()[1]] == ["made", "had results"]


@pytest.mark.parametrize(("end", "said"), [
    ("os.kill(os.getpid(), signal.SIGKILL)", "failed with signal 9"),
    ("os.kill(os.getpid(), signal.SIGTERM)", "failed with signal 15"),
    ("sys.exit(143)", "failed with exit status 143"),
])  # fmt: skip
def test_only_a_card_that_the_queue_has_ended_was_stopped(work, end, said):
    assert work(f"if sys.argv[2] == 'first': {end}") == [said, "made", "made"]


def test_a_card_that_fails_after_its_time_was_not_stopped(work):
    fails = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)); time.sleep(60)"
    assert work(fails, seconds=1.0)[0] == "failed with exit status 1"


TELLS = """
ends = lambda *_: ((runs / "checkpoint").touch(), sys.exit(143))
signal.signal(signal.SIGTERM, ends)
time.sleep(0.1)
os.kill(os.getppid(), signal.{name})
time.sleep(60)
"""


@pytest.mark.parametrize(("name", "error"), [("SIGINT", KeyboardInterrupt), ("SIGTERM", SystemExit)])
def test_a_signal_to_the_queue_stops_its_card_at_a_checkpoint(work, monkeypatch, capsys, name, error):
    monkeypatch.setattr(queue, "in_order", lambda: THREE)
    work("pass", seconds=0)
    pathlib.Path("experiments/__main__.py").write_text(PROCESS.format(work=TELLS.format(name=name)))
    capsys.readouterr()
    with pytest.raises(error) as stopped:
        queue.main(["--minutes", "1", "--out", "out", "--runs", "runs"])
    assert error is KeyboardInterrupt or stopped.value.code == 143
    assert capsys.readouterr().out == "stopped      paper first: first\n"
    assert [path.parent.name for path in pathlib.Path("runs").rglob("checkpoint")] == ["first-paper"]
    assert not pathlib.Path("out").exists()


def test_ctrl_c_again_kills_a_card_that_does_not_end(work):
    """It sends Ctrl-C twice to the queue, which would wait for two minutes."""
    begin = "(runs / 'pid').write_text(str(os.getpid())); signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work(begin + "[(time.sleep(0.5), os.kill(os.getppid(), signal.SIGINT)) for _ in range(2)]; time.sleep(60)")
    assert time.monotonic() - start < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(pathlib.Path("runs/paper/first-paper/pid").read_text()), 0)


def test_time_that_is_over_stops_a_card_and_the_rest_is_not_reached(work):
    start = time.monotonic()
    assert work("if sys.argv[2] == 'second': time.sleep(60)", seconds=2.0) == ["made", "stopped", "not reached"]
    assert time.monotonic() - start < 30
    assert work() == ["had results", "made", "made"]
    assert (pathlib.Path("runs/paper/second-paper/started")).read_text() == "second" * 2


def test_a_card_that_ignores_the_signal_is_killed(work, monkeypatch):
    monkeypatch.setattr(queue, "_GRACE", 0.5)
    assert work("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", seconds=2.0)[0] == "stopped"


@pytest.mark.parametrize(("arguments", "message"), [
    (["--minutes", "0"], "minutes must be above 0"),
    (["--minutes", "1", "wireless"], "cards must be named PAPER.FIGURE"),
    (["--minutes", "1", "wireless.fig99"], "figure must be one of"),
    (["--minutes", "1", "wired.fig5"], "paper must be one of"),
])  # fmt: skip
def test_bad_arguments_are_one_line(capsys, arguments, message):
    with pytest.raises(SystemExit):
        queue.main(arguments)
    assert message in capsys.readouterr().err
