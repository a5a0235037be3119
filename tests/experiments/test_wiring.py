"""What the figures of two papers are built from, against numbers written here from the papers, and what they draw.

Nothing is trained: calls are caught, and a round of six users is compared with NumPy.
"""

import importlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments.problem import Task, model_of
from fedjax_priv import data


class Caught(Exception):
    """The arguments of a call that a test stops at."""


def caught(monkeypatch, script, name, run):
    """The keyword and positional arguments with which `run` calls `script.name` first."""

    def stop(*args, **how):
        raise Caught(args, how)

    monkeypatch.setattr(script, name, stop)
    with pytest.raises(Caught) as found:
        run()
    monkeypatch.undo()
    return found.value.args


def module(name):
    return importlib.import_module(f"experiments.{name}")


WIRELESS = {  # K, users by SNR, T, seeds, L, sigma^2, uniform p
    "fig4": ({2: 68, 10: 66, 30: 66}, {"a": (1.0, 400), "b": (0.1, 2500)}, 0.1),
    "fig5": ({2: 68, 10: 66, 30: 66}, {"a": (1.0, 2500), "b": (0.2, 2500)}, 0.8),
}


@pytest.mark.parametrize("name", WIRELESS)
def test_the_tables_train_what_the_paper_says(name, monkeypatch):
    users, panels, noise = WIRELESS[name]
    tables, config = module("wireless.tables"), module("wireless.figures").FIGURES[name].scales["paper"]
    calls = []

    def train(setting, axes, *, rounds, seed):
        calls.append((setting, dict(axes), rounds, seed))
        (sampling,) = axes.keys() & {"threshold", "participation"}
        grid = {sampling: axes[sampling], "clip": axes["clip"], "noise_variance": axes["noise_variance"]}
        marks = np.add.outer(np.array(axes[sampling]), 100 * np.array(axes["clip"]))[..., None, None, None] + rounds
        values = np.broadcast_to(marks, (*map(len, grid.values()), config.setting.repeats, 2))
        return xr.Dataset({"accuracy": ((*grid, "seed", "iteration"), values)}, grid | {"iteration": [0, rounds]})

    monkeypatch.setattr(tables.training, "run", train)
    monkeypatch.setattr(tables, "_summary", lambda config, runs: runs.squeeze("noise_variance", drop=True))
    parts = dict(zip(config.panels, tables._train(config), strict=True))
    for setting, axes, rounds, seed in calls:
        assert seed == 0 and setting.repeats == 5 and axes["noise_variance"] == [noise]
        assert dict(zip(setting.snr_db, setting.groups, strict=True)) == users
        assert axes.get("threshold", [2.0]) == [2.0] and axes.get("participation", [0.3, 0.9]) == [0.3, 0.9]
        assert {(clip, rounds) for clip in axes["clip"]} <= set(panels.values())
    for panel, (clip, rounds) in panels.items():
        for column, sampling in (("channel-aware", 2.0), ("uniform p = 0.3", 0.3), ("uniform p = 0.9", 0.9)):
            found = parts[panel].accuracy.sel(sampling=column)
            np.testing.assert_allclose(found, sampling + 100 * clip + rounds)


