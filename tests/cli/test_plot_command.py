"""`fedjax-priv plot` on recorded results: what is one line, what it is called, and what is refused."""

import contextlib
import json
import pathlib

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from children import command
from fedjax_priv.cli.plot_command import joined
from fedjax_priv.runs.records import run_folder

DATE = "2026-11-22T00:00:00+00:00"


def recorded(root, name, accuracy, eps=None, delta=1e-5, **asked):
    """The folder of a run that ended with this accuracy, and with `eps` by adversary."""
    folder = pathlib.Path(root) / name
    about = {"system": "fedavg", "rounds": 2, "date": DATE} | asked
    about = {"key": f"0 {about.get('seed', 0)}"} | about
    run_folder.create(folder, about)
    result = xr.Dataset(
        {"accuracy": ("evaluation", [0.1, accuracy]), "up_bytes": (("phase", "round", "client"), np.ones((1, 2, 3)))},
        {"evaluation": [0, 2], "round": [1, 2], "phase": ["upload"]},
        about | {"compile_seconds": accuracy},
    )
    if eps:
        dims = {"adversary": [*eps], "round": [1, 2]}
        result["epsilon"] = xr.DataArray([[v / 2, v] for v in eps.values()], dims, [*dims], attrs={"delta": delta})
    run_folder.save(folder, result)
    return folder


def names_and_runs(*folders, **how):
    found = joined({folder: run_folder.load(folder) for folder in folders}, **how)
    return {name: result.sizes.get("seed", 1) for name, result in found.items()}


def test_runs_that_differ_in_the_seed_are_one_line_with_its_interval(tmp_path, capsys):
    for seed, accuracy in enumerate((0.90, 0.91, 0.92)):
        recorded(tmp_path / "runs", f"a{seed}", accuracy, seed=seed)
    recorded(tmp_path / "runs", "b", 0.5, system="secagg", seed=0)
    out, table = tmp_path / "new" / "plot.svg", tmp_path / "table.json"
    command("plot", tmp_path / "runs", "--x", "bytes", "--out", out, "--json", table)
    ours, other = json.loads(table.read_text())
    assert (ours["curve"], ours["runs"], ours["x"], other["runs"], other["half_width"]) == ("fedavg", 3, 2.0, 1, None)
    assert ours["y"] == pytest.approx(0.91) and ours["half_width"] == pytest.approx(0.0248, abs=1e-4)
    assert "secagg" in capsys.readouterr().out and "<path" in out.read_text()


def test_eps_of_the_table_is_of_the_adversary_of_the_figure_whom_it_names(tmp_path, capsys):
    eps = {"outsider, replacement": 14.0, "device, replacement": 13.0}
    recorded(tmp_path / "runs", "a", 0.9, eps)
    recorded(tmp_path / "runs", "b", 0.5, {"device, replacement": 20.0}, system="secure_fedbuff")
    out, table = tmp_path / "plot.svg", tmp_path / "table.json"
    command("plot", tmp_path / "runs", "--x", "epsilon", "--out", out, "--json", table)
    assert {(row["x"], row["adversary"]) for row in json.loads(table.read_text())} == {
        (13.0, "device, replacement"),
        (20.0, "device, replacement"),
    }
    assert "accuracy against epsilon of device, replacement, at the end" in capsys.readouterr().out
    assert "proved eps at delta 1e-05, device, replacement" in out.read_text()
    command("plot", tmp_path / "runs" / "a", "--x", "epsilon", "--out", out, "--json", tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())[0]["adversary"] == "outsider, replacement"
    command("plot", tmp_path / "runs", "--out", out, "--json", tmp_path / "b.json")
    assert {row["adversary"] for row in json.loads((tmp_path / "b.json").read_text())} == {None}


def test_a_picture_that_is_interrupted_leaves_the_one_before(tmp_path, monkeypatch):
    recorded(tmp_path / "runs", "a", 0.9)
    out = tmp_path / "plot.svg"
    out.write_text("before")

    def interrupted(figure, file, **how):
        with open(file, "wb") if isinstance(file, pathlib.Path) else contextlib.nullcontext(file) as begun:
            begun.write(b"<svg")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", interrupted)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        command("plot", tmp_path / "runs", "--out", out)
    assert out.read_text() == "before" and {path.name for path in tmp_path.iterdir()} == {"runs", "plot.svg"}


def test_the_same_run_twice_says_nothing_about_noise(tmp_path):
    same = [recorded(tmp_path, name, 0.9, seed=1) for name in ("a", "b")]
    assert names_and_runs(*same) == {str(folder): 1 for folder in same}


def test_a_line_is_called_by_what_differs(tmp_path):
    options = [{"dropout": 0.1, "levels": 4}, {"dropout": 0.2, "levels": 4}]
    some = [recorded(tmp_path, f"{i}", 0.9, **asked) for i, asked in enumerate(options)]
    assert names_and_runs(*some) == {"fedavg, dropout=0.1": 1, "fedavg, dropout=0.2": 1}
    many = recorded(tmp_path, "2", 0.9, dropout=0.3, levels=8, alpha=1.0)
    assert names_and_runs(some[0], many) == {str(some[0]): 1, str(many): 1}


