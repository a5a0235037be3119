"""What clients spend in the rounds of a run: places of a cohort are other clients from round to round."""

import numpy as np
import xarray as xr


def came(run: xr.Dataset) -> np.ndarray:
    """`[rounds, places]`, bool: whose upload arrived, in failed rounds too."""
    return run.up_bytes.sel(phase="upload").values > 0


def who_sent(run: xr.Dataset, num_clients: int) -> np.ndarray:
    """The same by client, `[rounds, num_clients]`, 0 or 1."""
    arrived = np.zeros((run.sizes["round"], num_clients))
    arrived[np.arange(run.sizes["round"])[:, None], run.client_id.values] = came(run)
    return arrived


def rounds_apart(run: xr.Dataset) -> float:
    """The fewest rounds from one upload of a client that arrived to its next; inf where none sent two."""
    rounds, places = np.nonzero(came(run))
    client = run.client_id.values[rounds, places]
    order = np.lexsort((rounds, client))
    again = np.diff(client[order]) == 0
    apart = np.diff(rounds[order])[again]
    return float(apart.min()) if apart.size else np.inf


def spent_by_client(squares: np.ndarray, client: np.ndarray, num_clients: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of each client, `[n]`, and the largest of any after each round, `[rounds]`.

    Args:
      squares: `[rounds, places]`, >= 0: what a place of the cohort spends.
      client: `[rounds, places]`, whose place it is, nobody's twice in a round.
      num_clients: n.

    Examples:
      >>> spent, most = spent_by_client(np.array([[1.0, 2.0], [4.0, 0.5]]), np.array([[0, 1], [1, 2]]), 3)
      >>> print(spent, most)
      [1.  6.  0.5] [2. 6.]
    """
    spent, most = np.zeros(num_clients), np.zeros(len(squares))
    for number, (who, here) in enumerate(zip(client, squares, strict=True)):
        spent[who] += here
        most[number] = spent[who].max(initial=0)
    return spent, np.maximum.accumulate(most)
