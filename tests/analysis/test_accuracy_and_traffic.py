import numpy as np
import pytest
import xarray as xr

from children import Child, never_imported
from fedjax_priv.analysis import learning_curves

EVALUATION = np.array([0, 2, 3])


def result(phases, accuracy, failed=0):
    """Three rounds of two clients; phase `i` sends `i` and receives `2 i` kilobytes, times the round's number."""
    sent = 1e3 * np.arange(len(phases))[:, None, None] * np.arange(1, 4)[None, :, None] * np.array([0.5, 1.5])
    dims = ("phase", "round", "client")
    return xr.Dataset(
        {
            "accuracy": ("evaluation", np.array(accuracy)),
            "up_bytes": (dims, sent),
            "down_bytes": (dims, 2 * sent),
        },
        coords={"phase": phases, "evaluation": EVALUATION},
        attrs={"failed_rounds": failed},
    )


RESULTS = {
    "clear": result(["silent", "upload"], [0.1, 0.5, 0.6]),
    "secure": result(["silent", "keys", "upload"], [0.1, 0.4, 0.7], failed=2),
}


def test_it_shows_the_numbers():
    figure = learning_curves(RESULTS)
    by_round, by_bytes, traffic = figure.axes
    assert [line.get_label() for line in by_round.lines] == ["clear", "secure (2 rounds failed)"]
    for axes in (by_round, by_bytes):
        for line, data in zip(axes.lines, RESULTS.values(), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), data.accuracy)
    np.testing.assert_array_equal(by_round.lines[1].get_xdata(), EVALUATION)
    assert by_bytes.get_xlabel().endswith("(kB)")
    np.testing.assert_allclose(by_bytes.lines[0].get_xdata(), [0, 3, 6])  # upload: 1 + 2, then + 3 kB
    np.testing.assert_allclose(by_bytes.lines[1].get_xdata(), [0, 9, 18])  # keys as much, upload twice
    keys, upload = traffic.containers
    assert (keys.get_label(), upload.get_label()) == ("keys", "upload")  # nothing is sent in the silent phase
    np.testing.assert_allclose([bar.get_width() for bar in keys], [0, 0, 2, 4])
    np.testing.assert_allclose([bar.get_x() + bar.get_width() for bar in upload], [2, 4, 6, 12])


def test_it_is_drawn_without_pyplot_or_warnings(tmp_path):
    learning_curves(RESULTS).savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    Child(never_imported, "matplotlib.pyplot").ended()


@pytest.mark.parametrize(
    ("results", "metric", "message"),
    [
        ({}, "accuracy", "results must be at least one result by name"),
        (RESULTS, "loss", "metric must be one of 'accuracy', got"),
        (
            {"a": RESULTS["clear"].expand_dims(seed=2)},
            "accuracy",
            "^results must be single runs, as of simulate, got a sweep over seed; curves draws those",
        ),
    ],
)
def test_bad_arguments(results, metric, message):
    with pytest.raises(ValueError, match=message):
        learning_curves(results, metric)
