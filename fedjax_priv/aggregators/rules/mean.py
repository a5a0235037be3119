"""The mean of the rows that are there."""

from fedjax_priv.aggregators.rule_parts import mean_of, rule
from fedjax_priv.base import Aggregator


def mean() -> Aggregator:
    """`[g, d] -> [d]`, over the rows with uploads; zero where there are none. One row is its own mean.

    One Byzantine row moves it anywhere.
    """
    return rule(lambda rows, ok: mean_of(ok, rows), lambda num_rows: 0)