def test_wireless_training_is_as_the_paper_says(monkeypatch):
    training, figures = module("wireless.training"), module("wireless.figures")
    for setting in (figures.ONE_LAYER, figures.TWO_LAYERS):
        (loss,), local = caught(monkeypatch, training, "local_sgd", lambda: training.algorithm(setting))  # noqa: B023
        assert callable(loss) and local == {"learning_rate": 1.0, "batch_size": 32, "num_steps": 1}
        (_,), built = caught(monkeypatch, training, "wireless", lambda: training.algorithm(setting, clip=3))  # noqa: B023
        assert (built["receiver_noise"], built["known_count"], built["clip"]) == (1.0, False, 3)
        np.testing.assert_array_equal(built["snr_db"], [2.0] * 68 + [10.0] * 66 + [30.0] * 66)
        chosen = {"receiver_noise", "known_count", "clip", "snr_db", "server", "noise_drawn"}
        assert set(built) == chosen, "else what wireless() has"
    known = figures.ONE_LAYER._replace(known_count=True)
    assert caught(monkeypatch, training, "wireless", lambda: training.algorithm(known))[1]["known_count"] is True
    args, how = caught(monkeypatch, training, "sweep", lambda: training.run(SMALL, AXES, rounds=40, seed=3))
    make, axes, key, _, clients = args
    assert axes == AXES | {"seed": range(2)} and (how["rounds"], how["every"]) == (40, 10)
    assert make.args == (SMALL,) and jnp.array_equal(jax.random.key_data(key), jax.random.key_data(jax.random.key(3)))
    assert clients.count.tolist() == [1437 // 6 + (k < 1437 % 6) for k in range(6)]


SMALL = module("wireless.training").Setting(Task("digits"), (2, 4), (200.0, 200.0), 12, evaluations=4, repeats=2)
AXES = {"participation": [0.7], "clip": [1.0], "noise_variance": [0.1]}


@pytest.fixture(scope="module")
def one_round():
    """A round without noise of users whose batch is all they have, by known R: state before, after, and the info."""
    training, patch = module("wireless.training"), pytest.MonkeyPatch()
    patch.setattr(training, "RECEIVER_NOISE", 1e-10)
    whole, model = data.digits(), model_of(SMALL.task)
    clients = data.federate(whole._replace(x_train=whole.x_train[:72], y_train=whole.y_train[:72]), 6, seed=0)
    key, found = jax.random.key(1), {}
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam
        for known in (False, True):
            system = training.algorithm(
                SMALL._replace(known_count=known), participation=0.7, clip=1e3, noise_variance=1e-12
            )
            state = system.init(key, model.init(jax.random.key(0)), clients)
            found[known] = (state.params, *jax.jit(system.step)(key, state, clients))
    patch.undo()
    return clients, found


def gradients(params, clients):
    """Of the mean cross entropy of each user, by NumPy in float64; flat like the parameters."""
    leaves = {leaf.ndim: np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(params)}
    rows = []
    for x, y in zip(*(np.asarray(part) for part in clients.examples), strict=True):
        x = x.reshape(len(y), -1).astype(np.float64)
        logits = x @ leaves[2] + leaves[1]
        error = np.exp(logits - logits.max(1, keepdims=True))
        error = (error / error.sum(1, keepdims=True) - np.eye(10)[y]) / len(y)
        by_rank = {1: error.sum(0), 2: x.T @ error}
        rows.append(np.concatenate([by_rank[leaf.ndim].ravel() for leaf in jax.tree.leaves(params)]))
    return np.array(rows)


@pytest.mark.parametrize("known", [False, True])
def test_a_round_is_one_gradient_over_the_right_number_and_a_step_of_adam(known, one_round):
    clients, found = one_round
    before, after, info = found[known]
    took_part = np.asarray(info.counted, bool)
    total = gradients(before, clients)[took_part].sum(0)
    assert 0 < took_part.sum() < 6
    divisor = (1 - 0.3**6) * took_part.sum() if known else 6 * 0.7
    np.testing.assert_allclose(info.direction, total / divisor, rtol=1e-3, atol=1e-4)
    moved = np.concatenate(
        [np.ravel(a - b) for a, b in zip(*map(jax.tree.leaves, (after.params, before)), strict=True)]
    )
    clear = np.abs(total) > 1e-3
    np.testing.assert_allclose(moved[clear], -1e-3 * np.sign(total[clear]), rtol=1e-2)


def lines(axes):
    """Labels of drawn lines, and their ends."""
    return {line.get_label(): line.get_ydata()[-1] for line in axes.get_lines() if not line.get_label().startswith("_")}


def test_curves_have_their_own_names_and_axes():
    curves, axes = module("wireless.curves"), panel()
    names, ends = ["channel-aware", "uniform p = 0.3", "uniform p = 0.9"], [0.5, 0.3, 0.9]
    values = np.array(ends)[:, None, None] * np.ones((1, 2, 3))
    shape = {"line": names, "seed": [0, 1], "iteration": [0, 5, 10]}
    curves.draw(axes, xr.DataArray(values, shape, tuple(shape)), "title")
    assert lines(axes) == dict(zip(names, ends, strict=True))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("iteration", "test accuracy")


def panel():
    from matplotlib.figure import Figure

    return Figure().subplots()


SECURE = {  # data set, model, target, N, alpha, theta, non-IID
    "fig3": ("cifar10", 0.55, (25, 50, 75, 100), "iid"),
    "fig5": ("mnist", 0.97, (25, 100), "iid"),
    "fig6": ("mnist", 0.94, (25, 50, 75, 100), "shards"),
}


@pytest.mark.parametrize("name", SECURE)
def test_the_secure_sums_train_what_the_paper_says(name, monkeypatch):
    dataset, target, sizes, partition = SECURE[name]
    training, config = module("sparse_secagg.training"), module("sparse_secagg.figures").FIGURES[name].scales["paper"]
    setting = config.setting
    assert (setting.task.dataset, setting.task.model, setting.task.samples) == (dataset, "cnn", None)
    assert (config.target, config.num_clients, setting.partition) == (target, sizes, partition)
    (_,), local = caught(monkeypatch, training, "local_sgd", lambda: training.local_of(setting, model_of(setting.task)))
    assert local == {"learning_rate": 0.01, "batch_size": 28, "num_epochs": 5, "momentum": 0.5}
    args, how = caught(monkeypatch, training.data, "federate", lambda: training.clients_of(setting, None, 50, 7))
    assert args[1:] == ((50,) if partition == "iid" else (50, "shards"))
    assert how == {"seed": 7} | ({} if partition == "iid" else {"num_shards": 300})
    for system, extra in (("SecAgg", {}), ("SparseSecAgg", {"alpha": 0.1})):
        built = []
        monkeypatch.setattr(training, "SYSTEMS", {system: lambda local, built=built, **how: built.append(how)})
        training.algorithm(setting, None, 50, system, elide=False)
        want = {"num_clients": 50, "dropout": 0.3, "levels": 2.0**20, "block": setting.block, "elide": False}
        assert built == [want | extra]
        monkeypatch.setattr(training, "observe_privacy", np.asarray)
        training.algorithm(setting, None, 50, system, elide=True)
        assert built[1]["observe"].tolist() == [True] * 33 + [False] * 17 and built[1]["elide"]
        monkeypatch.undo()


def test_every_n_is_trained_with_its_rounds_both_systems_and_every_seed(monkeypatch):
    training = module("sparse_secagg.training")
    config = training.Config(training.Setting(Task("digits", "softmax")), 0.9, (4, 6), (2, 3), repeats=2, seed=5)
    monkeypatch.setattr(training, "_one", lambda *args: (_ for _ in ()).throw(Caught(args)))
    with pytest.raises(Caught) as found:
        training.compare(config)
    assert found.value.args[0][-2:] == (4, 2)
    monkeypatch.undo()
    (make, axes, key, *_), how = caught(monkeypatch, training, "sweep", lambda: training.compare(config))
    assert axes == {"system": ["SecAgg", "SparseSecAgg"], "seed": [0, 1]} and how["rounds"] == 2 and how["every"] == 1
    assert make.keywords == {"elide": True} and make.args[2] == 4
    assert jnp.array_equal(jax.random.key_data(key), jax.random.key_data(jax.random.key(5)))


def test_totals_count_what_survivors_upload_and_nothing_else():
    training = module("sparse_secagg.training")
    phases = {"phase": ["advertise", "upload"]}
    up = np.zeros((2, 2, 3))  # round, phase, client
    up[:, 0], up[:, 1] = 1000.0, [[5, 7, 0], [5, 0, 9]]
    run = xr.Dataset(
        {"up_bytes": (("round", "phase", "client"), up), "down_bytes": (("round", "phase", "client"), up * 50),
         "accuracy": ("evaluation", [0.1, 0.2, 0.3]), "seconds": ("evaluation", [0.0, 1.0, 2.0]),
         "status": ("round", [0, 2]), "revealed": ("round", [0.5, 0.5]), "revealed_all": ("round", [0.1, 0.1])},
        phases | {"evaluation": [0, 1, 2], "round": [1, 2]},
    )  # fmt: skip
    config = SimpleNamespace(setting=SimpleNamespace(dropout=0.3), bandwidth=1e8)
    patch = pytest.MonkeyPatch()
    patch.setattr(training.wall_clock, "run_seconds", lambda run, **how: xr.DataArray(0.0))
    kept = training._summary(config, run, 1.0)
    patch.undo()
    assert kept.upload.values.tolist() == [12, 14] and kept.largest_upload.values.tolist() == [7, 9]
    assert (
        kept.revealed.values[0] == 0.5 and kept.revealed_all.values[0] == 0.1 and kept.failed.values.tolist() == [0, 1]
    )


def test_fig_2_selects_what_the_paper_says(monkeypatch):
    fig2, config = module("sparse_secagg.fig2"), module("sparse_secagg.figures").FIGURES["fig2"].scales["paper"]
    assert (config.num_clients, config.rounds, config.shards, config.setting.task.dataset) == (
        30,
        100,
        (300, 60),
        "mnist",
    )
    for sparsifier in ("rand_k", "top_k"):
        (_,), how = caught(monkeypatch, fig2, "sparse_fedavg", lambda: fig2.system(config, sparsifier))  # noqa: B023
        assert (how["k"], how["num_params"], how["sparsifier"]) == (166_337, 1_663_370, sparsifier)
    assert [setting.num_shards for setting in fig2.partitions(config).values()][1:] == [300, 60]
    values = np.array([[0.3, 0.1], [0.1, 0.11]])  # top-K and rand-K by round
    shape = {"sparsifier": ["top_k", "rand_k"], "partition": ["IID"], "round": [1, 2]}
    result = xr.Dataset({name: (tuple(shape), values[:, None]) for name in ("overlap_mean", "overlap_std")}, shape)
    (axes,) = fig2.figure(config, result, "title").axes
    assert lines(axes) == {"top-K, IID": 0.1, "rand-K, IID": 0.11, "K / d": 0.1}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "shared coordinates of two users / K")


