"""SIGKILL at any moment: what was written down counts, and the end is the same, bit for bit."""

import itertools

import xarray as xr

import kill_sweep
from children import Child
from fedjax_priv.runs.records import log_file, run_folder

KILLS = 12


def test_kills_lose_and_spoil_nothing(tmp_path):
    """At most the round under way is lost, every checkpoint can be read, and all sweeps end as the one left alone."""
    out, _ = Child(kill_sweep.main, tmp_path, KILLS, jax_num_cpu_devices=2).ended(timeout=900)
    lives = [line.split() for line in out.splitlines()]
    killed = [line for line in lives if line[0] == "killed"]
    assert len(killed) == KILLS
    for _, _, logged, committed in killed:
        assert int(committed) >= int(logged) - 1  # a checkpoint after every round, which is logged before
    for (_, before, _, earlier), (_, after, _, later) in itertools.pairwise(killed):
        assert before != after or int(earlier) <= int(later)
    assert len({committed for *_, committed in killed}) > KILLS // 4  # they were killed all over
    whole = plain(run_folder.load(tmp_path / "whole"))
    finished = [line[1] for line in lives if line[0] == "finished"]
    assert finished
    for name in finished:
        xr.testing.assert_identical(plain(run_folder.load(tmp_path / name)), whole)
        log = log_file.read(tmp_path / name)
        places = [(record["wave"], record["chunk"], record["rate"]) for record in log]
        assert places == sorted(set(places)) and len(places) == 3 * 61 * 2


def plain(result):
    return result.drop_attrs().drop_vars("seconds").assign_attrs(num_params=result.attrs["num_params"])
