"""Rounds of a run with more Byzantine clients than the rule tolerates."""

import numpy as np
import xarray as xr
from jaxtyping import Bool
from numpy.typing import ArrayLike

from fedjax_priv import _validate


def uncovered_rounds(run: xr.Dataset, byzantine: ArrayLike, tolerated: int) -> Bool[np.ndarray, "..."]:
    """Which rounds had more Byzantine uploads than f: there the rule guarantees nothing, however well the run went.

    Args:
      run: result of `simulate` or `sweep`; clients whose upload was lost do not count.
      byzantine: which clients are Byzantine, a bool mask of the population.
      tolerated: f >= 0, with which the rule was made.

    Returns:
      Bool, with the axes of `run.client_id` without the axis of clients: `[rounds]` for a single run. False at points
      of a sweep that were not run.

    Raises:
      ValueError: `tolerated` is not an integer >= 0, or `byzantine` is not a mask of all clients of the run.
    """
    _validate.integer(at_least=0, tolerated=tolerated)
    mask, client = np.asarray(byzantine), run.client_id.fillna(0).astype(int)  # a smaller cohort of a sweep lacks some
    if mask.ndim != 1 or mask.dtype != bool or int(client.max()) >= mask.size:
        raise ValueError(
            f"byzantine must be a bool mask of all clients, more than {int(client.max())}, "
            f"got {mask.dtype} {mask.shape}"
        )
    came = xr.apply_ufunc(lambda number: mask[number], client) & (run.counted == 1)
    return (came.sum("client") > tolerated).values
