import pytest

from fedjax_priv.runs.records import owner_lock, run_writer
from fedjax_priv.runs.records.run_writer import Keep, RunWriter


def test_a_folder_in_which_another_process_has_begun_is_left(tmp_path, monkeypatch):
    """It resumes the run between the moments at which this one makes the folder and locks it."""
    others = []

    def locked_late(path):
        monkeypatch.undo()
        others.append(RunWriter(Keep(tmp_path / "a", resume=True), {}, 1))
        return owner_lock.only_owner(path)

    monkeypatch.setattr(run_writer, "only_owner", locked_late)
    with pytest.raises(BlockingIOError, match="a is in use by another run$"):
        RunWriter(Keep(tmp_path / "a"), {}, 1)
    others[0].fact("rounds", 1)
    others[0].close()
    assert {path.name for path in (tmp_path / "a").iterdir()} >= {"manifest.json", "facts.json", "checkpoint"}
