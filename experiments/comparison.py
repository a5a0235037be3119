"""By how much one value is above another, and when that is more than chance."""

from typing import NamedTuple

import numpy as np
import xarray as xr

CLEAR = 0.01
"""A difference of accuracies is clear above this, one point."""
SMALL = 0.02
"""A difference of accuracies is small up to this, two points."""


class Gap(NamedTuple):
    """A difference of two values: its mean over seeds and its noise, with whatever other dimensions they have."""

    mean: xr.DataArray
    noise: xr.DataArray  # two standard errors of the mean; 0 for a single seed

    @property
    def real(self) -> xr.DataArray:
        """Above, beyond noise."""
        return self.mean > self.noise

    @property
    def clear(self) -> xr.DataArray:
        """Above by more than `CLEAR`, beyond noise."""
        return self.mean > np.maximum(CLEAR, self.noise)

    @property
    def small(self) -> xr.DataArray:
        """At most `SMALL` apart, with noise of no more than `SMALL` allowed for."""
        return abs(self.mean) <= SMALL + np.minimum(self.noise, SMALL)

    def not_below(self, allowed: float = SMALL) -> xr.DataArray:
        """Above, or below by no more than `allowed`, with noise of no more than `SMALL` allowed for."""
        return self.mean >= -(allowed + np.minimum(self.noise, SMALL))

    def sel(self, **places) -> "Gap":
        """A part of it, as `DataArray.sel` selects."""
        return Gap(*(values.sel(**places) for values in self))

    def text(self, scale: float = 100) -> str:
        """Mean and noise of a single gap, in points of accuracy unless `scale` says otherwise."""
        noise = scale * float(self.noise)
        return f"{scale * float(self.mean):+.3g}" + (f" +- {noise:.2g}" if noise else "")


def gap(one: xr.DataArray, other: xr.DataArray) -> Gap:
    """Of values with a dimension `seed`: runs of a seed start alike, so differences are taken seed by seed."""
    apart = one - other
    return Gap(apart.mean("seed"), two_errors(apart, "seed"))


def two_errors(values: xr.DataArray, dim: str) -> xr.DataArray:
    """Two standard errors of the mean over a dimension; 0 if it has one entry."""
    number = values.sizes[dim]
    return 2 * values.std(dim, ddof=1) / np.sqrt(number) if number > 1 else xr.zeros_like(values.mean(dim))


def last(values: xr.DataArray, dim: str) -> xr.DataArray:
    """The last entry of a dimension at which there is a value."""
    return values.dropna(dim, how="all").isel({dim: -1}, drop=True)
