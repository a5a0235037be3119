"""The mean of the rows present."""

from fedjax_priv.aggregators.rule_parts import mean_of, rule
from fedjax_priv.base import Aggregator

_MEAN = rule(lambda rows, ok: mean_of(ok, rows), lambda num_rows: 0, equivariant=True)


def mean() -> Aggregator:
    """The mean `[d]` of the rows `[g, d]` present; zero if there are none.

    It tolerates no Byzantine row: one can move it anywhere.

    Examples:
      >>> print(mean()([[1.0], [2.0], [99.0]]), mean()([[1.0], [2.0], [99.0]], present=[True, True, False]))
      [34.] [1.5]
    """
    return _MEAN


def is_mean(aggregate: Aggregator) -> bool:
    """Whether a rule is the mean, with any statement of what it tolerates."""
    return aggregate.apply is _MEAN.apply
