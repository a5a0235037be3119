"""Sums of one model: a round that failed leaves it as it was, and the server may have opened its sum all the same.

Two such sums over different clients differ by the updates of these, exactly so if local training is deterministic. The
same clients may be in two sums that differ, too: each coordinate has its own clients where these choose what they send,
groups change, and updates of asynchronous rounds have factors that depend on their staleness.
"""

import numpy as np
import xarray as xr

from fedjax_priv.status import Status

NOTE = (
    "; sums of one model over different clients were opened, since rounds failed: if clients train it alike each time, "
    "differences may be single updates, see clients.once_per_model"
)
_NOTHING = np.iinfo(np.int64).min


def sums_of_one_model(
    run: xr.Dataset, came: np.ndarray, enough: np.ndarray, *, changing: bool, colluding: int = 0
) -> str:
    """What to add to a note about sums; empty if no two of them tell more.

    Args:
      run: its `status` says which rounds failed; without it, none did.
      came: `[rounds, num_clients]`, whose upload is in the sums of a round.
      enough: `[rounds]`, whether these are enough to open a sum.
      changing: two rounds of the same clients may have other sums: over groups, or by coordinate.
      colluding: with colluders, a round to which too few clients answered may be open: they hold shares.
    """
    if "status" not in run:
        return ""
    status = run["status"].values
    opened = enough if colluding else enough & (status != Status.NOT_RECOVERED)
    trained = np.where(came > 0, _models(run, came.shape[1]), _NOTHING)[opened]
    if not changing and "staleness" not in run:
        trained = np.unique(trained, axis=0)
    ordered = np.sort(trained, axis=0)
    again = (ordered[1:] == ordered[:-1]) & (ordered[1:] != _NOTHING)
    return NOTE if again.any() else ""


def _models(run: xr.Dataset, num_clients: int) -> np.ndarray:
    """`[rounds, num_clients]`, the number of the model that each client of a round trained; rounds that fail make none.

    A round's version of the model is that many rounds old. Models from before the run are all different.
    """
    rounds = np.arange(run.sizes["round"])[:, None]
    version = np.repeat(rounds, num_clients, axis=1)
    if "staleness" in run:
        version[rounds, run["client_id"].values] -= run["staleness"].values.astype(int)
    made = np.append(0, np.cumsum(run["status"].values == 0))
    return np.where(version < 0, version, made[np.maximum(version, 0)])
