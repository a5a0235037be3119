"""A warning that runs learned nothing, since every round failed."""

import warnings

import numpy as np
import xarray as xr

from fedjax_priv.status import describe


class EveryRoundFailed(UserWarning):
    """Every round of a run failed; the message says why."""


def warn_if_all_failed(result: xr.Dataset) -> None:
    """Warns if every round of a run failed; rounds that a run of a sweep did not have do not count.

    The warning shows the line that called `simulate` or `sweep`.
    """
    ran = result.status.notnull()
    failed = ran.any("round") & ((result.status != 0) | ~ran).all("round")
    if not failed.any():
        return
    bits = np.bitwise_or.reduce(result.status.where(failed, 0).fillna(0).values.astype(int), axis=None)
    which = f" of {int(failed.sum())} of {int(ran.any('round').sum())} runs" if failed.ndim else ""
    warnings.warn(f"every round{which} failed: {describe(int(bits))}", EveryRoundFailed, stacklevel=3)
