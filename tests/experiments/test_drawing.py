"""Lines with bands: how sure a mean is must be seen, above all where it is not sure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.drawing import band


def drawn(runs, **how):
    """Ends of the band `[x, 2]`, nan where there is none."""
    axes = Figure().subplots()
    runs = xr.DataArray(np.array(runs), dims=("seed", "x"), coords={"x": np.arange(np.shape(runs)[1])})
    band(axes, runs, "x", "", "red", **how)
    (filled,) = axes.collections
    corners = [path.vertices for path in filled.get_paths()]
    ends = np.full((runs.sizes["x"], 2), np.nan)
    for x in range(len(ends)):
        if ys := [y for path in corners for at, y in path if at == x]:
            ends[x] = min(ys), max(ys)
    return ends


HALF = 4.3027 * 0.1 / np.sqrt(3)
"""Of Student's interval of three values 0.1 apart."""


def test_a_band_is_students_interval_and_one_that_says_nothing_is_cut_and_not_left_out():
    sure, unsure = [0.9, 1.1, 1.0], [0.0, 0.0, 1.5]
    found = drawn(np.transpose([sure, unsure, sure]))
    np.testing.assert_allclose(found, [[1 - HALF, 1 + HALF], [0, 2], [1 - HALF, 1 + HALF]], rtol=1e-4)


def test_the_band_of_an_accuracy_has_accuracies_alone():
    np.testing.assert_array_equal(drawn([[0.1, 0.9], [0.1, 0.5]]), [[0.1, 0.1], [0, 1]])
    sure, high = [0.5, 0.7, 0.6], [0.9, 1.0, 0.95]
    np.testing.assert_allclose(
        drawn(np.transpose([sure, high])), [[0.6 - HALF, 0.6 + HALF], [0.95 - HALF / 2, 1]], rtol=1e-4
    )
    np.testing.assert_allclose(
        drawn(100 * np.transpose([sure, high]), most=100),
        [[60 - 100 * HALF, 60 + 100 * HALF], [95 - 50 * HALF, 100]], rtol=1e-4,
    )  # fmt: skip


def test_a_single_seed_has_no_band():
    assert np.isnan(drawn(np.ones((1, 3)))).all()
