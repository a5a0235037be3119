"""Curves of runs and their intervals, against scipy's and by hand."""

import inspect

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from fedjax_priv.analysis import bands, curves, half_width, learning_curves
from fedjax_priv.analysis.curve_bands import adversaries, known_x

EVALUATION = [0, 2, 3]
RATES, SEEDS = [0.1, 0.2], [5, 6, 7, 8]
DRAWN = np.random.default_rng(0)
ACCURACY = DRAWN.uniform(size=(2, 4, 3))
SENT = DRAWN.uniform(1, 2, size=(2, 4, 2, 3, 5))  # axes, phase, round, client
GRID = xr.Dataset(
    {
        "accuracy": (("learning_rate", "seed", "evaluation"), ACCURACY),
        "seconds": (("learning_rate", "seed", "evaluation"), np.cumsum(DRAWN.uniform(size=(2, 4, 3)), 2)),
        "up_bytes": (("learning_rate", "seed", "phase", "round", "client"), SENT),
        "down_bytes": (("learning_rate", "seed", "phase", "round", "client"), SENT),
        "joules": (("learning_rate", "seed", "round"), np.ones((2, 4, 3)) * [1.0, 2.0, 4.0]),
        "loss": (("learning_rate", "seed", "round", "client"), DRAWN.uniform(size=(2, 4, 3, 5))),
        "trains": (("learning_rate", "seed", "round", "client"), np.ones((2, 4, 3, 5), bool)),
        "client_id": (("learning_rate", "seed", "round", "client"), np.zeros((2, 4, 3, 5))),
        "failed_rounds": (("learning_rate", "seed"), np.zeros((2, 4))),
    },
    {"learning_rate": RATES, "seed": SEEDS, "evaluation": EVALUATION, "round": [1, 2, 3], "phase": ["keys", "upload"]},
)
ONE = GRID.isel(learning_rate=0, seed=0)


def spent(eps, delta=1e-5):
    names = ["client, zero-out", "outsider, add/remove", "server, zero-out"]
    values = np.stack([eps, 2 * np.asarray(eps), np.full(3, np.nan)])
    dims = {"adversary": names, "round": [1, 2, 3]}
    return ONE.assign(epsilon=xr.DataArray(values, dims, ("adversary", "round"), attrs={"delta": delta}))


def test_a_band_is_the_mean_over_seeds_and_students_interval():
    found = bands(GRID)
    assert [*found] == ["learning_rate=0.1", "learning_rate=0.2"]
    for values, band in zip(ACCURACY, found.values(), strict=True):
        low, high = stats.t.interval(0.95, 3, values.mean(0), stats.sem(values))
        np.testing.assert_allclose([band.y - band.half_width, band.y + band.half_width], [low, high], rtol=1e-12)
        assert (band.runs, band.x.tolist()) == (4, EVALUATION)
    wider = bands(GRID, confidence=0.99)["learning_rate=0.1"].half_width
    assert (wider > found["learning_rate=0.1"].half_width).all()


def test_one_run_has_no_interval_and_seeds_need_not_be_an_axis():
    (band,) = bands(ONE).values()
    assert band.runs == 1 and np.isnan(band.half_width).all()
    np.testing.assert_array_equal(band.y, ACCURACY[0, 0])
    assert [*bands(GRID.isel(seed=0))] == ["learning_rate=0.1", "learning_rate=0.2"]


def test_what_an_evaluation_has_cost_before_it():
    each = SENT.sum(2).mean(-1).cumsum(-1)  # phases, clients, rounds
    band = bands(GRID, x="bytes")["learning_rate=0.2"]
    np.testing.assert_allclose(band.x, [0, each[1, :, 1].mean(), each[1, :, 2].mean()], rtol=1e-12)
    np.testing.assert_allclose(bands(GRID, x="joules")["learning_rate=0.1"].x, [0, 3, 7])
    np.testing.assert_allclose(bands(GRID, x="seconds")["learning_rate=0.1"].x, GRID.seconds[0].mean("seed"))


