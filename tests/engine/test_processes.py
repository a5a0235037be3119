"""Real processes on the loopback address share one run."""

import json
import signal
import socket
import time

import jax
import numpy as np
import pytest
import xarray as xr

from children import Child, command
from fedjax_priv.engine import processes
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.runs.records import log_file, run_folder
from helpers import mesh_of, targets

ROUNDS = 120
RUN = (
    "run", "fedavg", "--num-clients", "8", "--dropout", "0.2", "--momentum", "0.5", "--carry-momentum",
    "--model", "softmax", "--every", "2",
)  # fmt: skip


def start(folder, *more, devices):
    options = ["--folder", folder, "--rounds", ROUNDS, *more]
    config = {"jax_num_cpu_devices": devices, "jax_cpu_collectives_implementation": "gloo"}
    return Child(command, *RUN, *options, **config)


def start_two(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    share = ("--coordinator", address, "--num-processes", 2, "--process-id")
    return [start(folder, *share, i, devices=1) for i in range(2)]


def plain(folder):
    return run_folder.load(folder).drop_attrs().drop_vars("seconds")


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A run of one process with two devices."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    start(folder, devices=2).ended()
    return plain(folder)


def test_two_processes_are_one_run_with_the_same_bits(tmp_path, one):
    first, second = start_two(tmp_path / "two")
    assert "fedavg" in first.ended()[0]
    assert "fedavg" not in second.ended()[0]  # the first process alone prints
    xr.testing.assert_identical(plain(tmp_path / "two"), one)
    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text())
    assert manifest["processes"] == 2 and manifest["num_devices"] == 2


def test_a_signal_to_one_process_stops_both_and_one_goes_on(tmp_path, one):
    """It has the devices of both, and comes to the same bits."""
    folder = tmp_path / "two"
    both, log = start_two(folder), folder / "log.jsonl"
    deadline = time.monotonic() + 200
    while not (log.exists() and len(log.read_text().splitlines()) > 2):
        assert time.monotonic() < deadline
        for process in both:
            assert process.status() is None, process.ended()
        time.sleep(0.02)
    both[1].send_signal(signal.SIGTERM)
    for process in both:
        process.ended(128 + signal.SIGTERM)
    assert 2 <= log_file.read(folder)[-1]["round"] < ROUNDS
    start(folder, "--resume", devices=2).ended()
    xr.testing.assert_identical(plain(folder), one)
    assert [record["round"] for record in log_file.read(folder)] == [*range(0, ROUNDS + 1, 2)]


def test_rows_of_a_process():
    assert processes.clients_of_process(16) == slice(0, 16)
    assert processes.clients_of_process(6, clients_mesh(jax.devices()[:3])) == slice(0, 6)
    with pytest.raises(ValueError, match="num_clients must be a multiple of the number of devices = 8, got 9"):
        processes.clients_of_process(9)
    data = jax.tree.map(np.asarray, targets(8, 3))
    whole = processes.distribute(data, 8, mesh_of(4))
    assert [shard.data.shape for shard in whole.examples.addressable_shards] == [(2, 3)] * 4
    jax.tree.map(np.testing.assert_array_equal, whole, data)
    with pytest.raises(ValueError, match="own must hold this process's clients, 0 to 7, got 4"):
        processes.distribute(jax.tree.map(lambda a: a[:4], data), 8)
