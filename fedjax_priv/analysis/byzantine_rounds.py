"""Rounds of a run with more Byzantine clients than the rule tolerates."""

import numpy as np
import xarray as xr
from jaxtyping import Bool
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator


def uncovered_rounds(run: xr.Dataset, byzantine: ArrayLike, tolerated: int | Aggregator) -> Bool[np.ndarray, "..."]:
    """Which rounds had more Byzantine uploads than f: there the rule guarantees nothing, however well the run went.

    Args:
      run: result of `simulate` or `sweep`; clients whose upload was lost do not count.
      byzantine: which clients are Byzantine, a bool mask of the population.
      tolerated: f >= 0, with which the rule was made; or the rule itself: one such as the geometric median tolerates
        fewer where honest uploads are lost. Behind a secure sum its rows are the groups that arrived, and each
        Byzantine upload is in another one at worst.

    Returns:
      Bool, with the axes of `run.client_id` without the axis of clients: `[rounds]` for a single run. False at points
      of a sweep that were not run.

    Raises:
      ValueError: `tolerated` is neither an integer >= 0 nor a rule that says how many it tolerates, or `byzantine` is
        not a mask of all clients of the run.

    Examples:
      >>> import xarray as xr
      >>> rows, rule = ("round", "client"), fedjax_priv.aggregators.coordinate_median()
      >>> counted = np.array([[True, True, True], [True, False, True]])  # an honest client is lost in round 2
      >>> run = xr.Dataset({"client_id": (rows, [[0, 1, 2]] * 2), "counted": (rows, counted)})
      >>> uncovered_rounds(run, [True, False, False], 1).tolist()
      [False, False]
      >>> uncovered_rounds(run, [True, False, False], rule).tolist()
      [False, True]
    """
    if not isinstance(tolerated, Aggregator):
        _validate.integer(at_least=0, tolerated=tolerated)
    elif tolerated.most_byzantine is None:
        raise ValueError("tolerated must be an integer >= 0 or a rule with most_byzantine, got a rule without")
    mask, client = np.asarray(byzantine), run.client_id.fillna(0).astype(int)  # a smaller cohort of a sweep lacks some
    if mask.ndim != 1 or mask.dtype != bool or int(client.max()) >= mask.size:
        raise ValueError(
            f"byzantine must be a bool mask of all clients, more than {int(client.max())}, "
            f"got {mask.dtype} {mask.shape}"
        )
    came = run.counted == 1
    attackers = (xr.apply_ufunc(lambda number: mask[number], client) & came).sum("client").values
    return attackers > _most(tolerated, _rows(run, came))


def _rows(run: xr.Dataset, came: xr.DataArray) -> np.ndarray:
    """Of the rule: uploads, or the groups of them that arrived."""
    uploads = came.sum("client").values
    return np.minimum(uploads, (run.group_status == 0).sum("group").values) if "group_status" in run else uploads


def _most(tolerated: int | Aggregator, came: np.ndarray) -> np.ndarray:
    """By the rows that came. Of too few a rule makes no direction, and such a round fails: nobody counts in it."""
    if not isinstance(tolerated, Aggregator):
        return np.full(came.shape, tolerated)
    assert tolerated.most_byzantine is not None
    return np.array([max(tolerated.most_byzantine(number), 0) for number in range(int(came.max(initial=0)) + 1)])[came]
