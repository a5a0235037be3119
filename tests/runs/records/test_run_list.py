import pytest
import xarray as xr

from fedjax_priv.runs.records import log_file, run_folder
from fedjax_priv.runs.records.run_list import RunSummary, summaries

MANIFEST = {"system": "fedavg", "rounds": 4, "date": "2026-01-02T03:04:05+00:00"}


def test_runs_are_found_with_what_became_of_them(tmp_path):
    for name, date, status in (("c", "2026-03", None), ("a/b", "2026-01", 0), ("d", "2026-02", 0)):
        folder = tmp_path / name
        run_folder.create(folder, MANIFEST | {"date": date, "system": name})
        log_file.append(folder, {"round": 0, "metrics": {"accuracy": 0.1}})
        log_file.append(folder, {"round": 3, "metrics": {"accuracy": 0.7}})
        if status is not None:
            run_folder.save(folder, xr.Dataset(attrs={"interrupted": status}))
    run_folder.create(tmp_path / "c" / "checkpoint" / "inner", MANIFEST)
    run_folder.create(tmp_path / "e", MANIFEST | {"date": "2026-04"})
    (tmp_path / "no run").mkdir()
    last = {"accuracy": 0.7}
    assert summaries(tmp_path) == [
        RunSummary(tmp_path / "a/b", "a/b", "finished", 3, 4, "2026-01", last),
        RunSummary(tmp_path / "d", "d", "finished", 3, 4, "2026-02", last),
        RunSummary(tmp_path / "c", "c", "unfinished", 3, 4, "2026-03", last),
        RunSummary(tmp_path / "e", "fedavg", "unfinished", 0, 4, "2026-04", {}),
    ]
    assert summaries(tmp_path / "d")[0].system == "d"
    with pytest.raises(ValueError, match="root must be a folder, got .*missing"):
        summaries(tmp_path / "missing")


def test_rounds_of_a_sweep_are_those_of_all_its_runs(tmp_path):
    """Two waves of two runs; the second has come to round 1."""
    run_folder.create(tmp_path / "a", MANIFEST | {"runs": 4})
    for wave, round in ((0, 2), (0, 2), (0, 4), (0, 4), (1, 1), (1, 1)):
        log_file.append(tmp_path / "a", {"wave": wave, "round": round})
    (found,) = summaries(tmp_path)
    assert (found.rounds_done, found.rounds) == (4 + 4 + 1 + 1, 16)


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"round": 4, "metrics": 1}', '{"round": "4"}'])
def test_a_run_with_a_result_does_not_need_its_log(tmp_path, line):
    run_folder.create(tmp_path / "a", MANIFEST)
    log_file.append(tmp_path / "a", {"round": 3, "metrics": {"accuracy": 0.7}})
    with (tmp_path / "a" / log_file.LOG).open("a") as log:
        log.write(f"{line}\n")
    assert summaries(tmp_path)[0].status == "broken"
    run_folder.save(tmp_path / "a", xr.Dataset())
    assert summaries(tmp_path) == [RunSummary(tmp_path / "a", "fedavg", "finished", None, 4, MANIFEST["date"], {})]


def test_links_are_followed_once(tmp_path):
    """A run that lies below the root has its own name; links in a circle end."""
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / "own", other / "inner", tmp_path / "alone", root / "own" / "checkpoint" / "x"):
        run_folder.create(folder, MANIFEST)
    (root / "a link").symlink_to(root / "own")
    (root / "own" / "b link").symlink_to(tmp_path / "alone")
    (root / "there").symlink_to(other)
    (root / "there again").symlink_to(other / "inner")
    (root / "z").symlink_to(root)
    (other / "back").symlink_to(root)
    (root / "gone").symlink_to(tmp_path / "missing")
    for top in (root, other / "back"):
        found = {str(run.folder.relative_to(top)) for run in summaries(top)}
        assert found == {"own", "own/b link", "there/inner"}


CARD = {"command": "python -m experiments wireless errata", "scale": "quick", "rounds": 4, "date": "2026"}


def test_cards_are_no_runs(tmp_path):
    """Also one whose manifest is that of a run but for its command; the manifest of a run may have a command, too."""
    for name, manifest in (("card", CARD), ("older", CARD | {"command": "python experiments/paper/fig2.py"})):
        run_folder.create(tmp_path / "results" / name, manifest)
    run_folder.create(tmp_path / "run", CARD | {"command": "sbatch"})
    assert [run.folder.name for run in summaries(tmp_path)] == ["run"]
    assert summaries(tmp_path / "results") == []


@pytest.mark.parametrize("content", [b"", b"no netCDF", 4000])
def test_a_result_that_is_cut_short_is_broken(tmp_path, content):
    for name in ("cut", "good"):
        run_folder.create(tmp_path / name, MANIFEST)
        run_folder.save(tmp_path / name, xr.Dataset({"a": ("x", range(2000))}))
    path = tmp_path / "cut" / run_folder.RESULT
    path.write_bytes(path.read_bytes()[:content] if isinstance(content, int) else content)
    assert {run.folder.name: run.status for run in summaries(tmp_path)} == {"cut": "broken", "good": "finished"}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("manifest.json", "{"),
        ("manifest.json", "[]"),
        ("manifest.json", '{"rounds": "many", "date": "2026"}'),
        ("manifest.json", "{}"),
        ("log.jsonl", "[]\n"),
        ("log.jsonl", "{\n"),
    ],
)
def test_a_broken_run_does_not_hide_the_others(tmp_path, file, content):
    for name in ("run", "good"):
        run_folder.create(tmp_path / name, MANIFEST)
    (tmp_path / "run" / file).write_text(content)
    assert {run.folder.name: run.status for run in summaries(tmp_path)} == {
        "run": "broken",
        "good": "unfinished",
    }
