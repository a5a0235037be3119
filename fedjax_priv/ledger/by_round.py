"""Eps of the rounds so far: the ledger after each round of a run."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, ClientData
from fedjax_priv.data.pool import Pool
from fedjax_priv.ledger.by_release import ledger
from fedjax_priv.ledger.entry import Entry, worst
from fedjax_priv.ledger.local_noise import ADJACENT as SAMPLE
from fedjax_priv.ledger.prefixes import by_prefix


def epsilon_by_round(
    algorithm: Algorithm,
    run: xr.Dataset,
    data: ClientData | Pool,
    *,
    delta: float,
    colluding: int = 0,
    lipschitz: float | None = None,
) -> xr.DataArray:
    """The largest proved eps of any client after each round, for every adversary of the ledger.

    In long runs some rounds get the eps of a later round, which is a bound for them too and saves time.

    Args:
      algorithm: as in `ledger`.
      run: as in `ledger`.
      data: as in `ledger`.
      delta: as in `ledger`.
      colluding: as in `ledger`.
      lipschitz: as in `ledger`.

    Returns:
      `[adversary, round]`, float64, named "epsilon": NaN where nothing is proved, and where an eps is about one round.
      Adversaries are named by view and neighbours, such as "outsider, add/remove"; `delta` is an attribute.

    Raises:
      ValueError: as `ledger`.
    """
    _validate.part(Algorithm, "systems.dp_fedavg(...)", algorithm=algorithm)
    _validate.part(xr.Dataset, "simulate(...)", run=run)
    rounds = run.sizes["round"]
    about = {"delta": delta, "colluding": colluding, "lipschitz": lipschitz}
    after = functools.cache(lambda number: ledger(algorithm, run.isel(round=slice(0, number)), data, **about))
    entries = after(rounds) if rounds else []
    values = [_of_entry(entry, place, rounds, after) for place, entry in enumerate(entries)]
    return xr.DataArray(
        np.array(values).reshape(len(entries), rounds),
        {"adversary": ("adversary", labels(entries)), "round": run["round"]},
        ("adversary", "round"),
        "epsilon",
        {"long_name": "eps of the rounds so far, at most", "units": "1", "delta": delta},
    )


def labels(entries: Sequence[Entry]) -> list[str]:
    """A short name of each entry: who looks, and what happens to a client or to one of its samples."""
    whose = lambda entry: " of a sample" if entry.adjacent == SAMPLE else ""
    return [f"{entry.view}, {entry.neighbours}{whose(entry)}" for entry in entries]


def _of_entry(entry: Entry, place: int, rounds: int, after: Callable[[int], list[Entry]]) -> np.ndarray:
    if entry.proved.epsilon is None or entry.view == "proposal":
        return np.full(rounds, np.nan)
    if entry.proved.by_round is not None:
        return entry.proved.by_round()
    return by_prefix(rounds, lambda number: worst(after(number)[place].proved))