def test_fig_4_varies_alpha_and_theta_and_keeps_them_apart(monkeypatch):
    fig4, config = module("sparse_secagg.fig4"), module("sparse_secagg.figures").FIGURES["fig4"].scales["paper"]
    assert config.num_clients == (25, 50, 75, 100) and config.dropout == 0.3 and 0.1 in config.alphas
    (_,), how = caught(monkeypatch, fig4, "sparse_secagg", lambda: fig4.system(config, 75, alpha=0.2, dropout=0.4))
    assert (how["num_clients"], how["alpha"], how["dropout"]) == (75, 0.2, 0.4)
    (make, axes, *_), _ = caught(monkeypatch, fig4, "sweep", lambda: fig4._sweep(config, 75, (0.0, 0.3)))
    assert axes == {"alpha": list(config.alphas), "dropout": [0.0, 0.3]}
    (_,), how = caught(monkeypatch, fig4, "sparse_secagg", lambda: make(0.2, 0.4))
    assert (how["alpha"], how["dropout"]) == (0.2, 0.4)
    assert [module("sparse_secagg.training").adversaries(n) for n in (25, 50, 75, 100)] == [8, 17, 25, 33]


def test_table_i_runs_both_systems_at_the_papers_alpha_and_theta(monkeypatch):
    table1, config = module("sparse_secagg.table1"), module("sparse_secagg.figures").FIGURES["table1"].scales["paper"]
    assert (config.num_clients, config.num_params, config.alpha, config.dropout) == (
        (25, 50, 75, 100),
        165_354,
        0.1,
        0.3,
    )
    for system, extra in (("SecAgg", {}), ("SparseSecAgg", {"alpha": 0.1})):
        stop = lambda *args, **how: (_ for _ in ()).throw(Caught(how))
        monkeypatch.setattr(table1, "SYSTEMS", {system: stop})
        with pytest.raises(Caught) as found:
            table1._sizes(config, 50, system)
        assert found.value.args[0] == {"num_clients": 50, "dropout": 0.3, "elide": True} | extra


