"""Sums that hold noise of every client in them, Skellam or discrete Gaussian."""

import math

import numpy as np
import xarray as xr

from fedjax_priv.layers.rounded_norm import squared_norm_bound
from fedjax_priv.ledger.entry import Entry, Figure, Question, no_guarantee, none, worst
from fedjax_priv.systems.releases import DistributedNoise
from fedjax_priv.theory import discrete_gaussian, skellam
from fedjax_priv.theory.neighbours import DISTANCE

ADJACENT = "replacement: what a client trained is anything else that is finite; numbers of samples are public"
THEOREMS = {
    "skellam": (
        "Corollary 3.6 of Agarwal, Kairouz and Liu 2021 for noise exactly Skellam (each number is within 2**-40; "
        "none is beyond its table, see the privacy page)"
    ),
    "discrete_gaussian": (
        "Proposition 14 of Kairouz, Liu and Steinke 2021 for noise exactly discrete Gaussian (each number is within "
        "2**-40; none is beyond its table, see the privacy page)"
    ),
}
COARSE = "noise of less than half a grid point: no bound on the law of its sums is known"


def entries(noise: DistributedNoise, question: Question) -> list[Entry]:
    """Entries for the server, a client that knows its own noise, a coalition, and for one client's noise alone."""
    if not noise.noise_variance:
        return [no_guarantee("the server, of sums", ADJACENT, "updates are clipped and no noise is added")]
    run, delta = question.run, question.delta
    arrived = who_sent(run, question.count.size)
    d = run.attrs["num_params"] if noise.num_values is None else noise.num_values

    def figure(honest: np.ndarray, neighbours: discrete_gaussian.Change, why: str) -> Figure:
        each = _divergences(noise, d, honest, neighbours)
        spent, which = np.unique(arrived.T @ each, axis=0, return_inverse=True)
        return Figure(np.array([skellam.epsilon(row, delta) for row in spent])[which.ravel()], delta, why)

    if noise.law == "discrete_gaussian" and noise.noise_variance < 0.25:
        return [no_guarantee("the server, of sums", ADJACENT, COARSE)]
    claim = none("no paper adds noise to these sums")

    def entry(view: str, who: str, honest: np.ndarray) -> Entry:
        given = f"; {noise.condition}" if noise.condition else ""
        why = f"{THEOREMS[noise.law]}, noise of {honest.min()} honest clients or more{given}"
        proved = figure(honest, "replacement", why)
        zeros = worst(figure(honest, "zero-out", ""))
        note = f"zero-out: eps {zeros:.4g} where the other input is that it sends noise alone"
        return Entry(who, ADJACENT, claim, proved, note, view)

    return [entry(*seen) for seen in _seen(noise, arrived, run.sizes["client"], question.colluding)]


def _divergences(
    noise: DistributedNoise, d: int, honest: np.ndarray, neighbours: discrete_gaussian.Change
) -> np.ndarray:
    """`[rounds, orders]`, of sums with the noise of so many honest clients."""
    longest = math.sqrt(squared_norm_bound(noise.max_norm, d, noise.failure))
    if noise.law == "skellam":
        distance = DISTANCE[neighbours] * longest
        return skellam.rdp(distance, d, honest * noise.noise_variance)
    scale = math.sqrt(noise.noise_variance)
    of = {n: discrete_gaussian.rdp(longest, d, scale, n, neighbours=neighbours) for n in set(honest.tolist())}
    return np.stack([of[n] for n in honest.tolist()])


def smallest_sum(group_size: int, threshold: int, cohort: int, arrived: np.ndarray) -> np.ndarray:
    """The fewest uploads that an opened sum can have, `[rounds]`: all that are missing may be of one group."""
    lost = -(-cohort // group_size) * group_size - arrived
    return np.maximum(group_size - lost, threshold)


def who_sent(run: xr.Dataset, num_clients: int) -> np.ndarray:
    """`[rounds, num_clients]`: whose upload arrived; a failed round counts like one whose sum was opened."""
    arrived = np.zeros((run.sizes["round"], num_clients))
    rows = np.arange(run.sizes["round"])[:, None]
    arrived[rows, run.client_id.values] = run.up_bytes.sel(phase="upload").values > 0
    return arrived


def _seen(
    noise: DistributedNoise, arrived: np.ndarray, cohort: int, colluding: int
) -> list[tuple[str, str, np.ndarray]]:
    """The view, who looks, and of how many honest clients the noise is in a sum, at least: `[rounds]`."""
    one = np.ones(len(arrived), int)
    if noise.group_size == 1:
        return [("server", "the server, which may read an upload alone", one)]
    fewest = smallest_sum(noise.group_size, noise.threshold, cohort, arrived.sum(1).astype(int))
    present = fewest - noise.byzantine
    rest = one if colluding >= noise.threshold else np.maximum(present - colluding, 1)
    return [
        ("server", "the server, of sums", np.maximum(present, 1)),
        ("device", "a client of the round, which sees the sum and knows its own noise", np.maximum(present - 1, 1)),
        *([("coalition", f"{colluding} clients of the round and the server", rest)] if colluding else []),
        ("everybody", "the server and all other clients of the round", one),
    ]
