import jax
import pytest

from fedjax_priv.cli.launch import Launch, join


@pytest.fixture
def started(monkeypatch):
    """Arguments with which JAX's runtime was started."""
    calls = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *given: calls.append(given))
    return calls


def test_a_process_that_is_alone_starts_nothing(started):
    join(Launch())
    assert started == []


def test_processes_are_told_or_found_in_the_environment(started):
    join(Launch(coordinator="localhost:1234", num_processes=2, process_id=0))
    join(Launch(distributed=True))
    assert started == [("localhost:1234", 2, 0), ()]


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (
            Launch(coordinator="x:1"),
            "coordinator, num_processes, process_id must be given together, got only coordinator",
        ),
        (Launch(num_processes=2, process_id=0), "must be given together, got only num_processes, process_id"),
        (Launch(distributed=True, process_id=0), "distributed reads .* environment, so leave out process_id"),
        (Launch("localhost", 2, 0), "coordinator must be HOST:PORT, got 'localhost'"),
        (Launch("localhost:http", 2, 0), "coordinator must be HOST:PORT, got 'localhost:http'"),
        (Launch("localhost:1234", 0, 0), "num_processes must be an integer >= 1, got 0"),
        (Launch("localhost:1234", 2, -1), "process_id must be an integer >= 0, got -1"),
        (Launch("localhost:1234", 2, 2), "process_id must be below num_processes = 2, got 2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(started, launch, message):
    with pytest.raises(ValueError, match=message):
        join(launch)
    assert started == []
