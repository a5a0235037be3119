"""Real processes on the loopback address share one run."""

import inspect
import json
import mmap
import signal
import socket
import time

import jax
import jax.numpy as jnp
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


class Unpicklable(ValueError):
    """Pickled it is; but it cannot be made again of its message alone."""

    def __init__(self, folder, reason):
        super().__init__(f"{folder}: {reason}")


def fails():
    raise Unpicklable("a", "disk full")


@pytest.fixture
def network(monkeypatch):
    """Two processes, played one after the other: the second hears what the first said; sizes as JAX keeps them."""
    said, me = [], []

    def broadcast(value):
        if me[-1] == 0:
            said.append(np.asarray(jnp.asarray(value)))
            return said[-1]
        expected = said.pop(0)
        assert value.shape == expected.shape and value.dtype == expected.dtype
        return expected

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "process_index", lambda: me[-1])
    monkeypatch.setattr(processes.multihost_utils, "broadcast_one_to_all", broadcast)
    return me.append


@pytest.mark.parametrize(
    ("work", "error"),
    [(fails, "^Unpicklable: a: disk full$"), (lambda: lambda: 0, "pickle"), (lambda: 1 / 0, "division by zero")],
)
def test_errors_of_the_first_process_arrive_even_if_they_or_values_cannot_be_pickled(network, work, error):
    for process, todo in enumerate((work, pytest.fail)):
        network(process)
        with pytest.raises(Exception, match=error) as caught:
            processes.on_first(todo)
        assert (work is not fails) == (type(caught.value) is not RuntimeError)


def test_values_of_the_first_process_arrive(network):
    for process, todo in enumerate((lambda: {"rounds": [1, 2]}, pytest.fail)):
        network(process)
        assert processes.on_first(todo) == {"rounds": [1, 2]}


@pytest.mark.parametrize("size", [2**31 + 5, 2**32 + 7])
def test_sizes_of_2_gib_and_more_are_sent(monkeypatch, size):
    """No such content is made: pages of zeros that nobody reads take no memory."""
    said = []

    def broadcast(value):
        said.append(value)
        return np.asarray(jnp.asarray(said[0])) if value.size == 2 else np.zeros(3, np.uint8)

    monkeypatch.setattr(processes.multihost_utils, "broadcast_one_to_all", broadcast)
    for first, own in ((True, mmap.mmap(-1, size)), (False, b"")):
        monkeypatch.setattr(processes, "is_first", lambda first=first: first)
        assert inspect.unwrap(processes._from_first)(own) == bytes(3)
        assert said[-1].shape == (size,) and said[-1].dtype == np.uint8


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
