"""Sums that hold a share of Skellam noise from every client in them.

Terms: `noise_variance` of a share and `max_norm` of what a client sends, in grid points; `num_values` that it sends,
all parameters if None; `group_size` clients in a sum, where one is an upload seen alone; `threshold` clients that open
a sum, or together every upload; `byzantine` clients, who may leave their noise out; a `condition` in words, or "".
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from fedjax_priv.layers.noise_skellam import squared_norm_bound
from fedjax_priv.ledger.entry import Entry, Figure, none, worst
from fedjax_priv.theory import skellam

NEIGHBOURS = "what a client trained is anything else that is finite; numbers of samples are public"
THEOREM = "Corollary 3.6 of Agarwal, Kairouz and Liu 2021 for noise exactly Skellam (each number is within 2**-40)"


def entries(
    terms: Mapping[str, Any], run: xr.Dataset, num_clients: int, *, delta: float, colluding: int
) -> list[Entry]:
    """Of who sees the sums, of a client that knows its own noise, of a coalition, and of one's own noise alone."""
    if not terms["noise_variance"]:
        why = none("updates are clipped and no noise is added")
        return [Entry("the server, of sums", NEIGHBOURS, why, why)]
    arrived = _arrived(run, num_clients)
    d = run.attrs["num_params"] if terms["num_values"] is None else terms["num_values"]
    longest = math.sqrt(squared_norm_bound(terms["max_norm"], d))

    def figure(honest: np.ndarray, distance: float, why: str) -> Figure:
        each = skellam.rdp(distance, d, honest * terms["noise_variance"])
        spent, which = np.unique(arrived.T @ each, axis=0, return_inverse=True)
        return Figure(np.array([skellam.epsilon(row, delta) for row in spent])[which.ravel()], delta, why)

    claim = none("no paper adds noise to these sums")

    def entry(view: str, who: str, honest: np.ndarray) -> Entry:
        given = f"; {terms['condition']}" if terms["condition"] else ""
        proved = figure(honest, 2 * longest, f"{THEOREM}, noise of {honest.min()} honest clients or more{given}")
        zeros = worst(figure(honest, longest, ""))
        note = f"eps {zeros:.4g} where the other input is that it sends noise alone"
        return Entry(who, NEIGHBOURS, claim, proved, note, view)

    return [entry(*seen) for seen in _seen(terms, arrived, run.sizes["client"], colluding)]


def _arrived(run: xr.Dataset, num_clients: int) -> np.ndarray:
    """`[rounds, num_clients]`: whose upload arrived, in a failed round too, as if its sum had been opened."""
    arrived = np.zeros((run.sizes["round"], num_clients))
    rows = np.arange(run.sizes["round"])[:, None]
    arrived[rows, run.client_id.values] = run.up_bytes.sel(phase="upload").values > 0
    return arrived


def _seen(
    terms: Mapping[str, Any], arrived: np.ndarray, cohort: int, colluding: int
) -> list[tuple[str, str, np.ndarray]]:
    """The view, who looks, and of how many honest clients the noise is in a sum, at least: `[rounds]`."""
    one = np.ones(len(arrived), int)
    if terms["group_size"] == 1:
        return [("server", "the server, which may read an upload alone", one)]
    lost = cohort - arrived.sum(1).astype(int)
    present = np.maximum(terms["group_size"] - lost, terms["threshold"]) - terms["byzantine"]
    rest = one if colluding >= terms["threshold"] else np.maximum(present - colluding, 1)
    return [
        ("server", "the server, of sums", np.maximum(present, 1)),
        ("device", "a client of the round, which sees the sum and knows its own noise", np.maximum(present - 1, 1)),
        *([("coalition", f"{colluding} clients of the round and the server", rest)] if colluding else []),
        ("everybody", "the server and all other clients of the round", one),
    ]