def test_fig_3_and_fig_7_train_what_they_draw(monkeypatch):
    fig3, fig7, figures = module("wireless.fig3"), module("wireless.fig7"), module("wireless.figures").FIGURES
    config = figures["fig3"].scales["paper"]
    for name, known in (("unknown", False), ("known", True)):
        (setting, axes), how = caught(monkeypatch, fig3.training, "run", lambda: fig3._train(config, 20, name))  # noqa: B023
        assert (setting.known_count, setting.groups, setting.snr_db) == (known, (20,), (10.0,))
        assert axes == {"participation": config.participation, "clip": [2.0], "noise_variance": [0.1]}
        assert how == {"rounds": 400, "seed": 0}
    found = fig3._moments(config, 20, 0.3)
    m, v = 6.0, 20 * 0.3 * 0.7
    assert found[0] == pytest.approx(4 * (m**2 + v) / m**2 + 30 / m**2 * (0.1 * m + 1))
    (_, axes), how = caught(monkeypatch, fig7.training, "run", lambda: fig7.run(figures["fig7"].scales["paper"]))
    assert axes == {"noise_variance": (0.1, 0.2, 0.4, 0.8, 1.6), "threshold": [2.0], "clip": [1.0]}
    assert how == {"rounds": 1000, "seed": 0}


