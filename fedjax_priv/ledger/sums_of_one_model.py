"""Sums of one model: a round that failed leaves it as it was, and the server may have opened its sum all the same.

Two such sums over different clients differ by the updates of these, exactly so if local training is deterministic.
"""

import numpy as np
import xarray as xr

from fedjax_priv.status import Status

NOTE = (
    "; sums of one model over different clients were opened, since rounds failed: if clients train it alike each time, "
    "differences may be single updates, see clients.once_per_model"
)


def sums_of_one_model(run: xr.Dataset, came: np.ndarray, enough: np.ndarray, *, grouped: bool) -> str:
    """What to add to a note about sums; empty if no two of them tell more.

    Args:
      run: its `status` says which rounds failed; without it, none did.
      came: `[rounds, num_clients]`, whose upload is in the sums of a round.
      enough: `[rounds]`, whether these are enough to open a sum.
      grouped: sums are over groups, which change from round to round.
    """
    if "status" not in run:
        return ""
    status = run["status"].values
    model = np.cumsum(status == 0) - (status == 0)  # rounds that succeeded before
    opened = enough & (status != Status.NOT_RECOVERED)
    for one in np.unique(model[status != 0]):
        sums = came[opened & (model == one)]
        if (sums if grouped else np.unique(sums, axis=0)).sum(0).max() > 1:
            return NOTE
    return ""
