"""Axes of a sweep, and how the results of its points are joined."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv.runs.grid import checked_grid, join


def test_labels_of_an_axis_are_numbers_or_all_strings():
    grid = checked_grid({"cohort_size": [None, 4], "rate": [0.1, 1], "flag": [True, 2]})
    assert grid.labels == (("None", "4"), (0.1, 1), ("True", "2")) and grid.values[0] == (None, 4)
    run = xr.Dataset({"loss": ("round", [1.0])}, {"phase": ["upload"]})
    result = join(dict.fromkeys(grid.points, run), grid, {})
    for name, labels in zip(grid.names, grid.labels, strict=True):
        assert result[name].values.tolist() == [*labels]
    with pytest.raises(ValueError, match="must have each value once"):
        checked_grid({"cohort_size": [None, 4, "4"]})


def grouped(*status, **observed):
    """A run with so many groups."""
    groups = np.array([status], np.int32)
    return xr.Dataset({"group_status": (("round", "group"), groups), **observed}, {"round": [1], "phase": ["upload"]})


def test_runs_with_other_numbers_of_groups_are_joined():
    found = join({(0,): grouped(1, 2), (1,): grouped(3, 4, 5)}, checked_grid({"buffer_size": [4, 2]}), {})
    assert found.group_status.dims == ("buffer_size", "round", "group") and "group" not in found.coords
    np.testing.assert_array_equal(found.group_status, [[[1, 2, np.nan]], [[3, 4, 5]]])


@pytest.mark.parametrize("first", [0, 1])
def test_what_some_runs_alone_observe_is_nan_in_the_others(first):
    seen = grouped(0, norm=("round", [7.0]))
    found = join({(first,): seen, (1 - first,): grouped(0)}, checked_grid({"observe": ["a", "b"]}), {})
    np.testing.assert_array_equal(found.norm[first], [7])
    assert found.norm[1 - first].isnull().all() and found.group_status.dtype == np.int32


def test_scalars_of_numpy_are_given_as_python_s_own():
    axes = {"flag": [*np.array([True, False])], "size": [*np.arange(2)], "rate": {"a": np.float32(0.5)}}
    (flags, sizes, rates) = checked_grid(axes).values
    assert flags[0] is True and flags[1] is False
    assert [type(value) for value in (*sizes, *rates)] == [int, int, float]


@pytest.mark.parametrize("values", [np.float32([0.1, 0.2]), np.arange(2), np.array([True, False])])
def test_an_array_of_jax_is_an_axis_as_one_of_numpy_is(values):
    ours, theirs = (checked_grid({"axis": axis}) for axis in (jnp.asarray(values), values))
    assert ours == theirs == checked_grid({"axis": [*jnp.asarray(values)]})
    assert [*map(type, ours.values[0])] == [*map(type, theirs.values[0])]


@pytest.mark.parametrize(
    ("axis", "told"),
    [
        (jnp.ones((2, 2)), "must be a dict with a name for each value"), (jnp.float32(1), "must be values in a list"),
        (jax.random.split(jax.random.key(3), 2), "must be a dict with a name for each value"),
        (np.array(1), "must be values in a list"),
    ],
)  # fmt: skip
def test_arrays_that_are_no_axis_are_named(axis, told):
    with pytest.raises(ValueError, match=rf"^axes\['axis'\] {told}"):
        checked_grid({"axis": axis})
