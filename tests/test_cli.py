import json

import jax
import jax.numpy as jnp
import pytest

from fedjax_priv import bench, cli, demo
from fedjax_priv.demo import NUM_CLIENTS
from fedjax_priv.layers import plain_field
from fedjax_priv.simulation import simulate
from fedjax_priv.systems import secagg
from helpers import targets, towards_target


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["fedjax-priv", *map(str, arguments)])
    cli.main()


def test_demo_writes_a_table_and_a_figure(monkeypatch, capsys, tmp_path):
    """Two rounds of fewer clients: the secure sums are exact, and what is lost or not selected is not uploaded."""
    n = 20
    monkeypatch.setattr(demo, "NUM_CLIENTS", n)
    run(monkeypatch, "demo", "--rounds", 2, "--out", tmp_path / "new" / "folder", "--json", tmp_path / "table.json")
    fedavg, secagg, lost, sparse = json.loads((tmp_path / "table.json").read_text())
    assert json.loads((tmp_path / "new" / "folder" / "demo.json").read_text()) == [fedavg, secagg, lost, sparse]
    assert (tmp_path / "new" / "folder" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (secagg["difference"], lost["difference"], sparse["difference"]) == (0, 0, 0)
    assert fedavg["difference"] is None
    params = 64 * 64 + 64 + 64 * 10 + 10
    assert fedavg["up_bytes"] == 4 * (params + 1)
    assert secagg["up_bytes"] == 4 * params + 8 + 16 * (n - 1) + 8 * n
    assert 0.4 * fedavg["up_bytes"] < lost["up_bytes"] < fedavg["up_bytes"]
    assert sparse["up_bytes"] < 0.5 * lost["up_bytes"]
    assert all(row["status"] == "ok" for row in (fedavg, secagg, lost, sparse))
    printed = capsys.readouterr().out
    assert "SecAgg, 30% lost" in printed


def test_the_difference_of_a_broken_secure_sum_shows():
    """The control of the demo's last column: a twin that sums other updates."""
    data, key = targets(6, 5), jax.random.key(0)
    system = lambda **how: secagg(towards_target(), num_clients=6, levels=2.0**20, mesh=None, **how)
    measure = lambda twin: demo.largest_difference(system(), twin, key, jnp.zeros(5), data, 3)
    assert measure(system(secure_sum=plain_field())) == 0
    assert measure(system(secure_sum=plain_field(), dropout=0.5)) > 1


def test_the_demo_s_twins_sum_in_the_clear():
    data = targets(NUM_CLIENTS, 5)
    whole = {"model", "advertise", "share", "upload", "unmask"}
    for system, twin in demo._systems(towards_target()).values():
        for algorithm, phases in ((system, whole), (twin, whole if twin and twin.caveats else {"model", "upload"})):
            if twin is not None:
                state = jax.eval_shape(algorithm.init, jax.random.key(0), jnp.zeros(5), data)
                assert jax.eval_shape(algorithm.step, jax.random.key(0), state, data)[1].bits.keys() == phases
                assert not system.caveats


def test_a_row_of_the_demo_is_what_the_run_left():
    system = secagg(towards_target(), num_clients=6, dropout=0.45, mesh=None)
    evaluate = lambda params: {"accuracy": params.sum()}
    result = simulate(system, jax.random.key(1), jnp.zeros(10), targets(6, 10), rounds=8, evaluate=evaluate, every=4)
    row, failed = demo._row("name", result, 0.0), int((result.status > 0).sum())
    assert 0 < failed < 8
    assert row.status == f"{failed} failed: too few survivors to recover the sum"
    assert row.accuracy == float(result.params.values.sum())
    assert row.seconds == float(result.seconds[-1]) / 8
    assert row.down_bytes > 4 * 10 > row.up_bytes - 8 - 16 * 5 - 8 * 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--rounds", "0"], "rounds must be an integer >= 1, got 0"),
        (["demo", "--seed", "-1"], "seed must be an integer >= 0, got -1"),
        (["bench", "--repeats", "0"], "repeats must be an integer >= 1, got 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(monkeypatch, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"fedjax-priv: {message}\n"


def test_a_place_that_cannot_be_written_is_refused_before_the_work(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SystemExit):
        run(monkeypatch, "demo", "--out", tmp_path / "file")
    assert str(tmp_path / "file") in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(monkeypatch, "demo", "--json", tmp_path / "missing" / "table.json", "--out", tmp_path / "out")
    assert "missing" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_bench_counts_the_work_it_times():
    """Multiply-accumulates of the CNN against those of its parameters, by hand."""
    small = bench.Work("w", None, macs=10, clients=2, steps=3, batch=5)
    assert small.flops == 6 * 10 * 2 * 3 * 5
    assert bench._cnn_macs() == 627_200 + 10_035_200 + 1_605_632 + 5_120
