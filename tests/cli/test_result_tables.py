import math
import pathlib

import numpy as np
import pytest
import xarray as xr

from fedjax_priv.cli.result_tables import Row, all_failed, run_rows, show_runs, show_summaries
from fedjax_priv.runs.records.run_list import RunSummary

PHASES, ROUNDS, CLIENTS = 2, 3, 4


def result(axes=(), **changed):
    """What `simulate` returns, or `sweep` with axes of two values each; the second one had more of everything."""
    shape = (2,) * len(axes)
    times = np.arange(1, 1 + 2 ** len(axes), dtype=np.float64).reshape(shape)[..., None]
    sent = times[..., None, None] * np.array([1.0, 10.0])[:, None, None] * np.ones((PHASES, ROUNDS, CLIENTS))
    by_evaluation = (*axes, "evaluation")
    failed = {"failed_rounds": (axes, times[..., 0] - 1)} if axes else {}
    return xr.Dataset(
        {
            "loss": ((*axes, "round", "client"), np.zeros((*shape, ROUNDS, CLIENTS), np.float32)),
            "up_bytes": ((*axes, "phase", "round", "client"), sent),
            "down_bytes": ((*axes, "phase", "round", "client"), 2 * sent),
            "accuracy": (by_evaluation, times * [0.1, 0.2]),
            "status": ((*axes, "round"), np.broadcast_to([0, 0, 8], (*shape, ROUNDS))),
            "seconds": (by_evaluation, times * [0.0, 6.0]),
            **failed,
            **changed,
        },
        coords={axis: [f"{axis}1", f"{axis}2"] for axis in axes},
        attrs={"failed_rounds": 1},
    )


def test_a_run_is_a_row():
    (row,) = run_rows("fedavg", result(), pathlib.Path("a/b"))
    why = "a value that is not finite"
    assert row == Row("fedavg", {}, ROUNDS, 1, why, {"accuracy": 0.2}, 11.0, 22.0, 2.0, "a/b", [], {}, None)


def test_each_point_of_a_sweep_is_a_row_and_those_that_were_not_run_are_none():
    rows = run_rows("fedavg", result(("rate", "seed")), "f", ["rate", "seed"])
    assert [row.point for row in rows] == [
        {"rate": rate, "seed": seed} for rate in ("rate1", "rate2") for seed in ("seed1", "seed2")
    ]
    assert [row.failed_rounds for row in rows] == [0, 1, 2, 3]
    assert [row.up_bytes for row in rows] == [11.0, 22.0, 33.0, 44.0]
    assert [row.metrics["accuracy"] for row in rows] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    partly = result(("rate",), failed_rounds=(("rate",), [0.0, math.nan]))
    assert [row.point for row in run_rows("fedavg", partly, "f", ["rate"])] == [{"rate": "rate1"}]


def test_runs_whose_rounds_all_failed_say_why(capsys):
    """Each reason once; rounds that other points of a sweep have are NaN there."""
    status = (("rate", "round"), [[4.0, 9.0, np.nan], [0.0, 4.0, 0.0]])
    rows = run_rows("fedavg", result(("rate",), failed_rounds=(("rate",), [2.0, 1.0]), status=status), "f", ["rate"])
    overflow, lost = "a value so large that the sum could leave its range", "too few survivors to recover the sum"
    assert rows[0].failed_because == f"{lost}; {overflow}; a value that is not finite"
    assert rows[1].failed_because == overflow
    assert all_failed(rows) == ""  # of three rounds
    one = rows[0]._replace(rounds=2)
    assert all_failed([one, rows[1]]) == f"every round of 1 of 2 runs failed: {one.failed_because}"
    assert all_failed([one]) == f"every round failed: {one.failed_because}"
    assert all_failed([one._replace(rounds=0, failed_rounds=0)]) == ""
    show_runs("fedavg", rows)
    assert f"failed: {overflow}\n" in capsys.readouterr().out


def test_the_command_of_the_ledger_can_be_copied(capsys):
    (row,) = run_rows("dp_fedavg", result(), "my runs/a")
    show_runs("dp_fedavg", [row._replace(epsilon={"outsider": 3.0}, delta=1e-5)])
    assert "protects: fedjax-priv ledger 'my runs/a'\n" in capsys.readouterr().out


def test_clients_and_phases_that_only_other_points_have_do_not_count():
    sent = np.ones((2, PHASES, ROUNDS, CLIENTS))
    sent[0, :, :, 2:] = np.nan  # half the cohort
    sent[1, 1] = np.nan  # no second phase
    dims = ("rate", "phase", "round", "client")
    rows = run_rows("fedavg", result(("rate",), up_bytes=(dims, sent)), "f", ["rate"])
    assert [row.up_bytes for row in rows] == [2.0, 1.0]


def test_a_run_that_ended_before_its_first_round_has_a_row():
    none = result().isel(round=slice(0), evaluation=slice(1))
    (row,) = run_rows("fedavg", none, "f")
    assert (row.rounds, row.up_bytes, row.seconds_per_round, row.metrics) == (0, 0.0, 0.0, {"accuracy": 0.1})


