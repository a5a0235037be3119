"""SIGKILL at any moment: what was written down counts, and the end is the same, bit for bit."""

import itertools
import os
import pathlib
import subprocess
import sys

import xarray as xr

from fedjax_priv import store

KILLS = 24


def test_kills_lose_and_spoil_nothing(tmp_path):
    """At most the round under way is lost, every checkpoint can be read, and all sweeps end as the one left alone."""
    script = pathlib.Path(__file__).parent / "kill_sweep.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(script.parent), str(script.parent.parent)])}
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(KILLS)], capture_output=True, text=True, env=environment, timeout=900
    )
    assert done.returncode == 0, done.stderr
    lives = [line.split() for line in done.stdout.splitlines()]
    killed = [line for line in lives if line[0] == "killed"]
    assert len(killed) == KILLS
    for _, _, logged, committed in killed:
        assert int(committed) >= int(logged) - 1  # a checkpoint after every round, which is logged before
    for (_, before, _, earlier), (_, after, _, later) in itertools.pairwise(killed):
        assert before != after or int(earlier) <= int(later)
    assert len({committed for *_, committed in killed}) > KILLS // 4  # they were killed all over
    whole = plain(store.load(tmp_path / "whole"))
    finished = [line[1] for line in lives if line[0] == "finished"]
    assert finished
    for name in finished:
        xr.testing.assert_identical(plain(store.load(tmp_path / name)), whole)
        log = store.read_log(tmp_path / name)
        places = [(record["batch"], record["chunk"], record["rate"]) for record in log]
        assert places == sorted(set(places)) and len(places) == 3 * 61 * 2


def plain(result):
    return result.drop_attrs().drop_vars("seconds")
