import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from children import command
from fedjax_priv.audit import Finding, sending
from fedjax_priv.cli import bench, main
from fedjax_priv.cli.demo import demo_command, table
from fedjax_priv.cli.demo.case_table import Size, cases, turned
from fedjax_priv.cli.demo.compare import largest_difference, updates
from fedjax_priv.layers import plain_field
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import secagg
from helpers import cohort_of, targets, towards_target


def test_what_a_user_lacks_is_one_line_and_what_we_break_is_not():
    missing = ImportError("key_agreement='x25519' needs cryptography")
    broken = ImportError("cannot import name 'x' from 'fedjax_priv.base'", name="fedjax_priv.base")
    told = [main._is_of_the_input(error) for error in (missing, ValueError(), OSError(), broken, TypeError())]
    assert told == [True, True, True, False, False]


def test_demo_writes_a_table_and_a_figure(monkeypatch, capsys, tmp_path):
    """A round of two systems, with fewer clients; `.ci/wheel` runs the whole demo."""
    n, params, names = 20, 64 * 32 + 32 + 32 * 10 + 10, ("wireless, p = 0.9", "CDP-FL")
    monkeypatch.setattr(demo_command, "cases", lambda *size: {name: cases(*size)[name] for name in names})
    monkeypatch.setattr(
        demo_command, "demo", functools.partial(demo_command.demo, size=Size(n, byzantine=2, compared=1, trials=20))
    )
    command("demo", "--rounds", 1, "--out", tmp_path / "new" / "folder", "--json", tmp_path / "table.json")
    rows = json.loads((tmp_path / "table.json").read_text())
    assert json.loads((tmp_path / "new" / "folder" / "demo.json").read_text()) == rows
    assert (tmp_path / "new" / "folder" / "demo.png").read_bytes().startswith(b"\x89PNG")
    air, noisy = rows
    assert air["difference"] is None and noisy["difference"] == 0
    assert (air["up_bytes"], air["channel_uses"]) == (0, params)
    assert (noisy["up_bytes"], noisy["channel_uses"]) == (4 * params, 0)
    assert all(0 <= row["at_least"] < row["limit"] for row in rows)
    assert air["claimed"] > air["proved"] and noisy["claimed"] < noisy["proved"]
    assert all(row["status"] == "ok" and row["verdict"].startswith("not testable") for row in rows)
    assert "wireless, p" in capsys.readouterr().out


def test_the_difference_of_a_broken_secure_sum_shows():
    """The control of the demo's last column: a twin that sums other updates."""
    data, key = targets(6, 5), jax.random.key(0)
    system = lambda **how: secagg(sending(data.examples), num_clients=6, levels=2.0**20, mesh=None, **how)
    measure = lambda twin: largest_difference(system(elide=True), twin, key, jnp.zeros(5), data, 3)
    assert measure(system(secure_sum=plain_field())) == 0
    assert measure(system(secure_sum=plain_field(), dropout=0.5)) > 1e-6


def test_what_both_sums_are_given_is_one_training_of_the_clients():
    data, key = targets(6, 5), jax.random.key(0)
    sent = updates(towards_target(), key, jnp.ones(5), data)
    np.testing.assert_allclose(sent, 1 - np.asarray(data.examples), rtol=1e-6)


def test_the_demo_s_twins_sum_in_the_clear():
    local, data = towards_target(), targets(20, 40)
    for case in cases(40, Size(20, 2)).values():
        if case.twin is not None:
            system, twin = case.make(local), case.twin(local)
            assert not system.caveats or "elide" not in " ".join(system.caveats)
            assert twin.caveats != system.caveats or phases(system, data) > phases(twin, data)


def phases(algorithm, data):
    state = jax.eval_shape(algorithm.init, jax.random.key(0), jnp.zeros(40), data)
    return {*jax.eval_shape(algorithm.step, jax.random.key(0), state, data)[1].bits}


def test_byzantine_clients_of_the_demo_send_their_updates_turned():
    """Which clients they are is known by their numbers, in any block."""
    data, numbers = targets(20, 5), np.random.default_rng(0).permutation(20)
    who = cohort_of(20)._replace(client=jnp.asarray(numbers, jnp.int32))
    sent = lambda local: local.apply(jax.random.key(0), (), jnp.zeros(5), data, who)[0]
    factor = np.where(numbers[:, None] < 7, -10, 1)
    turned_over = sent(turned(towards_target(), -10.0, 7))
    np.testing.assert_allclose(turned_over, factor * np.asarray(sent(towards_target())), rtol=1e-6)


def test_a_row_of_the_demo_is_what_the_run_left():
    system = secagg(towards_target(), num_clients=6, dropout=0.45, mesh=None, elide=True)
    evaluate = lambda params: {"accuracy": params.sum()}
    result = simulate(system, jax.random.key(1), jnp.zeros(10), targets(6, 10), rounds=8, evaluate=evaluate, every=4)
    found = Finding("", "", "", None, None, 3.5, 1e-5, 0.95, 3.6, "", [], [], {})
    row, failed = table.row("name", result, result, found, 0.0), int((result.status > 0).sum())
    assert 0 < failed < 8
    assert row.status == f"{failed} failed: too few survivors to recover the sum"
    assert row.failed_rounds == failed
    assert row.accuracy == float(result.params.values.sum())
    assert (row.claimed, row.at_least, row.limit, row.channel_uses) == (None, 3.5, 3.6, 0)
    assert row.down_bytes > 4 * 10 > row.up_bytes - 8 - 16 * 5 - 8 * 6


def test_a_demo_in_which_every_round_of_a_system_failed_fails(monkeypatch, capsys, tmp_path):
    row = table.Row("bad", 0.1, 0.1, 0.0, 0.0, 0.0, None, None, 0.0, 1.0, "stands", None, 2, "2 failed: a value")
    monkeypatch.setattr(demo_command, "demo", lambda *_: [row, row._replace(system="good", failed_rounds=1)])
    with pytest.raises(SystemExit) as stopped:
        command("demo", "--rounds", 2, "--json", tmp_path / "table.json")
    assert stopped.value.code == 1 and (tmp_path / "table.json").is_file()
    said = "fedjax-priv: every round of 1 of 2 systems failed: bad, 2 failed: a value\n"
    assert capsys.readouterr().err == said


def test_a_place_that_cannot_be_written_is_refused_before_the_work(capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SystemExit):
        command("demo", "--out", tmp_path / "file")
    assert str(tmp_path / "file") in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command("demo", "--json", tmp_path / "missing" / "table.json", "--out", tmp_path / "out")
    assert "missing" in capsys.readouterr().err
    for option in ("--json", "--out"):  # where nobody can make a file
        with pytest.raises(SystemExit):
            command("demo", option, "/proc/table.json" if option == "--json" else "/proc")
        said = capsys.readouterr().err
        assert "cannot write in the folder" in said and said.endswith(": '/proc'\n")
    assert (tmp_path / "file").read_text() == "mine"


def test_bench_counts_the_work_it_times():
    """Multiply-accumulates of the CNN against those of its parameters, by hand."""
    small = bench.Work("w", None, macs=10, clients=2, steps=3, batch=5)
    assert small.flops == 6 * 10 * 2 * 3 * 5
    assert bench.CNN_MACS == 627_200 + 10_035_200 + 1_605_632 + 5_120
