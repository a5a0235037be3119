"""The queue of cards at paper scale: an order, a time limit, and cards that continue."""

import json
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
PROCESS = """
import pathlib, sys, time
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
        three = [Card("paper", name, "", name) for name in NAMES]
        return [one.state for one in queue.work(three, pathlib.Path("out"), pathlib.Path("runs"), seconds)]

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
    harness.make(experiment(lambda: False), "paper", "fig", "paper", tmp_path / "out", tmp_path / "runs")
    with resuming(tmp_path / "runs"), pytest.raises(ValueError, match="rounds"):
        two_runs(0, rounds=3)


def test_named_runs_continue_in_any_order_and_are_not_counted(tmp_path):
    with resuming(tmp_path):
        two_runs(1, rounds=2, name="b")
    first = (tmp_path / "run-b" / "result.nc").stat().st_mtime_ns
    with resuming(tmp_path):
        two_runs(0, rounds=2)
        two_runs(2, rounds=2, name="a")
        two_runs(1, rounds=2, name="b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-0", "run-a", "run-b"]
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


def test_results_that_cannot_be_read_do_not_stop_the_others(work):
    folder = pathlib.Path("out/paper/second-paper")
    folder.mkdir(parents=True)
    for content, said in (("[{", " is not JSON: Expecting"), ("[1]", ": "), ("[]", "No such file or directory")):
        (folder / "verdicts.json").write_text(content)
        first, second, third = work()
        assert first == third and first in ("made", "had results")
        assert second.startswith("failed: ") and said in second and str(folder) in second
    assert (folder / "verdicts.json").read_text() == "[]"


def test_time_that_is_over_stops_a_card_and_the_rest_is_not_reached(work):
    start = time.monotonic()
    assert work("if sys.argv[2] == 'second': time.sleep(60)", seconds=2.0) == ["made", "stopped", "not reached"]
    assert time.monotonic() - start < 30
    assert work() == ["had results", "made", "made"]
    assert (pathlib.Path("runs/paper/second-paper/started")).read_text() == "second" * 2


def test_a_card_that_ignores_the_signal_is_killed(work, monkeypatch):
    monkeypatch.setattr(queue, "_GRACE", 0.5)
    assert (
        work("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", seconds=2.0)[0]
        == "stopped"
    )


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