def shown(rows, capsys):
    show_runs("title", rows)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_the_table_has_a_line_for_runs_that_differ_in_the_seed_alone(capsys):
    title, heading, _, first, second, over, last, why = shown(
        run_rows("fedavg", result(("rate", "seed")), "[f]", ["rate", "seed"]), capsys
    )
    assert title == "title"
    assert heading == "rate accuracy up, B down, B s/round failed"
    assert first == "rate1 0.3 ± 1.3 16 33 3 1"  # of 0.2 and 0.4; 11 and 22; 22 and 44; 2 and 4; 0 and 1
    assert second == "rate2 0.7 ± 1.3 38 77 7 5"
    assert over == "±: half of Student's 95% interval for the mean over seeds."
    assert last.endswith("folder: [f]")
    assert why == "failed: a value that is not finite"


def test_the_table_of_one_run_and_of_one_that_diverged(capsys):
    lines = shown(run_rows("fedavg", result(), "f"), capsys)
    assert lines[3] == "0.2 11 22 2 1"
    infinite = result(("seed",), accuracy=(("seed", "evaluation"), [[0.0, math.inf], [0.0, 1.0]]))
    assert shown(run_rows("fedavg", infinite, "f", ["seed"]), capsys)[3].startswith("inf ± nan 16")


def proved(eps):
    """A sweep of two points with such figures by adversary."""
    names, values = [*eps], np.array([*eps.values()], float).T[..., None]
    dims = {"rate": ["rate1", "rate2"], "adversary": names, "round": [ROUNDS]}
    epsilon = xr.DataArray(values, dims, [*dims], attrs={"delta": 1e-5})
    return run_rows("fedavg", result(("rate",)).isel(round=[-1]).assign(epsilon=epsilon), "f", ["rate"])


def of_eps(rows, capsys):
    """The column and the line of it."""
    lines = shown(rows, capsys)
    at = lines[1].split(" ").index("eps")
    return [line.split(" ")[at] for line in lines[3:5]], next(line for line in lines if line.startswith("eps:"))


def test_eps_of_a_sweep_is_of_an_adversary_who_has_one_at_all_points(capsys):
    """Masks name it otherwise: `secure=true,false` of `dp_fedavg` is zero-out or add/remove."""
    names = ("outsider, zero-out", "outsider, replacement", "outsider, add/remove")
    column, line = of_eps(proved(dict(zip(names, ([3, math.nan], [8, 9], [math.nan, 4]), strict=True))), capsys)
    assert column == ["8", "9"]
    assert line == "eps: proved at delta 1e-05, outsider, replacement; the result has it by round and adversary."


def test_points_without_noise_do_not_change_whose_eps_it_is(capsys):
    column, line = of_eps(proved({"outsider": [math.nan, 3], "device": [math.nan, 4]}), capsys)
    assert column == ["-", "3"] and "under" not in line


def test_of_three_points_the_one_without_noise_says_nothing_about_whose_eps_it_is(capsys):
    first, second = proved({"outsider": [3, 3], "device": [4, 4]})
    rows = [first._replace(epsilon={}), second, second._replace(epsilon={"device": 5.0})]
    assert of_eps(rows, capsys)[1].startswith("eps: proved at delta 1e-05, device;")


def test_what_one_of_two_seeds_lacks_is_not_said_of_both(capsys):
    first, second = proved({"outsider": [3, 3]})
    other = first._replace(point=second.point | {"seed": 1}, epsilon={})
    lines = shown([first, second._replace(point=second.point | {"seed": 0}), other], capsys)
    assert ["-" in line.split(" ") for line in lines[3:5]] == [False, True]


def test_points_that_name_an_adversary_otherwise_are_said_to_have_eps(capsys):
    named = {"outsider, zero-out": [3, math.nan], "outsider, add/remove": [math.nan, 4]}
    column, line = of_eps(proved(named), capsys)
    assert column == ["3", "-"]
    assert line == (
        "eps: proved at delta 1e-05, outsider, zero-out; the result has it by round and adversary. "
        "Points with - may have it under other names: outsider, add/remove."
    )


def test_a_caveat_is_printed_below_the_table(capsys):
    for axes in ((), ("seed",)):
        told = result(axes).assign_attrs(caveats="uploads are in the clear")
        rows = run_rows("secagg", told, "f", axes)
        assert [row.caveats for row in rows] == [["uploads are in the clear"]] * len(rows)
        assert shown(rows, capsys)[-1] == "uploads are in the clear"
    assert "clear" not in " ".join(shown(run_rows("secagg", result().assign_attrs(caveats=""), "f"), capsys))


def test_a_list_of_runs_cuts_no_name(capsys):
    root = pathlib.Path("root")
    long = "folder-" * 20 + ":fire:"
    entries = [
        RunSummary(root / long / "[x]", "fedavg", "finished", 3, 4, "2026-01-02T03:04:05+00:00", {"accuracy": 0.51239}),
        RunSummary(root / "sweep", "fedavg", "finished", 30, 30, "2026-01-02T03:04:05+00:00", {}, runs=6),
        RunSummary(root / "broken", "-", "broken", 0, 0, "", {}),
        RunSummary(root / "log", "fedavg", "finished", None, 4, "2026-01-02T03:04:05+00:00", {}),
    ]
    show_summaries(root, entries)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == "runs in root"
    assert lines[3:] == [
        f"{long}/[x] fedavg finished 3/4 2026-01-02 03:04 accuracy 0.5124",
        "sweep fedavg finished 30/30 of 6 runs 2026-01-02 03:04",
        "broken - broken 0/0",
        "log fedavg finished ?/4 2026-01-02 03:04",
    ]
