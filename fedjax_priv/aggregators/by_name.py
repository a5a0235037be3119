"""The registry of rules and pre-aggregators: every public one, by the name a user chooses it with."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fedjax_priv import aggregators
from fedjax_priv.base import Aggregator


def unprotected_mean() -> Aggregator:
    """The mean, which no system refuses: what attacks cost without a robust rule."""
    return aggregators.mean()._replace(most_byzantine=None)


def monna(num_byzantine: int, *, pivot: int | None = None) -> Aggregator:
    """As `aggregators.monna`.

    Args:
      num_byzantine: clients 0 to f - 1 are Byzantine.
      pivot: number of the trusted client; the first honest one if not given.
    """
    return aggregators.monna(num_byzantine, pivot=num_byzantine if pivot is None else pivot)


def fltrust(num_byzantine: int, *, pivot: int | None = None) -> Aggregator:
    """As `aggregators.fltrust`, with a client that holds the server's data.

    Args:
      num_byzantine: clients 0 to f - 1 are Byzantine.
      pivot: number of the client whose update is the reference; the first honest one if not given.
    """
    return aggregators.fltrust(pivot=num_byzantine if pivot is None else pivot)


def _named(*functions: Callable) -> dict[str, Callable]:
    return {function.__name__: function for function in functions}


RULES: Mapping[str, Callable[..., Aggregator]] = MappingProxyType({"mean": unprotected_mean} | _named(
    aggregators.coordinate_median, aggregators.trimmed_mean, aggregators.geometric_median, aggregators.weiszfeld,
    aggregators.krum,
    aggregators.multi_krum, aggregators.centered_clipping, aggregators.mda, aggregators.meamed, aggregators.caf,
    aggregators.smea, aggregators.norm_trimming, aggregators.filter_l2, monna,
    aggregators.bulyan, aggregators.dnc, aggregators.sign_guard, aggregators.sequential_centered_clipping, fltrust,
))  # fmt: skip
TRUSTING = frozenset({"monna", "fltrust"})
"""Rules that trust one client, so a row must be a client."""
PRE_AGGREGATORS: Mapping[str, Callable[..., aggregators.PreAggregator]] = MappingProxyType(_named(
    aggregators.nearest_neighbour_mixing, aggregators.bucketing, aggregators.clipping, aggregators.arc,
))  # fmt: skip


def told(part: Callable, num_byzantine: int, **arguments: Any) -> Any:
    """A rule or pre-aggregator, told how many clients are Byzantine if it asks and no `fraction` says it."""
    asks = "num_byzantine" in inspect.signature(part).parameters and "fraction" not in arguments
    return part(**arguments, **({"num_byzantine": num_byzantine} if asks else {}))
