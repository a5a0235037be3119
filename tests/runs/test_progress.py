import io
import time

import pytest
from rich.console import Console

from fedjax_priv.runs import progress

STATE = dict(seconds=4.0, metrics={"accuracy": 0.91237}, megabytes=12.34, failed=0)


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=140, color_system=None)


def shown(console):
    return console.file.getvalue()


def test_what_it_shows():
    console = terminal()
    with progress.bar(10, console=console) as update:
        update(10, **STATE | dict(failed=2))
    line = shown(console)
    for part in ("10/10", "2.5 rounds/s", "accuracy 0.9124", "12.3 MB/user", "2 failed", "0:00 left"):
        assert part in line


def test_names_are_shown_as_they_are():
    console = terminal()
    with progress.bar(10, console=console) as update:
        update(10, **STATE | dict(metrics={"share [b]": 0.5, "end [/b]": 0.25}))
    assert "share [b] 0.5, end [/b] 0.25" in shown(console)


def test_no_failures_no_word_of_them():
    console = terminal()
    with progress.bar(10, console=console) as update:
        update(10, **STATE)
    assert "accuracy 0.9124" in shown(console) and "failed" not in shown(console)


@pytest.mark.parametrize("show", [True, False])
def test_silent_where_nobody_looks(capsys, monkeypatch, show):
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich take any stream for a terminal
    with progress.bar(3, show=show) as update:
        update(3, **STATE)
    assert capsys.readouterr() == ("", "")


def test_drawing_takes_less_than_a_hundredth_of_the_time(monkeypatch):
    console, clock, drawing = terminal(), 0.0, 0.0
    write = console.file.write

    def slow(text):
        nonlocal clock
        clock += 2e-3
        return write(text)

    monkeypatch.setattr(console.file, "write", slow)
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    with progress.bar(1_000_000, console=console) as update:
        for rounds in range(1, 10_001):
            clock += 3e-3
            before = clock
            update(rounds, **STATE)
            drawing += clock - before
    assert clock > 30 and shown(console).count("MB") > 10
    assert 0 < drawing < 0.01 * clock
