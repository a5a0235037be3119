"""The privacy of a run on the command line: eps of its rounds, its ledger, noise for an eps and rounds within one."""

import errno
import inspect
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from children import command, refused_command
from fedjax_priv import ledger
from fedjax_priv.base import ClientData
from fedjax_priv.cli import budget, commands
from fedjax_priv.cli.budget import LEDGER
from fedjax_priv.ledger.budget import BudgetRefused
from fedjax_priv.runs.records import atomic_file, run_folder
from fedjax_priv.theory import gaussian

SMALL = ["--num-clients", "8", "--model", "softmax", "--num-steps", "1", "--every", "1"]
OUTSIDER = "outsider, add/remove"
NOISY_STEPS = ["--batch-size", 1, "--sample-clip", 1, "--gradient-noise", 1]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run in which everyone takes part, and its table."""
    place = tmp_path_factory.mktemp("run")
    options = ["--noise-multiplier", 2, "--rounds", 3, "--delta", 1e-4]
    command("run", "dp_fedavg", *SMALL, *options, "--folder", place / "kept", "--json", place / "table.json")
    return place / "kept"


@pytest.fixture
def unrun(monkeypatch, tmp_path):
    """`unrun(*arguments)` is what a run would state, and its result: as planned."""
    made = {}

    def simulate(algorithm, key, params, data, *, rounds, keep, **_):
        plan = ledger.planned(algorithm, key, params, data, rounds)
        made["manifest"] = keep.config
        return plan.assign_attrs(interrupted=1)

    def spent(*args):
        made["result"] = of_run(*args)
        raise KeyboardInterrupt

    of_run = budget.spent
    monkeypatch.setattr(commands, "simulate_kept", simulate)
    monkeypatch.setattr(budget, "spent", spent)

    def run(*arguments):
        with pytest.raises(SystemExit):
            command("run", *arguments, "--folder", tmp_path / "kept")
        return made["manifest"], made["result"]

    return run


def test_eps_is_a_variable_of_the_result_and_in_its_row(kept):
    epsilon = run_folder.load(kept).epsilon
    expected = np.asarray(gaussian.epsilon(1e-4, np.sqrt([1, 2, 3]) / 2))
    np.testing.assert_allclose(epsilon.sel(adversary=OUTSIDER), expected, rtol=1e-9)
    assert np.isnan(epsilon.sel(adversary="server, replacement")).all()
    assert epsilon.attrs["delta"] == 1e-4 and epsilon.attrs["units"] == "1"
    (row,) = json.loads((kept.parent / "table.json").read_text())
    assert row["epsilon"][OUTSIDER] == pytest.approx(expected[-1]) and row["delta"] == 1e-4
    assert not [name for name in row["epsilon"] if "server" in name]


def test_a_finished_run_prints_its_ledger(kept, capsys, tmp_path):
    capsys.readouterr()
    command("ledger", kept, "--json", tmp_path / "ledger.json")
    printed = " ".join(capsys.readouterr().out.split())
    assert "Balle" in printed and "which adds the noise" in printed and "eps 3.21" in printed
    rows = json.loads((tmp_path / "ledger.json").read_text())
    assert rows == json.loads((kept / LEDGER).read_text())
    assert [row["proved_epsilon"] is None for row in rows] == [False, False, False, False, True]


def test_a_finished_run_is_read_again_as_it_is(kept, capsys):
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    capsys.readouterr()
    options = ["--noise-multiplier", 2, "--rounds", 3, "--delta", 1e-4]
    command("run", "dp_fedavg", *SMALL, *options, "--folder", kept, "--resume")
    assert "proved eps at delta 0.0001: outsider, add/remove 3.21;" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


def test_a_finished_run_of_which_nothing_is_proved_is_read_from_a_disk_that_cannot_be_written(
    monkeypatch, capsys, tmp_path
):
    run = ["run", "fedavg", *SMALL, "--rounds", 1, "--folder", tmp_path / "kept"]
    command(*run)

    def read_only(path, content):
        raise OSError(errno.EROFS, "Read-only file system", f"{path}.part")

    monkeypatch.setattr(atomic_file, "write", read_only)
    capsys.readouterr()
    command(*run, "--resume")
    assert "fedavg, 1 rounds" in capsys.readouterr().out
    place = tmp_path / "kept" / LEDGER
    place.unlink()
    said = refused_command(capsys, *run, "--resume")
    assert said == f"fedjax-priv: [Errno 30] cannot write the ledger, Read-only file system: '{place}'\n"


def test_a_ledger_that_was_cut_is_written_again(kept):
    before = (kept / LEDGER).read_bytes()
    (kept / LEDGER).write_bytes(before[:99])
    options = ["--noise-multiplier", 2, "--rounds", 3, "--delta", 1e-4]
    command("run", "dp_fedavg", *SMALL, *options, "--folder", kept, "--resume")
    assert (kept / LEDGER).read_bytes() == before


def test_a_folder_without_a_ledger_is_one_line(tmp_path, capsys):
    assert "is not the folder of a run" in refused_command(capsys, "ledger", tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    said = refused_command(capsys, "ledger", tmp_path)
    assert "writes it when a run has ended; points of a sweep have epsilon" in " ".join(said.split())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: "", "Expecting value: line 1 column 1 (char 0)"),
        (lambda rows: json.dumps(rows)[:-1], "Expecting ',' delimiter: line 1 column"),
        (lambda rows: json.dumps(rows[0]), "it holds no list of objects with adversary, view, adjacent"),
        (lambda rows: json.dumps([rows]), "it holds no list of objects with adversary"),
        (lambda rows: json.dumps([{**rows[0], "more": 1}]), "it holds no list of objects with adversary"),
        (lambda rows: json.dumps([*rows, {"adversary": "outsider"}]), "it holds no list of objects with adversary"),
        (lambda rows: json.dumps([{**rows[0], "proved_epsilon": "3"}]), "it holds no list of objects with adversary"),
    ],
    ids=["empty", "cut", "object", "lists", "more", "less", "text"],
)
def test_a_broken_ledger_is_one_line(kept, tmp_path, capsys, change, said):
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / LEDGER).write_text(change(json.loads((kept / LEDGER).read_text())))
    line = refused_command(capsys, "ledger", tmp_path)
    assert line.startswith(f"fedjax-priv: {tmp_path / LEDGER} is broken: {said}") and line.count("\n") == 1


def test_noise_is_chosen_for_a_target(tmp_path, capsys):
    place = tmp_path / "kept"
    command("run", "dp_fedavg", *SMALL, "--rounds", 3, "--target-epsilon", 2, "--folder", place)
    last = run_folder.load(place).epsilon.sel(adversary=OUTSIDER, round=3).item()
    assert 2 * (1 - 1e-3) < last <= 2
    manifest = run_folder.read_manifest(place)
    assert gaussian.epsilon(1e-5, np.sqrt(3) / manifest["noise_multiplier"]) == pytest.approx(2, rel=1e-3)
    assert manifest["target_epsilon"] == 2
    assert f"noise_multiplier {manifest['noise_multiplier']:g} is chosen for eps 2" in capsys.readouterr().err


def test_noise_in_steps_is_chosen_where_a_system_has_another_kind_too(unrun):
    """The other kind is off by default, and stays off."""
    manifest, result = unrun("compose", *SMALL, *NOISY_STEPS, "--rounds", 3, "--target-epsilon", 3)
    assert manifest.get("noise_variance") is None
    expected = gaussian.epsilon(result.epsilon.delta, 2 * np.sqrt(3) / manifest["gradient_noise"])
    assert 3 * (1 - 1e-3) < expected <= 3 * (1 + 1e-9)


def test_noise_of_uploads_is_chosen_where_steps_have_none():
    off = {"noise_variance": None, "gradient_noise": 0.0}
    assert budget._calibrated(off) == budget._calibrated(off | {"noise_variance": 1.0}) == "noise_variance"


def test_a_budget_is_for_the_adversary_that_is_named(unrun):
    arguments = [*SMALL, "--rounds", 3, "--target-epsilon", 2, "--against", "outsider, replacement"]
    _, result = unrun("dp_fedavg", *arguments)
    last = result.epsilon.isel(round=2)
    assert 2 * (1 - 1e-3) < last.sel(adversary="outsider, replacement").item() <= 2
    assert last.sel(adversary=OUTSIDER).item() < 1  # control: the adversary that a budget is about by default


def test_a_run_stops_at_its_budget(unrun):
    """Two rounds of z = 2 are within 3.5, three are not."""
    assert gaussian.epsilon(1e-5, np.sqrt(2) / 2) < 3 < gaussian.epsilon(1e-5, np.sqrt(3) / 2)
    _, result = unrun("dp_fedavg", *SMALL, "--noise-multiplier", 2, "--rounds", 9, "--stop-at-epsilon", 3)
    assert result.sizes["round"] == 2 and result.epsilon.sel(adversary=OUTSIDER, round=2).item() <= 3


def test_uploads_lost_before_noise_of_the_server_spend_less(unrun):
    """Clients of FedBuff add no noise, so none is lost; whose updates do not arrive pays nothing."""
    options = ["--buffer-size", 2, "--noise-multiplier", 2, "--clip", 1, "--dropout", 0.5, "--rounds", 9]
    _, result = unrun("fedbuff", *SMALL, *options, "--stop-at-epsilon", 6)
    spent = result.epsilon.sel(adversary="device, zero-out").isel(round=-1)
    drawn, arrived = result.client_id.values, result.up_bytes.sel(phase="upload").values > 0
    of = lambda who: gaussian.epsilon(result.epsilon.delta, np.sqrt(np.bincount(who).max()) / 2)
    assert 0 < spent <= of(drawn[arrived]) < of(drawn.ravel())


@pytest.mark.parametrize(
    "arguments", [["secagg", "--clip", 1, "--levels", 256], ["cdp_fl", *NOISY_STEPS, "--against", "server"]]
)
def test_uploads_lost_take_noise_along(arguments, unrun):
    """A budget counts on the noise of those that arrive."""
    _, result = unrun(*arguments, *SMALL, "--dropout", 0.3, "--rounds", 2, "--target-epsilon", 8)
    assert (result.up_bytes.sel(phase="upload") == 0).any()
    assert 8 * (1 - 1e-3) < result.epsilon[0, -1] <= 8 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "option", "distance"),
    [
        (["robajol"], "noise_multiplier", 2 * np.sqrt(3)),
        (["cdp_fl", *NOISY_STEPS, "--against", "everybody"], "gradient_noise", 2 * np.sqrt(3)),
        (["fedavg", *NOISY_STEPS], "gradient_noise", 2 * np.sqrt(3)),
    ],
)
def test_uploads_lost_leave_what_is_seen_of_each_alone(arguments, option, distance, unrun):
    """The noise is the same as without losses: three Gaussian mechanisms of a client, whoever is lost."""
    manifest, result = unrun(*arguments, *SMALL, "--dropout", 0.4, "--rounds", 3, "--target-epsilon", 3)
    assert (result.up_bytes.sel(phase="upload") == 0).any()
    expected = gaussian.epsilon(result.epsilon.delta, distance / manifest[option])
    assert 3 * (1 - 1e-3) < expected <= 3 * (1 + 1e-9)
    in_steps = option == "gradient_noise"
    about = "everybody, replacement of a sample" if in_steps else "server, replacement"
    assert result.epsilon.sel(adversary=about)[-1].item() == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dp_fedavg", "--stop-at-epsilon", 0.1], "stop_at_epsilon must allow a round, whose eps is"),
        (
            ["fedavg", "--target-epsilon", 1],
            "target_epsilon must be for a system with a proved figure: gradients of samples are not",
        ),
        (
            ["fedavg", "--stop-at-epsilon", 1],
            "stop_at_epsilon must be for a system with a proved figure: no noise is added",
        ),
        (["dp_fedavg", "--stop-at-epsilon", 1, "--target-epsilon", 1], "stop_at_epsilon must not be given with target"),
        (["secagg", "--clip", 1, "--target-epsilon", 9], "noise_variance must be at most 2**28 squared grid points"),
        (
            ["dp_fedavg", "--target-epsilon", 1, "--against", "boss"],
            "against must be one of outsider, device, server, 'outsider, add/remove', 'outsider, replacement', ",
        ),
        (
            ["dp_fedavg", "--stop-at-epsilon", 1, "--against", "server"],
            "against must be an adversary with a proved figure, got 'server': it sees every update",
        ),
        (["dp_fedavg", "--against", "outsider"], "against must not be given without target_epsilon or stop_at_epsilon"),
        (["dp_fedavg", "--delta", 0], "delta must be"),
        (["dp_fedavg", "--target-epsilon", -1], "target_epsilon must be"),
        (["dp_fedavg", "--target-epsilon", 1e30], "target_epsilon must be at most 1e+06, got 1e+30"),
    ],
)
def test_bad_budgets_are_one_line_and_leave_nothing(arguments, message, capsys, tmp_path):
    said = refused_command(capsys, "run", *arguments, *SMALL, "--rounds", 3, "--folder", tmp_path / "kept")
    assert message in said and not (tmp_path / "kept").exists()
    assert len([line for line in said.splitlines() if "programs are kept" not in line]) == 1


@pytest.mark.parametrize("name", ["target_epsilon", "stop_at_epsilon"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BudgetRefused("be more"), "{} must be more"),
        (ValueError("epsilon must be smaller: another one"), "epsilon must be smaller: another one"),
    ],
)
def test_only_an_epsilon_that_is_the_option_gets_its_name(name, error, said):
    def make(**noise):
        raise error

    chosen = types.SimpleNamespace(make=make, data=ClientData(jnp.zeros((1, 1)), jnp.ones(1, jnp.int32)))
    options = budget.BudgetOptions(**{name: 1.0})
    with pytest.raises(ValueError, match=f"^{said.format(name)}$"):
        inspect.unwrap(budget.within)(options, chosen, {"noise_multiplier": 1.0}, jax.random.key(0), {}, 3)