def test_unknown_energy_is_not_none_at_all():
    """Of a point whose uploads are messages no joules are known, of the other one not those of its second round."""
    joules = GRID.joules.copy()
    joules[1], joules[0, :, 1] = np.nan, np.nan
    messages, analog = (bands(GRID.assign(joules=joules), x="joules")[f"learning_rate={rate}"] for rate in (0.2, 0.1))
    np.testing.assert_array_equal(messages.x, [0, np.nan, np.nan])
    np.testing.assert_array_equal(analog.x, [0, np.nan, np.nan])
    np.testing.assert_array_equal(messages.y, ACCURACY[1].mean(0))


def test_an_axis_of_the_sweep_may_be_x():
    """By hand: y of the last evaluation by rate, over seeds; other axes tell the lines apart, names are no numbers."""
    backwards = GRID.isel(learning_rate=[1, 0])
    for grid in (GRID, backwards):
        (band,) = bands(grid, x="learning_rate").values()
        np.testing.assert_array_equal(band.x, RATES)
        np.testing.assert_array_equal(band.y, ACCURACY[:, :, -1].mean(1))
        np.testing.assert_allclose(band.half_width, half_width(ACCURACY[:, :, -1], axis=1))
    wide = xr.concat([GRID, 2 * GRID], xr.DataArray([3, 7], dims="f", name="f"))
    assert [*bands(wide, x="learning_rate")] == ["f=3", "f=7"]
    by_f = bands(wide, x="f")["learning_rate=0.2"]
    np.testing.assert_allclose([by_f.x, by_f.y], [[3, 7], [ACCURACY[1, :, -1].mean(), 2 * ACCURACY[1, :, -1].mean()]])
    loss = bands(GRID, x="learning_rate", y="loss")[""].y
    np.testing.assert_allclose(loss, GRID.loss.isel(round=-1).mean(("client", "seed")))
    named = GRID.assign_coords(learning_rate=["low", "high"])
    assert "learning_rate" in known_x(GRID) and "learning_rate" not in known_x(named) and "seed" not in known_x(GRID)


def test_where_x_is_an_axis_points_that_were_not_run_are_gaps():
    ran = GRID.where((GRID.learning_rate < 0.15) | (GRID.seed < 0))
    band = bands(ran, x="learning_rate")[""]
    np.testing.assert_array_equal(band.y, [ACCURACY[0, :, -1].mean(), np.nan])
    axes = curves({"a": GRID}, x="learning_rate").axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("learning_rate", "accuracy, last evaluation")


def test_the_loss_is_that_of_the_round_before():
    band = bands(GRID, y="loss")["learning_rate=0.1"]
    np.testing.assert_allclose(band.y, GRID.loss[0].mean(("seed", "client")).values[[1, 2]])
    assert band.x.tolist() == [2, 3]


def test_points_that_were_not_run_are_no_runs():
    ran = xr.DataArray([[True, True, False, False], [False] * 4], dims=("learning_rate", "seed"))
    for y in ("accuracy", "loss"):
        found = bands(GRID.where(ran), y=y)
        assert [*found] == ["learning_rate=0.1"]
        assert found["learning_rate=0.1"].runs == 2
        np.testing.assert_allclose(
            found["learning_rate=0.1"].y, bands(GRID.isel(seed=[0, 1]), y=y)["learning_rate=0.1"].y
        )


def test_a_run_that_diverged_is_not_left_out_of_the_mean():
    values = ACCURACY.copy()
    values[0, 1, 2] = np.nan
    band = bands(GRID.assign(accuracy=(GRID.accuracy.dims, values)))["learning_rate=0.1"]
    assert band.runs == 4 and np.isnan([band.y[2], band.half_width[2]]).all() and np.isfinite(band.y[:2]).all()


@pytest.mark.parametrize("y", ["accuracy", "loss"])
def test_nor_is_one_that_diverged_from_the_start(y):
    values = GRID[y].values.copy()
    values[0, 1] = np.nan
    band = bands(GRID.assign({y: (GRID[y].dims, values)}), y=y)["learning_rate=0.1"]
    assert band.runs == 4 and np.isnan(band.y).all()


