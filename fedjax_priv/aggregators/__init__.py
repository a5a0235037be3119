"""Aggregation rules and pre-aggregation steps: from the server's rows `[g, d]` to one direction `[d]`.

- `rules/`: one rule a file.
- `pre_aggregation/`: steps from rows to rows before a rule, one a file; `pre_aggregator` chains them with a rule.
- `adapters/`: a rule chosen by number, on a few coordinates, on random projections, or computed on the host by another
  library.
- `numerics/`: order statistics, distances, covariances, clusters and subsets of rows.
- `rule_parts`: what rules have in common: missing rows, too few rows, means of chosen rows.
- `by_name`: every public rule and step, by the name a user chooses it with.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.aggregators.adapters.from_host import from_host
    from fedjax_priv.aggregators.adapters.in_sketch import in_sketch
    from fedjax_priv.aggregators.adapters.on_coordinates import on_coordinates
    from fedjax_priv.aggregators.adapters.one_of import one_of
    from fedjax_priv.aggregators.pre_aggregation.arc import arc
    from fedjax_priv.aggregators.pre_aggregation.bucketing import bucketing
    from fedjax_priv.aggregators.pre_aggregation.clipping import clipping
    from fedjax_priv.aggregators.pre_aggregation.nearest_neighbour_mixing import nearest_neighbour_mixing
    from fedjax_priv.aggregators.pre_aggregation.pre_aggregator import PreAggregator, pre_aggregated
    from fedjax_priv.aggregators.rules.bulyan import bulyan
    from fedjax_priv.aggregators.rules.caf import caf
    from fedjax_priv.aggregators.rules.centered_clipping import centered_clipping, sequential_centered_clipping
    from fedjax_priv.aggregators.rules.closest_subset import mda, smea
    from fedjax_priv.aggregators.rules.coordinate_median import coordinate_median
    from fedjax_priv.aggregators.rules.dnc import dnc
    from fedjax_priv.aggregators.rules.filter_l2 import filter_l2
    from fedjax_priv.aggregators.rules.fltrust import fltrust
    from fedjax_priv.aggregators.rules.geometric_median import geometric_median
    from fedjax_priv.aggregators.rules.krum import krum, multi_krum
    from fedjax_priv.aggregators.rules.meamed import meamed
    from fedjax_priv.aggregators.rules.mean import mean
    from fedjax_priv.aggregators.rules.monna import monna
    from fedjax_priv.aggregators.rules.norm_trimming import norm_trimming
    from fedjax_priv.aggregators.rules.sign_guard import sign_guard
    from fedjax_priv.aggregators.rules.trimmed_mean import trimmed_mean
    from fedjax_priv.aggregators.rules.weiszfeld import weiszfeld
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "PreAggregator", "arc", "bucketing", "bulyan", "caf", "centered_clipping", "clipping", "coordinate_median", "dnc",
    "filter_l2", "fltrust", "from_host", "geometric_median", "in_sketch", "krum", "mda", "meamed", "mean", "monna",
    "multi_krum", "nearest_neighbour_mixing", "norm_trimming", "on_coordinates", "one_of", "pre_aggregated",
    "sequential_centered_clipping", "sign_guard", "smea", "trimmed_mean", "weiszfeld",
]  # fmt: skip
