import json

import pytest

from fedjax_priv.runs.records import log_file


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def test_the_log_has_a_line_a_record(folder):
    records = [{"round": i, "seconds": 0.1 * i, "metrics": {"accuracy": 0.1}} for i in range(3)]
    assert log_file.read(folder) == []
    for record in records:
        log_file.append(folder, record)
    assert log_file.read(folder) == records
    lines = (folder / "log.jsonl").read_text().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == records
    assert lines[-1] == ""


def test_wherever_a_line_is_torn_the_records_before_it_count_and_the_next_is_whole(folder):
    log_file.append(folder, {"round": 1})
    log_file.append(folder, {"round": 2})
    path = folder / "log.jsonl"
    content = path.read_bytes()
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        whole = [{"round": 1 + i} for i in range(content[:length].count(b"\n"))]
        assert log_file.read(folder) == whole
        log_file.append(folder, {"round": 9})
        assert log_file.read(folder) == [*whole, {"round": 9}]


def test_a_broken_line_in_the_middle_is_an_error(folder):
    (folder / "log.jsonl").write_text('{"round": 1}\n{"rou\n{"round": 3}\n')
    with pytest.raises(ValueError, match=r"log.jsonl is broken"):
        log_file.read(folder)


def test_an_empty_line_is_none_and_one_that_is_no_object_is_an_error(folder):
    (folder / "log.jsonl").write_text('{"round": 1}\n\n{"round": 3}\n')
    assert log_file.read(folder) == [{"round": 1}, {"round": 3}]
    (folder / "log.jsonl").write_text('{"round": 1}\n5\n')
    with pytest.raises(ValueError, match=r"log.jsonl is broken: a line is 5, which is no object$"):
        log_file.read(folder)


def test_the_log_is_cut_where_a_run_starts_again(folder):
    for i in range(5):
        log_file.append(folder, {"round": i})
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"rou')
    log_file.truncate(folder, lambda record: record["round"] <= 2)
    assert (folder / "log.jsonl").read_text() == '{"round": 0}\n{"round": 1}\n{"round": 2}\n'


def test_a_line_that_is_not_of_a_run_cannot_be_cut_by_its_round(folder):
    (folder / "log.jsonl").write_text('{"round": 1}\n{"day": 1}\n')
    with pytest.raises(ValueError, match=r"log.jsonl is broken: a line is not that of a run, KeyError\('round'\)$"):
        log_file.truncate(folder, lambda record: record["round"] <= 2)
    assert len(log_file.read(folder)) == 2, "nothing is lost"


def test_a_line_that_does_not_fit_on_the_disk_is_taken_back(folder, monkeypatch):
    """The limit of a file's size stands in for the disk: the line is written in part."""
    import resource
    import signal

    log_file.append(folder, {"round": 1})
    size = (folder / "log.jsonl").stat().st_size
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, limits[1]))
    try:
        with pytest.raises(OSError, match="cannot write the log, No space left on device"):
            log_file.append(folder, {"round": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert log_file.read(folder) == [{"round": 1}]
    assert (folder / "log.jsonl").stat().st_size == size
