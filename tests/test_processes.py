"""Real processes on the loopback address share one run."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import processes, store
from fedjax_priv.blocks import clients_mesh
from helpers import mesh_of, targets

ROOT = pathlib.Path(__file__).parent.parent
ROUNDS = 200
RUN = (
    "run", "fedavg", "--num-clients", "8", "--dropout", "0.2", "--momentum", "0.5", "--carry-momentum",
    "--model", "softmax", "--every", "2",
)  # fmt: skip


def start(folder, *more, devices):
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }  # fmt: skip
    command = [sys.executable, "-c", "from fedjax_priv.cli import main; main()", *RUN]
    options = ["--folder", str(folder), "--rounds", str(ROUNDS), *map(str, more)]
    return subprocess.Popen(
        [*command, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def start_two(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    share = ("--coordinator", address, "--num-processes", 2, "--process-id")
    return [start(folder, *share, i, devices=1) for i in range(2)]


def ended(process, status=0):
    out, err = process.communicate(timeout=200)
    assert process.returncode == status, err
    return out, err


def plain(folder):
    return store.load(folder).drop_attrs().drop_vars("seconds")


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A run of one process with two devices."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    ended(start(folder, devices=2))
    return plain(folder)


def test_two_processes_are_one_run_with_the_same_bits(tmp_path, one):
    first, second = start_two(tmp_path / "two")
    assert "fedavg" in ended(first)[0]
    assert "fedavg" not in ended(second)[0]  # the first process alone prints
    xr.testing.assert_identical(plain(tmp_path / "two"), one)
    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text())
    assert manifest["processes"] == 2 and manifest["num_devices"] == 2


def test_a_signal_to_one_process_stops_both_and_one_goes_on(tmp_path, one):
    """It has the devices of both, and comes to the same bits."""
    folder = tmp_path / "two"
    both, log = start_two(folder), folder / "log.jsonl"
    while not (log.exists() and len(log.read_text().splitlines()) > 2):
        assert all(process.poll() is None for process in both), [process.communicate() for process in both]
        time.sleep(0.02)
    both[1].send_signal(signal.SIGTERM)
    for process in both:
        ended(process, 128 + signal.SIGTERM)
    assert 2 <= store.read_log(folder)[-1]["round"] < ROUNDS
    ended(start(folder, "--resume", devices=2))
    xr.testing.assert_identical(plain(folder), one)
    assert [record["round"] for record in store.read_log(folder)] == [*range(0, ROUNDS + 1, 2)]


def test_rows_of_a_process():
    assert processes.clients_of_process(16) == slice(0, 16)
    assert processes.clients_of_process(6, clients_mesh(jax.devices()[:3])) == slice(0, 6)
    with pytest.raises(ValueError, match="num_clients must be a multiple of the number of devices = 8, got 9"):
        processes.clients_of_process(9)
    data = jax.tree.map(np.asarray, targets(8, 3))
    whole = processes.distribute(data, 8, mesh_of(4))
    assert [shard.data.shape for shard in whole.examples.addressable_shards] == [(2, 3)] * 4
    jax.tree.map(np.testing.assert_array_equal, whole, data)
    with pytest.raises(ValueError, match="own must hold clients 0 to 7 of this process, got 4"):
        processes.distribute(jax.tree.map(lambda a: a[:4], data), 8)
