"""Lines with bands: how sure a mean is must be seen, above all where it is not sure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from experiments.drawing import band


def drawn(runs):
    """Heights of the band `[x]`, nan where there is none."""
    axes = Figure().subplots()
    band(axes, xr.DataArray(runs, dims=("seed", "x"), coords={"x": np.arange(np.shape(runs)[1])}), "x", "", "red")
    (filled,) = axes.collections
    corners = [path.vertices for path in filled.get_paths()]
    heights = np.full(np.shape(runs)[1], np.nan)
    for x in range(len(heights)):
        if ys := [y for path in corners for at, y in path if at == x]:
            heights[x] = max(ys) - min(ys)
    return heights


def test_a_band_is_students_interval_and_one_wider_than_the_line_is_high_is_cut_and_not_left_out():
    sure, unsure = [0.9, 1.1, 1.0], [-9.0, 0.0, 9.0]
    found = drawn(np.transpose([sure, unsure, sure]))
    np.testing.assert_allclose(found, [2 * 4.3027 * 0.1 / np.sqrt(3), 2, 2 * 4.3027 * 0.1 / np.sqrt(3)], rtol=1e-4)


def test_a_single_seed_has_no_band():
    assert np.isnan(drawn(np.ones((1, 3)))).all()
