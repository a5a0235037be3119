"""`fedjax-priv reproduce`: scripts run in processes, and what they leave is checked."""

import json
import os
import pathlib
import signal
import sys
import time
from typing import NamedTuple

import matplotlib.figure
import numpy as np
import pytest
import xarray as xr

from experiments import cards, checks, harness, reproduce
from experiments.cards import Card
from experiments.claims import Claim
from experiments.harness import Experiment, Outcome
from fedjax_priv.cli import main
from fedjax_priv.cli import reproduce as place
from fedjax_priv.runs.records import atomic_file

COMMIT = "0" * 40
ABOUT = {"commit": COMMIT, "device_kind": "cpu", "date": "2026", "jax_version": "0", "command": "python", "seed": 0,
         "scale": "quick", "seconds": 1.5}  # fmt: skip
MAIN = "import runpy, sys; runpy.run_path(f'experiments/{sys.argv[1]}.py')"
SCRIPT = """
import pathlib, shutil, sys, time

def main():
    out = pathlib.Path(sys.argv[-1])
    {work}
    shutil.copytree({made!r}, out, dirs_exist_ok=True)

main()
"""
CARD = Card("paper", "fig1", "Fig. 1", "x")


class Config(NamedTuple):
    seed: int = 0


def outcome(verdict=True, values=(1.0, 2.0)):
    picture = matplotlib.figure.Figure()
    picture.add_subplot().imshow(np.random.default_rng(0).random((40, 40)))
    data = xr.Dataset({"accuracy": ("round", np.array(values))})
    return Outcome(
        picture, data, [Claim("reaches", "reaches 90%", "90%", "91%", verdict, "at least 90%", differs="")], ["digits"]
    )


def saved(folder, verdict=True, values=(1.0, 2.0), **about):
    harness.save(outcome(verdict, values), folder, "fig1", ABOUT | about)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("made"))


@pytest.fixture
def papers(tmp_path, monkeypatch, made):
    """Adds papers of one figure; `python -m experiments` copies results for it, or does `work` before."""
    root = tmp_path / "experiments"
    root.mkdir()
    (root / "__main__.py").write_text(MAIN)
    monkeypatch.setattr(reproduce, "HERE", root)
    monkeypatch.setattr(reproduce, "commit", lambda: COMMIT)
    monkeypatch.setattr(cards, "PAPERS", {})
    only = {"fig1": Experiment("Fig. 1", "", {"quick": None}, None)}
    monkeypatch.setattr(cards, "experiments", lambda paper: only)
    monkeypatch.chdir(tmp_path)

    def add(paper, work="pass"):
        cards.PAPERS[paper] = cards.Paper(paper)
        (root / f"{paper}.py").write_text(SCRIPT.format(work=work, made=str(made)))

    return add


def found(folder):
    return checks.problems(cards.result(CARD, "quick", folder))


@pytest.mark.parametrize("values", [(1.0, np.nan), ("refused", "")], ids=["numbers", "text"])
def test_results_as_they_should_be_have_no_problems(tmp_path, values):
    saved(tmp_path / "paper" / "fig1-quick", values=values)
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"seconds": ""}, "manifest.json lacks seconds"),
        ({"scale": "cpu"}, "manifest.json is of scale cpu"),
        ({"command": f"python --out {pathlib.Path.home()}/x"}, "manifest.json names"),
        ({"values": (np.nan, np.nan)}, "accuracy in fig1.nc has no finite value"),
        ({"values": ("", "")}, "accuracy in fig1.nc has no value"),
        ({"verdict": False}, "claim 'reaches' came out as 'does not hold', expected 'holds'"),
    ],
)
def test_what_is_wrong_with_results_is_said(tmp_path, monkeypatch, how, said):
    monkeypatch.setitem(checks.AT_QUICK, "paper.fig1", {"reaches": True})
    saved(tmp_path / "paper" / "fig1-quick", **how)
    (problem,) = found(tmp_path)
    assert problem.startswith(said)