def test_the_loss_is_a_mean_over_the_clients_that_there_are():
    """Five at one point, three at the other, where the loss of one client in the second round is NaN."""
    there = xr.DataArray([[True] * 5, [True] * 3 + [False] * 2], dims=("learning_rate", "client"))
    loss = GRID.loss.where(there)
    loss[1, :, 1, 0] = np.nan
    sent = {name: GRID[name].where(there) for name in ("trains", "up_bytes", "down_bytes", "client_id")}
    found = bands(GRID.assign(loss=loss, **sent), y="loss")
    np.testing.assert_allclose(found["learning_rate=0.1"].y, loss.values[0, :, 1:].mean((0, 2)))
    np.testing.assert_allclose(found["learning_rate=0.2"].y, [np.nan, loss.values[1, :, 2, :3].mean()])


def test_who_does_not_train_has_no_loss():
    trains = np.random.default_rng(1).random((3, 5)) < 0.6
    expected = [ONE.loss.values[t][trains[t]].mean() for t in (1, 2)]
    assert 0 < trains[1:].sum() < trains[1:].size
    run = ONE.assign(trains=(("round", "client"), trains))
    np.testing.assert_allclose(bands(run, y="loss")[""].y, expected)
    assert np.isnan(bands(run.assign(trains=run.trains & False), y="loss")[""].y).all()


def test_eps_of_the_weakest_figure_or_of_the_one_that_is_asked_for():
    run = spent([1.0, 1.5, 1.8])
    assert adversaries(run) == ["outsider, add/remove", "client, zero-out"]
    assert bands(run, x="epsilon")[""].x.tolist() == [3.0, 3.6]  # after two and three rounds
    assert bands(run, x="epsilon", adversary="client, zero-out")[""].x.tolist() == [1.5, 1.8]
    assert "epsilon" not in known_x(spent([np.nan] * 3))


def at_points(outsider, device):
    """A sweep of two points with eps after three rounds, the same at all of them."""
    values = np.broadcast_to(np.array([outsider, device], float)[..., None], (2, 2, 3))
    dims = {"adversary": ["outsider", "device"], "learning_rate": RATES, "round": [1, 2, 3]}
    epsilon = xr.DataArray(values, dims, ("adversary", "learning_rate", "round"), attrs={"delta": 1e-5})
    return GRID.isel(seed=0).assign(epsilon=epsilon)


@pytest.mark.parametrize(
    ("outsider", "device", "first"),
    [
        ([20, 12], [20, 20], "device"),  # everybody takes part at the first point, so the largest figures are the same
        ([20, 20], [20, 12], "outsider"),
        ([20, 20], [20, 20], "outsider"),
        ([20, np.nan], [20, 20], "device"),
        ([np.inf, 12], [np.inf, 20], "device"),
        ([np.inf, 12], [np.inf, np.inf], "device"),
        ([21, 12], [20, 20], "outsider"),
    ],
)
def test_of_the_same_largest_figures_the_one_that_is_larger_elsewhere_is_the_weakest(outsider, device, first):
    sweep = at_points(outsider, device)
    assert adversaries(sweep)[0] == first
    assert curves({"a": sweep}, "epsilon").axes[0].get_xlabel().endswith(first)


def test_the_weakest_figure_of_several_results_is_that_of_any_of_them():
    both = {"a": at_points([2, 2], [1, 1]), "b": at_points([3, 3], [4, 4])}
    assert curves(both, "epsilon").axes[0].get_xlabel().endswith("device")