def test_the_tables_print_each_panel_next_to_its_own_numbers():
    tables, config = module("wireless.tables"), module("wireless.figures").FIGURES["fig5"].scales["paper"]
    names = (
        "participants",
        "lemma",
        "local",
        "local_delta",
        "central",
        "printed",
        "frozen",
        "central_delta",
        "rigorous",
    )
    shape = {"panel": ["a", "b"], "sampling": config.columns, "seed": [0, 1]}
    marks = np.add.outer([100.0, 200.0], [1.0, 2.0, 3.0])[..., None] * np.ones(2)
    values = {name: (tuple(shape), 10 * i + marks) for i, name in enumerate(names)}
    values["limited"] = (*[("panel", "sampling", "seed", "group")], np.zeros((2, 3, 2, 1)))
    values["accuracy"] = (("panel", "sampling", "seed", "iteration"), (marks / 1000)[..., None] * np.ones(2))
    result = xr.Dataset(values, shape | {"iteration": [0, 2500]})
    above = tables.figure(config, result).axes
    head, *body = tables.table(config, result)
    assert head == ["", *config.columns] and len(above) == 2
    for i, panel in enumerate(("a", "b")):
        rows = {name.removeprefix(f"({panel}) "): cells for name, *cells in body if name.startswith(f"({panel})")}
        said = config.panels[panel].printed
        local, central = (100 * (i + 1) + 10 * names.index(name) + 2 for name in ("local", "central"))
        assert rows["eps_l with N0 (printed)"][1] == f"{local:.4g} ({said.local[1]})"
        assert rows["eps_c, eq. 13 (printed)"][1] == f"{central:.4g} ({said.central[1]})"
        assert rows["accuracy, % (printed)"][2] == f"{10 * (i + 1) + 0.3:.1f} ({said.accuracy[2]})"
        assert len(rows) == len(body) / 2
        assert above[i].get_title() == f"({panel}) L = {(1, 0.2)[i]:g}, sigma^2 = 0.8, T = 2,500"
        assert lines(above[i]) == pytest.approx(dict(zip(config.columns, (marks / 1000)[i, :, 0], strict=True)))


def test_bars_are_those_of_their_system_and_n():
    comparison, axes = module("sparse_secagg.comparison"), panel()
    shape = {"num_clients": [25, 100], "system": ["SecAgg", "SparseSecAgg"], "seed": [0]}
    comparison._bars(axes, xr.DataArray([[[8.0], [1.0]], [[16.0], [2.0]]], shape, tuple(shape)))
    bars = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    first, second = (bars[0].get_facecolor() for bars in axes.containers)
    assert first != second
    assert bars == {"SecAgg": [8, 16], "SparseSecAgg": [1, 2]}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["N = 25", "N = 100"]