def test_files_and_claims_are_looked_at(tmp_path, monkeypatch):
    folder = saved(tmp_path / "paper" / "fig1-quick")
    (folder / "fig1.png").write_bytes(b"")
    xr.Dataset(attrs={"commit": "another"}).to_netcdf(folder / "fig1.nc", engine="h5netcdf")
    harness.write_json(
        folder / "verdicts.json",
        [{"id": "x", "text": "", "expected": "", "found": "", "verdict": True, "source": "paper", "differs": ""}] * 2,
    )
    assert found(tmp_path) == [
        "fig1.png has 0 bytes", "fig1.nc is empty", "fig1.nc is of another commit than manifest.json",
        "2 claims have the id 'x'", "claim without a verdict: x", "claim without a verdict: x",
    ]  # fmt: skip
    monkeypatch.setitem(checks.AT_QUICK, "paper.fig1", {"reaches": True})
    assert found(tmp_path)[-1] == "claim 'reaches' is missing"
    monkeypatch.undo()
    harness.write_json(folder / "verdicts.json", [])
    assert found(tmp_path)[-1] == "no claims"
    (folder / "fig1.png").unlink()
    (problem,) = found(tmp_path)
    assert problem.startswith("a file cannot be read") and "fig1.png" in problem


def test_ids_of_claims_are_unique(tmp_path):
    twice = outcome()._replace(claims=[*outcome().claims] * 2)
    with pytest.raises(ValueError, match="ids of claims must be unique; got reaches more than once"):
        harness.save(twice, tmp_path, "fig1", ABOUT)


def test_a_claim_that_lacks_a_field_is_refused(tmp_path):
    folder = saved(tmp_path / "paper" / "fig1-quick")
    harness.write_json(folder / "verdicts.json", [{"id": "x", "source": "paper"}])
    with pytest.raises(ValueError, match=r"verdicts.json: .*missing"):
        found(tmp_path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of h5netcdf, about a half-open file
def test_a_result_with_any_wrong_bytes_is_a_problem_or_as_good_as_before(tmp_path):
    """What HDF5 raises depends on the byte."""
    file = saved(tmp_path / "paper" / "fig1-quick") / "fig1.nc"
    whole, said = file.read_bytes(), set()
    for start in range(0, len(whole), 101):
        file.write_bytes(whole[:start] + b"\xa5" * 16 + whole[start + 16 :])
        said |= {problem.partition(":")[0] for problem in found(tmp_path)}
    assert {"fig1.nc is broken", "a file cannot be read"} <= said


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["fedjax-priv", "reproduce", *map(str, arguments)])
    monkeypatch.setattr(main, "scripts", lambda: reproduce)
    main.main()