def test_the_picture_has_the_lines_and_the_bands():
    figure = curves({"a": GRID, "b": ONE}, x="bytes")
    (axes,) = figure.axes
    labels = ["a, learning_rate=0.1 (4 seeds)", "a, learning_rate=0.2 (4 seeds)", "b"]
    assert [line.get_label() for line in axes.lines] == labels
    band = bands(GRID, x="bytes")["learning_rate=0.2"]
    np.testing.assert_allclose(axes.lines[1].get_xydata(), np.stack([band.x, band.y], 1))
    assert len(axes.collections) == 2  # one run has no band
    (shape,) = axes.collections[1].get_paths()
    corners = {tuple(corner) for corner in shape.vertices.round(9)}
    for edge in (band.y - band.half_width, band.y + band.half_width):
        assert {*zip(band.x.round(9), edge.round(9), strict=True)} <= corners
    assert axes.get_xlabel() == "sent by a client so far (B)"
    eps = curves({"a": spent([1.0, 1.5, 1.8]), "b": spent([3, 4, 5], 1e-6)}, "epsilon").axes[0]
    assert eps.get_xlabel() == "proved eps at delta 1e-05 or 1e-06, outsider, add/remove"
    assert eps.get_xscale() == "log"


def test_it_is_written_as_a_vector_image(tmp_path):
    curves({"a": GRID}).savefig(tmp_path / "a.svg")
    assert "<path" in (tmp_path / "a.svg").read_text() and "<image" not in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "epsilon"}, "^x must be .* 'bytes', 'joules', 'accuracy', 'seconds', 'learning_rate', got 'epsilon'"),
        ({"y": "params"}, "^y must be one of 'accuracy', 'seconds', 'loss', got 'params'"),
        ({"y": "failed_rounds"}, "^y must be one of"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(options, message):
    for call in (lambda: bands(GRID, **options), lambda: curves({"a": GRID}, **options)):
        with pytest.raises(ValueError, match=message):
            call()


def test_without_metrics_the_message_says_what_measures_them():
    with pytest.raises(ValueError, match="^y must be 'seconds' or 'loss' of results without metrics, which evaluate="):
        curves({"a": GRID.drop_vars("accuracy")})


@pytest.mark.parametrize("draw", [curves, learning_curves])
def test_a_result_without_a_name_is_refused_and_so_is_none(draw):
    for wrong, got in ((GRID, "Dataset"), ({}, "none")):
        with pytest.raises(ValueError, match=rf"^results must be at least one result by name, such as .*, got {got}$"):
            inspect.unwrap(draw)(wrong)


def test_an_adversary_must_have_a_figure_in_all_results():
    both = {"a": spent([1.0, 1.5, 1.8]), "b": spent([3.0, 4.0, 5.0]).isel(adversary=[0, 2])}
    assert "client, zero-out" in curves(both, "epsilon").axes[0].get_xlabel()
    with pytest.raises(ValueError, match=r"^adversary must .* one of \['client, zero-out'\], got 'server, zero-out'"):
        curves(both, "epsilon", adversary="server, zero-out")
    with pytest.raises(ValueError, match="at least one"):
        curves({})
    for x in ("round", "bytes"):
        with pytest.raises(
            ValueError, match="^results must have at least one run with an evaluation, got none of 'a', 'b'$"
        ):
            curves(dict.fromkeys("ab", GRID.where(GRID.seed < 0)), x)


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ({"a": ["failed_rounds"], "b": ["failed_rounds"]}, "'a' has no variable by evaluation"),
        ({"a": ["accuracy"], "b": ["seconds"], "c": ["failed_rounds"]}, "'c' has no variable by evaluation"),
        ({"a": ["accuracy"], "b": ["seconds"]}, "'b' has only 'seconds'"),
    ],
)
def test_where_results_share_no_variable_the_first_that_lacks_it_is_named(left, message):
    with pytest.raises(ValueError, match=f"^y must be a variable of all results, got 'accuracy', and {message}$"):
        curves({name: GRID[names] for name, names in left.items()})


def test_bands_are_of_one_result():
    with pytest.raises(ValueError, match=r"^result must be a Dataset, such as simulate\(...\), got dict$"):
        inspect.unwrap(bands)({"a": GRID})  # pyright: ignore[reportArgumentType]
