"""Renames a measured variable that has the name of a sweep's axis: it is stored as `measured_NAME`."""

from collections.abc import Collection, Mapping

import xarray as xr

_MARK = "measured_"


def beside_axes(name: str, axes: Collection[str]) -> str:
    """The name under which a sweep with these axes stores a variable."""
    return f"{_MARK}{name}" if name in axes else name


def variables_of(result: xr.Dataset) -> dict[str, xr.DataArray]:
    """The variables of a run or a sweep, by the names under which they were measured.

    Examples:
      >>> point = xr.Dataset({"measured_level": ("round", [0.5])}, {"level": 3.0})
      >>> print(point.level.item(), variables_of(point)["level"].values)
      3.0 [0.5]
    """
    return {_own(str(name), result): values for name, values in result.data_vars.items()}


def described(numbers: Mapping[str, tuple[xr.DataArray, str, str]]) -> xr.Dataset:
    """Dataset of numbers derived from a run or a sweep, with meanings and units.

    A number that has the name of an axis becomes `measured_NAME`.
    """
    return xr.Dataset({
        beside_axes(name, [*map(str, values.coords)]): values.assign_attrs(long_name=meaning, units=units)
        for name, (values, meaning, units) in numbers.items()
    })  # fmt: skip


def without_axes(point: xr.Dataset) -> xr.Dataset:
    """A point of a sweep, with the variables under the names under which they were measured."""
    names = {str(name): own for name in point.data_vars if (own := _own(str(name), point)) != name}
    return point.drop_vars([*names.values()], errors="ignore").rename(names)


def _own(name: str, result: xr.Dataset) -> str:
    own = name.removeprefix(_MARK)
    return name if own in result.data_vars else own