def test_a_script_that_fails_or_breaks_its_results_is_named_and_stops_no_other(papers, monkeypatch, capsys, tmp_path):
    papers("bad", "sys.exit('no data')")
    papers("empty", "return")
    papers("broken", "out.mkdir(parents=True); (out / 'verdicts.json').write_text('['); return")
    papers("good")
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, "--all", "--json", tmp_path / "rows.json")
    assert stopped.value.code == 1
    printed = capsys.readouterr().out
    assert "1 of 4 cards made; results: results\nfailed or unexpected: " in printed
    assert "verdicts.json is not JSON: Expecting value" in printed
    rows = {row["paper"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert rows["bad"]["problems"] == ["exit status 1: no data"] and rows["bad"]["verdict"] == "failed"
    assert rows["empty"]["problems"] == ["no results"]
    good = rows["good"]
    assert (good["verdict"], good["held"], good["tested"], good["seconds"]) == ("holds", 1, 1, 1.5)
    assert not good["problems"] and good["folder"] == "results/good/fig1-quick"


def test_a_script_writes_to_a_relative_place(papers, monkeypatch, tmp_path):
    papers("good", "pathlib.Path('place').write_text(str(out))")
    run(monkeypatch, "good", "fig1", "--out", tmp_path / "here")
    assert pathlib.Path("place").read_text() == "here/good/fig1-quick"


def test_vectors_are_asked_for(papers, monkeypatch):
    papers("good", "pathlib.Path('place').write_text(str('--vectors' in sys.argv))")
    for asked in (["--vectors"], []):
        run(monkeypatch, "good", *asked)
        assert pathlib.Path("place").read_text() == str(bool(asked))


def test_a_table_and_vectors_lie_beside_the_picture(tmp_path):
    with_table = outcome()._replace(table=[["", "p = 0.3"], ["eps_l", "5.124"]])
    harness.save(with_table, tmp_path, "fig1", ABOUT, vectors=True)
    made = {"fig1.nc", "fig1.png", "fig1.pdf", "fig1.svg", "fig1.md", "manifest.json", "verdicts.json"}
    assert {file.name for file in tmp_path.iterdir()} == made
    assert "| eps_l | 5.124   |" in (tmp_path / "fig1.md").read_text()


def test_every_file_of_a_card_is_written_whole_or_not_at_all(monkeypatch, tmp_path):
    """A card that is stopped leaves no file cut short: each goes through the writer that replaces a file at once."""
    with_table = outcome()._replace(table=[["", "p = 0.3"], ["eps_l", "5.124"]])
    harness.save(with_table, tmp_path / "made", "fig1", ABOUT, vectors=True)
    whole = dict[str, bytes]()
    monkeypatch.setattr(atomic_file, "write", lambda path, content: whole.update({path.name: content}))
    harness.save(with_table, tmp_path / "stopped", "fig1", ABOUT, vectors=True)
    assert not list((tmp_path / "stopped").iterdir())
    assert whole.keys() == {file.name for file in (tmp_path / "made").iterdir()}


def test_resumed_results_are_made_again_only_if_they_are_of_another_commit_or_broken(papers, monkeypatch):
    papers("good", "open('log', 'a').write('x')")

    def runs_made(*arguments, commit=COMMIT):
        monkeypatch.setattr(reproduce, "commit", lambda: commit)
        run(monkeypatch, "good", *arguments)
        return len(pathlib.Path("log").read_text())

    assert [runs_made(), runs_made("--resume"), runs_made()] == [1, 1, 2]
    assert runs_made("--resume", commit="another") == 3
    assert runs_made("--resume", commit=COMMIT + "-dirty") == 4
    path = pathlib.Path("results/good/fig1-quick/manifest.json")
    path.write_text('{"comm')
    assert runs_made("--resume") == 5
    for number, lost in enumerate(("commit", "seconds"), 6):
        path.write_text(json.dumps({name: value for name, value in ABOUT.items() if name != lost}))
        assert runs_made("--resume") == number
    path.write_text("[]")
    assert runs_made("--resume") == 8


def test_a_commit_that_is_unknown_is_never_the_same(papers, monkeypatch):
    papers("good", "open('log', 'w')")
    monkeypatch.setattr(reproduce, "commit", lambda: "unknown")
    saved(pathlib.Path("results/good/fig1-quick"), commit="unknown")
    run(monkeypatch, "good", "--resume")
    assert pathlib.Path("log").exists()


def test_results_outside_the_current_folder_are_as_good_as_others(tmp_path, monkeypatch):
    """Also below the home folder, whose name the way there has in it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "alice"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    root = tmp_path / "home" / "alice" / "results"
    place = os.path.relpath(cards.folder_of(CARD, "quick", root))
    monkeypatch.setattr(sys, "argv", ["__main__.py", "paper", "fig1", "--out", place, "--runs", "results/runs"])
    one = Experiment("", "", {"quick": Config(), "paper": Config()}, lambda config: outcome())
    harness.make(one, "paper", "fig1", "quick", pathlib.Path(place))
    assert found(root) == []
    command = "python -m experiments paper fig1 --out fig1-quick --runs results/runs"
    assert cards.result(CARD, "quick", root).manifest["command"] == command


def test_results_that_do_not_say_how_long_they_took_are_a_row(papers, monkeypatch, capsys):
    papers("good", "shutil.copytree('without', out); return")
    saved(pathlib.Path("without"))
    described = json.loads(pathlib.Path("without/manifest.json").read_text())
    del described["seconds"]
    pathlib.Path("without/manifest.json").write_text(json.dumps(described))
    with pytest.raises(SystemExit, match="1"):
        run(monkeypatch, "good")
    assert "manifest.json lacks seconds" in capsys.readouterr().out


WITH_VECTORS = """
    with open('log', 'a') as log: print(*sys.argv[3:-2], file=log)
    out.mkdir(parents=True, exist_ok=True)
    for form in ('pdf', 'svg') if '--vectors' in sys.argv else (): (out / f'fig1.{form}').touch()
"""


@pytest.mark.parametrize("judge", [None, lambda config, data: outcome()])
def test_resumed_results_get_the_vectors_that_are_missing(papers, monkeypatch, judge):
    """Drawn from the data if the claims follow from them alone; never those of an older picture."""
    monkeypatch.setitem(cards.experiments("good"), "fig1", Experiment("Fig. 1", "", {"quick": None}, None, judge))
    papers("good", WITH_VECTORS)

    def said(*arguments):
        pathlib.Path("log").write_text("")
        run(monkeypatch, "good", *arguments)
        return pathlib.Path("log").read_text().splitlines()

    made, drawn = ["--scale quick --vectors"], ["--scale quick --vectors" + (" --judge" if judge else "")]
    assert said() == ["--scale quick"]
    assert said("--resume", "--vectors") == drawn
    assert said("--resume", "--vectors") == said("--resume") == []
    assert said("--vectors") == made
    folder = pathlib.Path("results/good/fig1-quick")
    os.utime(folder / "fig1.png")
    assert said("--resume", "--vectors") == drawn
    (folder / "fig1.svg").unlink()
    assert said("--resume", "--vectors") == drawn


def test_results_of_an_earlier_run_are_no_success(papers, monkeypatch):
    papers("good", "if pathlib.Path('broken').exists(): return")
    run(monkeypatch, "good")
    pathlib.Path("broken").touch()
    with pytest.raises(SystemExit, match="1"):
        run(monkeypatch, "good")


def test_what_is_running_ends_with_the_command(papers):
    papers("quick")
    papers("slow", "open('started', 'w'); time.sleep(600)")
    rows = reproduce._rows(cards.cards(), "quick", pathlib.Path("results"), 2, resume=False)
    assert next(rows).paper == "quick"
    while not pathlib.Path("started").exists():
        time.sleep(0.01)
    rows.close()


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_ends_what_is_running_and_says_how_to_continue(papers, monkeypatch, capsys, number, code):
    """The script sends it to the command; this would wait for ten minutes for a script that goes on."""
    papers("slow", f"import os, signal; time.sleep(0.1); os.kill(os.getppid(), signal.{number}); time.sleep(600)")
    start = time.monotonic()
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, "slow")
    assert stopped.value.code == code and time.monotonic() - start < 100
    assert capsys.readouterr().err == "to continue, add --resume to the same command\n"


def test_a_script_that_was_about_to_start_ends_too(papers, monkeypatch):
    papers("slow", "time.sleep(600)")
    start, popen = time.monotonic(), reproduce.subprocess.Popen

    def late(*args, **how):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.3)  # in which the command ends what it knows of
        return popen(*args, **how)

    monkeypatch.setattr(reproduce.subprocess, "Popen", late)
    with pytest.raises(SystemExit, match="143"):
        run(monkeypatch, "slow")
    assert time.monotonic() - start < 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "paper or all must be given"),
        (["good", "--all"], "paper must not be given with all"),
        (["nobody"], "paper must be one of good; got nobody"),
        (["good", "fig2"], "figure must be one of fig1 (Fig. 1) for good; got fig2"),
        (["good", "--processes", "0"], "processes must be an integer >= 1, got 0"),
    ],
)
def test_bad_input_is_one_line(papers, monkeypatch, capsys, arguments, said):
    papers("good")
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"fedjax-priv: {said}\n"


def test_without_the_repository_one_line_says_where_the_scripts_are(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(place, "__file__", str(tmp_path / "fedjax_priv" / "cli" / "reproduce.py"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fedjax-priv", "reproduce", "--all"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "in a checkout of the repository" in said


def test_a_real_script_is_made(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    run(monkeypatch, "wireless", "fig6", "--json", "rows.json")
    (row,) = json.loads(pathlib.Path("rows.json").read_text())
    assert row["problems"] == [] and (row["held"], row["tested"]) == (0, 2)
    described = json.loads(pathlib.Path("results/wireless/fig6-quick/manifest.json").read_text())
    place = "results/wireless/fig6-quick"
    assert described["command"] == f"python -m experiments wireless fig6 --scale quick --out {place}"


def test_experiments_have_what_the_user_set_and_large_pages_if_nothing(monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert reproduce.environment("cpu", "programs")["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    found = reproduce.environment("cpu", "programs")
    assert found["GLIBC_TUNABLES"] == "glibc.malloc.arena_max=1" and found["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
