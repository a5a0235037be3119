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


RULES: Mapping[str, Callable[..., Aggregator]] = MappingProxyType(
    {
        "mean": unprotected_mean,
        "coordinate_median": aggregators.coordinate_median,
        "trimmed_mean": aggregators.trimmed_mean,
        "geometric_median": aggregators.geometric_median,
        "krum": aggregators.krum,
        "multi_krum": aggregators.multi_krum,
        "centered_clipping": aggregators.centered_clipping,
        "mda": aggregators.mda,
        "meamed": aggregators.meamed,
        "caf": aggregators.caf,
        "smea": aggregators.smea,
        "norm_trimming": aggregators.norm_trimming,
        "filter_l2": aggregators.filter_l2,
        "monna": monna,
    }
)
TRUSTING = frozenset({"monna"})
"""Rules that trust one client, so a row must be a client."""
PRE_AGGREGATORS: Mapping[str, Callable[..., aggregators.PreAggregator]] = MappingProxyType(
    {
        "nearest_neighbour_mixing": aggregators.nearest_neighbour_mixing,
        "bucketing": aggregators.bucketing,
        "clipping": aggregators.clipping,
        "arc": aggregators.arc,
    }
)


def told(part: Callable, num_byzantine: int, **arguments: Any) -> Any:
    """A rule or pre-aggregator, told how many clients are Byzantine if it asks and no `fraction` says it."""
    asks = "num_byzantine" in inspect.signature(part).parameters and "fraction" not in arguments
    return part(**arguments, **({"num_byzantine": num_byzantine} if asks else {}))
