"""A warning of runs that learned nothing, since each of their rounds failed."""

import warnings

import numpy as np
import xarray as xr

from fedjax_priv.status import describe


class EveryRoundFailed(UserWarning):
    """A run has no round that did not fail; the message says why."""


def warn_if_all_failed(result: xr.Dataset) -> None:
    """Warn in the name of the caller's caller; rounds that only other points of a sweep have do not count."""
    ran = result.status.notnull()
    failed = ran.any("round") & ((result.status != 0) | ~ran).all("round")
    if not failed.any():
        return
    bits = np.bitwise_or.reduce(result.status.where(failed, 0).fillna(0).values.astype(int), axis=None)
    which = f" of {int(failed.sum())} of {int(ran.any('round').sum())} runs" if failed.ndim else ""
    warnings.warn(f"every round{which} failed: {describe(int(bits))}", EveryRoundFailed, stacklevel=3)
