"""The attack: reads values and small sums of honest clients from what the server of a secure sum sees.

A survivor's residual is hidden by masks with honest surviving peers that selected the same coordinate. Residuals
therefore add up to a true sum over each connected component of those peers, and over no part of one. True sums are tiny
compared with the modulus q; other sums are tiny only by chance. So the attack reads off sums of one, two, ... residuals
of a coordinate that are tiny, without knowing b_ij. SecAgg's complete graph is one component: only the total is tiny.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int64

from fedjax_priv import _validate
from fedjax_priv.base import View
from fedjax_priv.layers.secure_sum.masked_sum import Protocol
from fedjax_priv.leakage.colluders import Colluders
from fedjax_priv.leakage.fraction import Fraction, ratio
from fedjax_priv.leakage.residual_masks import Residuals, residuals

CHUNK = 2**22
"""Number of residuals added at once."""


class Reading(NamedTuple):
    """The `k` sums that were read, smaller ones first."""

    coordinate: Int[np.ndarray, " k"]
    clients: Int[np.ndarray, "k s"]  # places in the cohort; -1 after the last
    value: Int64[np.ndarray, " k"]  # the sum of their values at the coordinate, in grid points of the quantizer
    sent: Int[np.ndarray, " d"]  # values that honest survivors sent, by coordinate
    false_hits: float  # expected number of these sums that are tiny by chance

    @property
    def size(self) -> Int[np.ndarray, " k"]:
        """Number of clients in each sum."""
        return (self.clients >= 0).sum(1)

    @property
    def read(self) -> Int[np.ndarray, "d s"]:
        """Values of honest survivors read alone, in a sum of two, ..., by coordinate."""
        read = np.zeros((len(self.sent), self.clients.shape[1]), np.int64)
        np.add.at(read, (self.coordinate, self.size - 1), self.size)
        return read

    @property
    def fraction(self) -> Fraction:
        """Of all values that honest survivors sent, those read alone, in a sum of two, ..."""
        return ratio(self.read, self.sent)


def separate(
    view: View,
    protocol: Protocol,
    *,
    bound: int,
    colluders: Colluders | None = None,
    layer: str = "mask",
    max_size: int = 3,
) -> Reading:
    """Reads what the server can from one round.

    A sum of s residuals counts as true if its magnitude is at most s * bound, after smaller sums have been removed. A
    uniform sum passes with probability p = (2 s bound + 1) / q, q the size of the modulus of `protocol`. Each sum that
    does not pass stands for p / (1 - p) that do, which `false_hits` adds up. Of sums that overlap only some are kept,
    so for s > 1 `false_hits` is an upper bound. The number of sums tried grows as the number of subsets of up to
    `max_size` of the honest survivors that send a coordinate. Runs on the host. Other arguments are those of
    `residuals`.

    Args:
      bound: largest magnitude of a client's value, in grid points of the quantizer: the attacker's guess of c times the
        largest weighted update. Larger values are missed; a larger guess costs false hits.
      max_size: largest number of clients in a sum.

    Raises:
      ValueError: `max_size` is not an integer >= 1, or `bound` is not an integer >= 0 with 2 max_size bound < q - 1; or
        as in `residuals`.
    """
    _validate.integer(max_size=max_size)
    _validate.integer(at_least=0, bound=bound)
    q = protocol.modulus.size
    if 2 * max_size * bound >= q - 1:
        most = (q - 2) // (2 * max_size)
        raise ValueError(f"bound must be at most (q - 2) / (2 max_size) = {most}, got {bound}")
    left = residuals(view, protocol, colluders, layer)
    cell = left.group.astype(np.int64) * left.num_params + left.coordinate
    rest = np.argsort(cell, kind="stable")
    found, false_hits = [], 0.0
    for size in range(1, max_size + 1):
        hits, misses = _tiny_sums(cell, left.value, rest, size, size * bound, q)
        tiny = 2 * size * bound + 1
        false_hits += misses * tiny / (q - tiny)
        found.append(hits)
        rest = rest[~np.isin(rest, hits)]
    return _reading(left, found, false_hits, max_size, q)


def _tiny_sums(
    cell: np.ndarray, value: np.ndarray, rest: np.ndarray, size: int, bound: int, q: int
) -> tuple[Int[np.ndarray, "k s"], int]:
    """Disjoint sets of `size` residuals of a cell whose sum is tiny, and the number of sums tried that are not."""
    _, start, count = np.unique(cell[rest], return_index=True, return_counts=True)
    hits, tried = [np.zeros((0, size), np.int64)], 0
    for members in np.unique(count[count >= size]).tolist():
        rows = rest[start[count == members][:, None] + np.arange(members)]
        subsets = np.array(list(itertools.combinations(range(members), size)))
        tried += len(rows) * len(subsets)
        step = max(1, CHUNK // subsets.size)
        for part in (rows[i : i + step] for i in range(0, len(rows), step)):
            tiny = np.abs(_signed_sum(value[part][:, subsets], q)) <= bound
            row, subset = np.nonzero(tiny)
            hits.append(part[row[:, None], subsets[subset]])
    hits = _disjoint(np.concatenate(hits))
    return hits, tried - len(hits)


def _signed_sum(value: np.ndarray, q: int) -> Int64[np.ndarray, "..."]:
    """Sums over the last axis modulo q, as the integers nearest to 0, which `quantize` and `wrap` mean by them."""
    total = value.astype(np.int64).sum(-1) % q
    return np.where(2 * total >= q, total - q, total)


def _disjoint(hits: Int[np.ndarray, "k s"]) -> Int[np.ndarray, "j s"]:
    """Drops a hit that overlaps an earlier one: of two that overlap, one is tiny by chance."""
    member, times = np.unique(hits, return_counts=True)
    doubtful = np.any(np.isin(hits, member[times > 1]), axis=1)
    keep, taken = np.logical_not(doubtful), set()
    for number in np.flatnonzero(doubtful):
        keep[number] = taken.isdisjoint(hits[number].tolist())
        taken.update(hits[number].tolist() if keep[number] else ())
    return hits[keep]


def _reading(left: Residuals, found: list[np.ndarray], false_hits: float, max_size: int, q: int) -> Reading:
    pad = lambda hits: np.pad(left.client[hits], ((0, 0), (0, max_size - hits.shape[1])), constant_values=-1)
    return Reading(
        coordinate=np.concatenate([left.coordinate[hits[:, 0]] for hits in found]),
        clients=np.concatenate([pad(hits) for hits in found]),
        value=np.concatenate([_signed_sum(left.value[hits], q) for hits in found]),
        sent=np.bincount(left.coordinate, minlength=left.num_params),
        false_hits=false_hits,
    )
