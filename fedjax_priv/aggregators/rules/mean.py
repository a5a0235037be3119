"""The mean of the rows present."""

from fedjax_priv.aggregators.rule_parts import mean_of, rule
from fedjax_priv.base import Aggregator


def mean() -> Aggregator:
    """The mean `[d]` of the rows `[g, d]` present; zero if there are none.

    It tolerates no Byzantine row: one can move it anywhere.
    """
    return rule(lambda rows, ok: mean_of(ok, rows), lambda num_rows: 0)
