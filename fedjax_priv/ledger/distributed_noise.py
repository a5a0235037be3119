"""Sums that hold noise of every client in them, Skellam or discrete Gaussian.

If fewer uploads arrive than the threshold, honest clients disclose nothing and masks hide all of them: the round costs
nothing, but for whoever knows the noise of all others. Colluders that were lost are counted as if they disclosed.
Any other failed round counts like one whose sum was opened.
"""

import math
from typing import NamedTuple

import numpy as np

from fedjax_priv.layers.rounded_norm import squared_norm_bound
from fedjax_priv.ledger.by_client import who_sent
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

    def figure(seen: _Seen, neighbours: discrete_gaussian.Change, why: str) -> Figure:
        each = _divergences(noise, d, seen.honest, neighbours)
        spent, which = np.unique((arrived * seen.opened[:, None]).T @ each, axis=0, return_inverse=True)
        return Figure(np.array([skellam.epsilon(row, delta) for row in spent])[which.ravel()], delta, why)

    if noise.law == "discrete_gaussian" and noise.noise_variance < 0.25:
        return [no_guarantee("the server, of sums", ADJACENT, COARSE)]
    claim = none("no paper adds noise to these sums")

    def entry(seen: _Seen) -> Entry:
        given = f"; {noise.condition}" if noise.condition else ""
        fewest = seen.honest[seen.opened].min() if seen.opened.any() else None
        of = "no sum was opened" if fewest is None else f"noise of {fewest} honest clients or more"
        proved = figure(seen, "replacement", f"{THEOREMS[noise.law]}, {of}{given}")
        zeros = worst(figure(seen, "zero-out", ""))
        note = f"zero-out: eps {zeros:.4g} where the other input is that it sends noise alone"
        return Entry(seen.who, ADJACENT, claim, proved, note, seen.view)

    return [entry(seen) for seen in _seen(noise, arrived, run.sizes["client"], question.colluding)]


class _Seen(NamedTuple):
    """What somebody sees of all rounds."""

    view: str
    who: str
    honest: np.ndarray  # [rounds], clients whose noise is in a sum, at least
    opened: np.ndarray  # [rounds], bool: a sum may have been opened


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


def _seen(noise: DistributedNoise, arrived: np.ndarray, cohort: int, colluding: int) -> list[_Seen]:
    """What each adversary sees."""
    number = arrived.sum(1).astype(int)
    one, always = np.ones_like(number), np.ones(number.shape, bool)
    if noise.group_size == 1:
        return [_Seen("server", "the server, which may read an upload alone", one, always)]
    fewest = smallest_sum(noise.group_size, noise.threshold, cohort, number)
    present = fewest - noise.byzantine
    rest = one if colluding >= noise.threshold else np.maximum(present - colluding, 1)
    opened, with_colluders = number >= noise.threshold, number + colluding >= noise.threshold
    device = "a client of the round, which sees the sum and knows its own noise"
    coalition = _Seen("coalition", f"{colluding} clients of the round and the server", rest, with_colluders)
    return [
        _Seen("server", "the server, of sums", np.maximum(present, 1), opened),
        _Seen("device", device, np.maximum(present - 1, 1), opened),
        *([coalition] if colluding else []),
        _Seen("everybody", "the server and all other clients of the round", one, always),
    ]