def test_a_flag_is_spelt_as_on_an_axis(tmp_path):
    flags = [recorded(tmp_path, f"{i}", 0.9, system="dp_fedavg", secure=i, neighbours=i) for i in range(2)]
    told = ("dp_fedavg, secure=False, neighbours=0", "dp_fedavg, secure=True, neighbours=1")
    assert names_and_runs(*flags) == dict.fromkeys(told, 1)
    of_others = [recorded(tmp_path, f"mine{i}", 0.9, system="mine", secure=i) for i in range(2)]
    assert names_and_runs(*of_others) == {"mine, secure=0": 1, "mine, secure=1": 1}


def test_eps_at_another_delta_or_none_is_no_other_seed_of_the_same_curve(tmp_path, capsys):
    eps = {"outsider, add/remove": 2.0}
    folders = [recorded(tmp_path, f"{i}", 0.9, eps, delta, seed=i) for i, delta in enumerate((1e-5, 1e-2, 1e-5))]
    folders += [recorded(tmp_path, "none", 0.9, seed=3)]
    assert names_and_runs(*folders) == {"fedavg": 4}
    assert [*names_and_runs(*folders, spent=True).values()] == [2, 1, 1]
    table = tmp_path / "table.json"
    command("plot", *folders[:3], "--x", "epsilon", "--out", tmp_path / "plot.svg", "--json", table)
    assert sorted(row["runs"] for row in json.loads(table.read_text())) == [1, 2]
    with pytest.raises(SystemExit):
        command("plot", *folders[::3], "--x", "epsilon", "--out", tmp_path / "plot.svg")
    assert "x must be one of 'round', 'bytes', 'accuracy', got 'epsilon'" in capsys.readouterr().err


def test_sweeps_over_other_values_are_other_curves(tmp_path):
    axes = [json.dumps({"learning_rate": rates}) for rates in ([0.1, 0.2], [0.2, 0.4], [0.1, 0.2])]
    folders = [recorded(tmp_path, f"{i}", 0.9, seed=i, axes=of) for i, of in enumerate(axes)]
    assert sorted(names_and_runs(*folders).values()) == [1, 2]


def test_runs_of_python_are_not_taken_for_seeds_of_each_other(tmp_path):
    ours = [recorded(tmp_path, f"{i}", 0.9, key=f"0 {i}") for i in range(2)]
    results = {folder: run_folder.load(folder) for folder in ours}
    for result in results.values():
        del result.attrs["system"]
    assert len(joined(results)) == 2


def test_broken_runs_that_are_left_out_are_named(tmp_path, capsys):
    for name in ("good", "bad", "worse"):
        recorded(tmp_path / "runs", name, 0.9)
    for name in ("bad", "worse"):
        (tmp_path / "runs" / name / "result.nc").write_bytes(b"no netCDF")
    run_folder.create(tmp_path / "runs" / "unfinished", {"rounds": 2, "date": DATE})
    command("plot", tmp_path / "runs", "--out", tmp_path / "plot.svg")
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"fedjax-priv: {tmp_path / 'runs' / name} is left out: it is the folder of a broken run"
        for name in ("bad", "worse")
    ]


def test_the_help_says_that_a_folder_is_needed_and_that_an_axis_of_a_sweep_can_be_x(capsys):
    with pytest.raises(SystemExit):
        command("plot", "--help")
    shown = capsys.readouterr().out
    assert "[PLOT OPTIONS] FOLDER [FOLDER ...]" in shown and "learning_rate" in shown and "(default: )" not in shown


def test_the_table_does_not_replace_the_picture(tmp_path, capsys):
    """Nor any file that this or another command made since it began."""
    place = tmp_path / "plot.svg"
    with pytest.raises(SystemExit) as stopped:
        command("plot", recorded(tmp_path, "run", 0.9), "--out", place, "--json", place)
    assert stopped.value.code == 2 and f"json must be a new file, got {place}" in capsys.readouterr().err
    assert "<path" in place.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "folders must be given"),
        (["missing"], "missing is not the folder of a run"),
        (["empty"], "folders must hold finished runs, got empty, which holds none"),
        (["run", "--x", "eps"], "x must be one of 'round', 'bytes', 'accuracy', got 'eps'"),
        (
            ["run", "--adversary", "server"],
            "adversary must not be given unless x is epsilon, got 'server' with x round",
        ),
        (["run", "--y", "f1"], "y must be one of 'accuracy', got 'f1'"),
        (["run", "--out", "plot.jpg"], "out must end with one of .svg, .pdf, .png, got plot.jpg"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    recorded(tmp_path, "run", 0.9)
    with pytest.raises(SystemExit) as stopped:
        command("plot", *arguments)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.startswith(f"fedjax-priv: {message}") and said.count("\n") == 1
    assert not [*tmp_path.glob("plot*")]
