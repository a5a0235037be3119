"""The grid of the atlas: every stack by five names, and what `systems.compose` is given for it."""

import functools
import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from fedjax_priv import aggregators
from fedjax_priv.aggregators.by_name import unprotected_mean
from fedjax_priv.base import Aggregator
from fedjax_priv.systems.composition import Stack
from fedjax_priv.systems.composition.stack import Compress, Private

CLIENTS, BYZANTINE = 32, 3
TRANSPORTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "plain": {"secure": "none", "buffer_size": 1}, "SecAgg": {"secure": "secagg"},
    "buckets of 2": {"secure": "secagg", "buffer_size": 2}, "buckets of 4": {"secure": "secagg", "buffer_size": 4},
    "thresholded": {"secure": "thresholded"},
})  # fmt: skip
NOISES: Mapping[str, Private] = MappingProxyType({"none": "none", "local": "local", "Skellam": "field"})
COMPRESSIONS: Mapping[str, Compress] = MappingProxyType({
    "dense": "none", "rand-K": "common", "top-K": "top_k", "ConSpar": "conspar", "JL": "jl",
})  # fmt: skip
DROPOUTS = (0.0, 0.1, 0.3)


class Cell(NamedTuple):
    """A stack by its names."""

    transport: str
    rule: str
    noise: str
    compression: str
    dropout: float


@functools.cache
def rules(num_byzantine: int = BYZANTINE) -> dict[str, Aggregator]:
    """By name; the mean is the control, which nothing refuses."""
    mixed = lambda rule: aggregators.pre_aggregated(aggregators.nearest_neighbour_mixing(num_byzantine), rule)
    trimmed, geometric = aggregators.trimmed_mean(num_byzantine), aggregators.geometric_median()
    return {
        "mean": unprotected_mean(), "median": aggregators.coordinate_median(), "trimmed mean": trimmed,
        "geometric median": geometric, "CClip": aggregators.centered_clipping(),
        "Krum": aggregators.krum(num_byzantine), "NNM+TM": mixed(trimmed), "NNM+GM": mixed(geometric),
    }  # fmt: skip


def choices() -> dict[str, tuple]:
    """The axes."""
    return {
        "transport": tuple(TRANSPORTS), "rule": tuple(rules()), "noise": tuple(NOISES),
        "compression": tuple(COMPRESSIONS), "dropout": DROPOUTS,
    }  # fmt: skip


def stacks() -> Iterator[Cell]:
    """All 1,800."""
    return itertools.starmap(Cell, itertools.product(*choices().values()))


def compress_of(transport: str, compression: str) -> Compress:
    """What `systems.compose` calls it; a threshold counts who chose a coordinate, so clients choose their own there."""
    return "rand_k" if (transport, compression) == ("thresholded", "rand-K") else COMPRESSIONS[compression]


def stack_of(cell: Cell) -> Stack:
    """What `why_not` is asked."""
    noisy: dict[str, Any] = {} if cell.noise == "none" else {"clip": 1.0, "noise_variance": 1.0}
    return Stack(
        CLIENTS, aggregate=rules()[cell.rule], private=NOISES[cell.noise], dropout=cell.dropout,
        compress=compress_of(cell.transport, cell.compression), error_feedback=cell.compression == "top-K",
        num_byzantine=BYZANTINE, **TRANSPORTS[cell.transport], **noisy,
    )  # fmt: skip
