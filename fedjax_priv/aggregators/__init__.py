"""Robust and plain aggregation rules, one a file, and steps before them."""

from fedjax_priv.aggregators.arc import arc
from fedjax_priv.aggregators.bucketing import bucketing
from fedjax_priv.aggregators.caf import caf
from fedjax_priv.aggregators.centered_clipping import centered_clipping
from fedjax_priv.aggregators.clipping import clipping
from fedjax_priv.aggregators.coordinate_median import coordinate_median
from fedjax_priv.aggregators.filter_l2 import filter_l2
from fedjax_priv.aggregators.from_host import from_host
from fedjax_priv.aggregators.geometric_median import geometric_median
from fedjax_priv.aggregators.krum import krum, multi_krum
from fedjax_priv.aggregators.mda import mda
from fedjax_priv.aggregators.meamed import meamed
from fedjax_priv.aggregators.mean import mean
from fedjax_priv.aggregators.monna import monna
from fedjax_priv.aggregators.nearest_neighbour_mixing import nearest_neighbour_mixing
from fedjax_priv.aggregators.norm_trimming import norm_trimming
from fedjax_priv.aggregators.on_coordinates import on_coordinates
from fedjax_priv.aggregators.one_of import one_of
from fedjax_priv.aggregators.pre_aggregated import PreAggregator, pre_aggregated
from fedjax_priv.aggregators.smea import smea
from fedjax_priv.aggregators.trimmed_mean import trimmed_mean

__all__ = [
    "PreAggregator",
    "arc",
    "bucketing",
    "caf",
    "centered_clipping",
    "clipping",
    "coordinate_median",
    "filter_l2",
    "from_host",
    "geometric_median",
    "krum",
    "mda",
    "meamed",
    "mean",
    "monna",
    "multi_krum",
    "nearest_neighbour_mixing",
    "norm_trimming",
    "on_coordinates",
    "one_of",
    "pre_aggregated",
    "smea",
    "trimmed_mean",
]
