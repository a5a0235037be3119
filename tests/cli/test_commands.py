import itertools
import json
import re
import shlex
import signal
import time

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from children import Child, command, help_alone, refused_command
from fedjax_priv import data, models, systems
from fedjax_priv.cli import commands
from fedjax_priv.keys import named
from fedjax_priv.runs import waves
from fedjax_priv.runs.records import log_file, run_folder
from fedjax_priv.runs.records.run_list import summaries

SMALL = ["--num-clients", "8", "--model", "softmax", "--no-exact", "--num-steps", "1", "--every", "1"]
DIGITS = data.digits()


def accuracy(params):
    """Of softmax regression, whose parameters are the bias and then the weights, in NumPy."""
    bias, weights = params[:10], params[10:].reshape(64, 10)
    guess = (DIGITS.x_test.reshape(-1, 64) @ weights + bias).argmax(1)
    return (guess == DIGITS.y_test).mean()


def initial(key):
    return ravel_pytree(models.softmax_regression((8, 8, 1), 10).init(named(key, "params")))[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of two rounds, and the table it printed."""
    place = tmp_path_factory.mktemp("run")
    command("run", "fedavg", *SMALL, "--rounds", 2, "--folder", place / "kept", "--json", place / "table.json")
    return place / "kept"


def test_a_run_leaves_its_folder_and_its_table(folder):
    (row,) = json.loads((folder.parent / "table.json").read_text())
    result, manifest = run_folder.load(folder), run_folder.read_manifest(folder)
    assert row["metrics"]["accuracy"] == pytest.approx(accuracy(result.params.values))
    assert (row["system"], row["rounds"], row["failed_rounds"], row["folder"]) == ("fedavg", 2, 0, str(folder))
    assert row["up_bytes"] == 4 * (650 + 1) and row["down_bytes"] == 4 * 650
    assert {"system": "fedavg", "model": "softmax", "num_steps": 1, "seed": 0, "rounds": 2}.items() <= manifest.items()
    assert not manifest.keys() & {"folder", "json", "resume", "data_dir", "coordinator"}


def test_a_run_that_is_there_is_read_or_refused_but_never_lost(folder, capsys):
    same = ["run", "fedavg", *SMALL, "--rounds", 2, "--folder", folder]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "is not empty: choose another name, or resume" in refused_command(capsys, *same)
    other = refused_command(capsys, *same, "--resume", "--learning-rate", 0.2)
    assert "holds another run and cannot be resumed: learning_rate is 0.2, was 0.1\n" in other
    command(*same, "--resume")
    assert f"{accuracy(run_folder.load(folder).params.values):.4g}" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_runs_are_listed(folder, capsys, tmp_path):
    command("list", folder.parent, "--json", tmp_path / "list.json")
    assert "kept    fedavg  finished  2/2" in capsys.readouterr().out
    (entry,) = json.loads((tmp_path / "list.json").read_text())
    assert (entry["folder"], entry["status"], entry["rounds"]) == (str(folder), "finished", 2)
    assert "root must be a folder, got missing" in refused_command(capsys, "list", "missing")


def test_a_sweep_runs_each_point_with_its_values(capsys, tmp_path):
    """One full-batch step from the same parameters: twice the rate goes twice as far."""
    axes = ["--axis", "learning-rate=0.5,0.25", "--axis", "seed=3,4"]
    table = tmp_path / "table.json"
    once = [*SMALL, "--batch-size", 180, "--rounds", 1, "--folder", tmp_path / "kept", "--json", table]
    command("sweep", "fedavg", *once, *axes)
    rows, params = json.loads(table.read_text()), run_folder.load(tmp_path / "kept").params
    points = [{"learning_rate": rate, "seed": seed} for rate, seed in itertools.product((0.5, 0.25), (3, 4))]
    assert [row["point"] for row in rows] == points
    for row in rows:
        assert row["metrics"]["accuracy"] == pytest.approx(accuracy(params.sel(row["point"]).values), abs=3e-3)
    for seed in (3, 4):
        start = initial(jax.random.fold_in(jax.random.key(0), seed))
        full, half = (params.sel(learning_rate=rate, seed=seed).values - start for rate in (0.5, 0.25))
        assert np.abs(full).max() > 1e-3
        np.testing.assert_allclose(half, full / 2, atol=1e-6)
    assert len([line for line in capsys.readouterr().out.splitlines() if " ± " in line]) == 2
    (entry,) = summaries(tmp_path)
    assert (entry.runs, entry.rounds, entry.rounds_done, entry.metrics) == (4, 4, 4, {}), "no point stands for all"


def test_an_axis_that_shapes_depend_on_is_compiled_value_by_value(capsys, tmp_path):
    """A tenth of the coordinates sends less than a half of them; without `--static` another system's is refused."""
    table = tmp_path / "table.json"
    shared = [word for word in SMALL if word != "--no-exact"]
    sparse = ["sweep", "sparse_secagg", *shared, "--elide", "--rounds", 1, "--axis", "alpha=0.1,0.5"]
    said = refused_command(capsys, *sparse, "--folder", tmp_path / "a")
    assert "alpha must be a number known before" in said and said.endswith("got a tracer; add --static alpha\n")
    sweep = ["sweep", "rcgd_ef", *shared, "--rounds", 1, "--axis", "ratio=0.1,0.5"]
    command(*sweep, "--static", "ratio", "--folder", tmp_path / "b", "--json", table)
    few, many = json.loads(table.read_text())
    assert few["point"] == {"ratio": 0.1} and few["up_bytes"] < 0.5 * many["up_bytes"]


@pytest.mark.parametrize(
    ("axes", "hint"),
    [({"ratio": [0.1]}, "--static ratio"), ({"learning_rate": [1], "k": [2]}, "--static learning-rate or --static k")],
)
def test_every_axis_that_may_have_to_be_static_is_named(axes, hint):
    """JAX does not say of which axis a value is that a program branches on."""
    said = pytest.raises(ValueError, match=rf"^axes must be in static .* as traced values; add {hint}$")
    with said, commands._hint_of_static([*axes, "seed"]), waves._named(axes):
        jax.jit(lambda value: 1 if value else 2)(1.0)


def test_a_rule_and_an_attack_are_chosen_by_name(tmp_path):
    """Two of eight clients send -4 times the mean h of the others: their mean is (6 - 8) h / 8, at 0 times 6 h / 8."""
    steps = [word for word in SMALL if word != "--no-exact"]
    sweep = ["sweep", "robust_fedavg", *steps, "--batch-size", 180, "--rounds", 1, "--num-byzantine", 2]
    axes = ["--axis", "aggregate=mean,trimmed_mean", "--axis", "attack-scale=0,4"]
    command(*sweep, "--attack", "foe", *axes, "--folder", tmp_path / "kept")
    moved = run_folder.load(tmp_path / "kept").params - np.asarray(initial(jax.random.key(0)))
    alone, attacked = (moved.sel(aggregate="mean", attack_scale=scale).values for scale in (0.0, 4.0))
    assert np.abs(alone).max() > 1e-3
    np.testing.assert_allclose(attacked, -alone / 3, atol=1e-6)
    robust = moved.sel(aggregate="trimmed_mean", attack_scale=4.0).values
    assert robust @ alone > 0.5 * alone @ alone


@pytest.fixture
def asked(monkeypatch, folder):
    """Arguments `simulate` is called with, in place of a run that ends early."""
    calls = []

    def simulate(*args, **kwargs):
        calls.append((args, kwargs))
        return run_folder.load(folder).drop_vars("mechanism").assign_attrs(interrupted=1)

    monkeypatch.setattr(commands, "simulate_kept", simulate)
    return calls


def test_options_reach_the_run(asked, tmp_path):
    options = ["--rounds", 7, "--every", 3, "--seed", 5, "--checkpoint-every", 6, "--resume", "--folder", tmp_path]
    with pytest.raises(SystemExit):
        command("run", "secagg", *options, "--num-clients", 9, "--hidden", 3, 4, "--dropout", 0.25)
    (_, key, params, clients), kwargs = asked.pop()
    assert jax.random.key_data(key).tolist() == jax.random.key_data(jax.random.key(5)).tolist()
    wanted = models.mlp((8, 8, 1), 10, hidden=(3, 4)).init(named(key, "params"))
    assert np.array_equal(ravel_pytree(params)[0], ravel_pytree(wanted)[0])
    assert len(clients.count) == 9
    assert (kwargs["rounds"], kwargs["every"]) == (7, 3)
    folder, every, resume, config = kwargs["keep"]
    assert (folder, every, resume) == (tmp_path, 6, True)
    assert {"system": "secagg", "dropout": 0.25, "hidden": "3 4", "seed": 5}.items() <= config.items()


def test_what_ctrl_c_ended_says_how_it_goes_on(monkeypatch, asked, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        command("run", "fedavg", "--learning-rate", 0.5, "--json", "a b.json")
    assert stopped.value.code == 130
    said = shlex.split(capsys.readouterr().err.partition("resume with: ")[2])
    place = asked.pop()[1]["keep"].folder
    assert re.fullmatch(r"results/fedavg-2\d{7}-\d{6}-\d{3}", str(place)), "to the millisecond"
    assert said[:-3] == ["fedjax-priv", "run", "fedavg", "--learning-rate", "0.5", "--json", "a b.json"]
    assert said[-3:] == ["--folder", str(place), "--resume"]
    assert not (tmp_path / "a b.json").exists(), "else the command that was printed would be refused"


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (OSError(28, "No space left"), 2)])
def test_a_run_that_is_broken_off_is_one_line(monkeypatch, capsys, error, code, tmp_path):
    def simulate(*_, **__):
        raise error

    monkeypatch.setattr(commands, "simulate_kept", simulate)
    with pytest.raises(SystemExit) as stopped:
        command("run", "fedavg", "--folder", tmp_path)
    assert stopped.value.code == code
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "fedavg", "--resume"], "folder must be given with resume"),
        (["run", "fedavg", "--coordinator", "x:1"], "coordinator, num_processes, process_id must be given together"),
        (["run", "fedavg", "--json", "missing/table.json"], "json must be a file in a folder that exists"),
        (["run", "fedavg", "--num-clients", "0"], "num_clients must be an integer >= 1, got 0"),
        (["run", "fedavg", "--dropout", "1.5"], "dropout must be a number in [0, 1), got 1.5"),
        (
            ["run", "fedavg", "--dataset", "mnist", "--data-dir", "missing"],
            "no mnist in array_record format under missing",
        ),
        (["run", "fedavg", "--rounds", str(2**31)], "rounds must be below 2**31, got 2147483648\n"),
        (
            ["sweep", "fedavg", "--momentum", "0.5", "--axis", "momentum=0,0.9"],
            "momentum must not be given with an axis of that name, got 0.5\n",
        ),
        (["sweep", "fedavg"], "axis must be given, as NAME=VALUE,VALUE,..."),
        (["sweep", "secagg", "--axis", "num-clients=3,4"], "axis must not change data, model or rounds"),
        (["sweep", "fedavg", "--axis", "hidden=3"], "axis must not change data, model or rounds"),
        (["sweep", "fedavg", "--axis", "dropout=0.1,x"], "dropout must be a number, got 'x'"),
        (
            ["run", "robust_fedavg", "--attack", "foe"],
            "num_byzantine must be at least 1 with attack, got 0",
        ),
        (["demo", "--rounds", "0"], "rounds must be an integer >= 1, got 0\n"),
        (["demo", "--seed", "-1"], "seed must be an integer >= 0, got -1\n"),
        (["bench", "--repeats", "0"], "repeats must be an integer >= 1, got 0\n"),
        (["sweep", "fedavg", "--axis", "levels=1"], "axis must be one of cohort_size, dropout, exact, block,"),
        (
            ["sweep", "robust_fedavg", "--num-byzantine", "40", "--axis", "aggregate=krum,mda"],
            "num_byzantine must give at most 50000 subsets of the 100 rows to try, got 40",
        ),
        (
            ["sweep", "fedavg", "--num-clients", "3", "--axis", "cohort-size=2,4"],
            "size (cohort_size of a system) must be at most the number of clients, 3, got 4",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    said = refused_command(capsys, *arguments)
    assert said.startswith(f"fedjax-priv: {message}") and said.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_a_run_without_a_good_round_fails_and_says_why(capsys, tmp_path):
    """A learning rate at which no update fits the sum; the other run of the sweep is well."""
    tiny = ["--num-clients", 2, "--model", "softmax", "--batch-size", 700, "--rounds", 1, "--block", 2]
    with pytest.raises(SystemExit) as stopped:
        command("sweep", "fedavg", "--axis", "learning-rate=0.1,1e38", *tiny, "--folder", tmp_path / "run")
    assert stopped.value.code == 1
    said, printed = (
        "a value so large that the sum could leave its range; a value that is not finite\n",
        capsys.readouterr(),
    )
    assert printed.err == f"fedjax-priv: every round of 1 of 2 runs failed: {said}"
    assert f"failed: {said}" in printed.out


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_help_names_every_system(capsys, name):
    with pytest.raises(SystemExit):
        command(name, "--help")
    shown = capsys.readouterr().out
    assert all(f"• {system} " in shown for system in systems.__all__)


def test_sigterm_ends_a_run_that_goes_on_as_it_says(tmp_path):
    options = ["--rounds", 400, "--checkpoint-every", 200]
    first = Child(command, "run", "fedavg", *SMALL, *options, folder=tmp_path)
    deadline = time.monotonic() + 120
    while not any(len(log_file.read(entry.folder)) > 2 for entry in found(tmp_path)):
        assert first.status() is None and time.monotonic() < deadline
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    _, said = first.ended(143)
    (entry,) = found(tmp_path)
    assert entry.status == "unfinished" and 0 < entry.rounds_done < 400
    program, *again = shlex.split(said.partition("resume with: ")[2])
    assert program == "fedjax-priv"
    Child(command, *again, folder=tmp_path).ended()
    (entry,) = found(tmp_path)
    assert (entry.status, entry.rounds_done) == ("finished", 400)


def found(folder):
    return summaries(folder / "results") if (folder / "results").is_dir() else []


def test_reading_the_options_starts_no_device():
    assert "usage: fedjax-priv run secagg" in Child(help_alone, "run", "secagg").ended()[0]
