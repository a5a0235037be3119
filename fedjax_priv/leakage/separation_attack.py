"""The attack: values and small sums of honest clients, read from what the server of a secure sum sees.

A survivor's residual hides behind masks with honest surviving peers that selected the same coordinate, so residuals add
up to a true sum over each connected component of those peers, and over no part of one. True sums are tiny against q;
others are only by chance. So sums of one, two, ... residuals of a coordinate that are tiny are read off, and b_ij need
not be known. On SecAgg's complete graph there is one component, and only the total is tiny.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int64

from fedjax_priv import _validate
from fedjax_priv.base import View
from fedjax_priv.crypto.field import Q
from fedjax_priv.layers.secure_sum.masked_sum import Protocol
from fedjax_priv.leakage.colluders import Colluders
from fedjax_priv.leakage.fraction import Fraction, ratio
from fedjax_priv.leakage.residual_masks import Residuals, residuals

CHUNK = 2**22
"""Residuals added at once."""


class Reading(NamedTuple):
    """What was read, `k` sums, the smaller first."""

    coordinate: Int[np.ndarray, " k"]
    clients: Int[np.ndarray, "k s"]  # places in the cohort; -1 behind the last
    value: Int64[np.ndarray, " k"]  # the sum of their values at the coordinate, in grid points of the quantizer
    sent: Int[np.ndarray, " d"]  # values that honest survivors sent, by coordinate
    false_hits: float  # expected number of sums above that are tiny by chance

    @property
    def size(self) -> Int[np.ndarray, " k"]:
        """Clients in each sum."""
        return (self.clients >= 0).sum(1)

    @property
    def read(self) -> Int[np.ndarray, "d s"]:
        """Values of honest survivors that were read alone, in a sum of two, ..., by coordinate."""
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
    """Reads what the server of one round can, in the groups that were recovered.

    A sum of s residuals is taken for a true one if its magnitude is at most s * bound, once smaller sums are taken out;
    a uniform one is so with probability (2 s bound + 1) / q, which `false_hits` adds up. The number of sums that are
    tried grows as that of the subsets of up to `max_size` of the honest survivors that send a coordinate. Runs on the
    host. Where masks are elided there is nothing to separate: uploads are the values.

    Args:
      view: what the server sees of a round, as kept by `observe=lambda view: view`.
      protocol: the public terms of the layer of masks.
      bound: largest magnitude of a client's value, in grid points of the quantizer: an attacker's guess of c times the
        largest weighted update. Values beyond it are missed; a larger guess costs false hits.
      colluders: users that pool what they know with the server; None is the server alone.
      layer: name of the layer of masks.
      max_size: most clients of a sum.

    Raises:
      ValueError: `max_size` is no integer >= 1, `bound` none >= 0 with 2 max_size bound < q; or as `residuals`.
    """
    _validate.integer(max_size=max_size)
    _validate.integer(at_least=0, bound=bound)
    if 2 * max_size * bound >= int(Q):
        raise ValueError(f"bound must be below q / (2 max_size) = {int(Q) / (2 * max_size):.0f}, got {bound}")
    left = residuals(view, protocol, colluders, layer)
    cell = left.group.astype(np.int64) * left.num_params + left.coordinate
    rest = np.argsort(cell, kind="stable")
    found, false_hits = [], 0.0
    for size in range(1, max_size + 1):
        hits, misses = _tiny_sums(cell, left.value, rest, size, size * bound)
        false_hits += misses * (2 * size * bound + 1) / int(Q)
        found.append(hits)
        rest = rest[~np.isin(rest, hits)]
    return _reading(left, found, false_hits, max_size)


def _tiny_sums(
    cell: np.ndarray, value: np.ndarray, rest: np.ndarray, size: int, bound: int
) -> tuple[Int[np.ndarray, "k s"], int]:
    """Disjoint sets of `size` residuals of a cell whose sum is tiny; and how many sums that were tried are not."""
    _, start, count = np.unique(cell[rest], return_index=True, return_counts=True)
    hits, tried = [np.zeros((0, size), np.int64)], 0
    for members in np.unique(count[count >= size]).tolist():
        rows = rest[start[count == members][:, None] + np.arange(members)]
        subsets = np.array(list(itertools.combinations(range(members), size)))
        tried += len(rows) * len(subsets)
        step = max(1, CHUNK // subsets.size)
        for part in (rows[i : i + step] for i in range(0, len(rows), step)):
            tiny = np.abs(_signed_sum(value[part][:, subsets])) <= bound
            row, subset = np.nonzero(tiny)
            hits.append(part[row[:, None], subsets[subset]])
    hits = _disjoint(np.concatenate(hits))
    return hits, tried - len(hits)


def _signed_sum(value: np.ndarray) -> Int64[np.ndarray, "..."]:
    """Sums over the last axis in F_q, as integers around 0."""
    total = value.astype(np.int64).sum(-1) % int(Q)
    return np.where(total > int(Q) // 2, total - int(Q), total)


def _disjoint(hits: Int[np.ndarray, "k s"]) -> Int[np.ndarray, "j s"]:
    """Those that share nothing with an earlier one: of two that overlap one is tiny by chance."""
    member, times = np.unique(hits, return_counts=True)
    doubtful = np.any(np.isin(hits, member[times > 1]), axis=1)
    keep, taken = np.logical_not(doubtful), set()
    for number in np.flatnonzero(doubtful):
        keep[number] = taken.isdisjoint(hits[number].tolist())
        taken.update(hits[number].tolist() if keep[number] else ())
    return hits[keep]


def _reading(left: Residuals, found: list[np.ndarray], false_hits: float, max_size: int) -> Reading:
    pad = lambda hits: np.pad(left.client[hits], ((0, 0), (0, max_size - hits.shape[1])), constant_values=-1)
    return Reading(
        coordinate=np.concatenate([left.coordinate[hits[:, 0]] for hits in found]),
        clients=np.concatenate([pad(hits) for hits in found]),
        value=np.concatenate([_signed_sum(left.value[hits]) for hits in found]),
        sent=np.bincount(left.coordinate, minlength=left.num_params),
        false_hits=false_hits,
    )
