"""MDA and SMEA: the mean of the `M - f` rows that lie closest together."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

from fedjax_priv.aggregators.numerics.covariance import about_mean, top_pair
from fedjax_priv.aggregators.numerics.row_distances import both, distances, geometry
from fedjax_priv.aggregators.numerics.subsets import best_subset
from fedjax_priv.aggregators.rule_parts import mean_of, minority, rule
from fedjax_priv.base import Aggregator


def mda(num_byzantine: int) -> Aggregator:
    """Minimum diameter averaging: the mean of the `M - f` rows with the least largest distance (El Mhamdi et al. 2020).

    It tolerates `f < M/2`. If several subsets have the least diameter, the first in the order of
    `itertools.combinations` is taken, as in ByzFL.

    Args:
      num_byzantine: Byzantine rows to tolerate, `f`; if `2f >= M`, the direction is NaN.

    Raises:
      ValueError: `num_byzantine` is not an integer >= 0, or there are more than 50,000 subsets of `g` rows.

    Examples:
      >>> print(mda(1)([[1.0], [2.0], [3.0], [99.0]]))
      [2.]
    """

    def diameter(rows: Array, ok: Array) -> Callable[[Array], Array]:
        distance = distances(rows, ok)
        return lambda mask: jnp.where(both(mask), distance, 0.0).max()

    return _mean_of_closest(num_byzantine, diameter)


def smea(num_byzantine: int) -> Aggregator:
    """Smallest maximum eigenvalue averaging: the mean of `M - f` rows (Allouah et al. 2023, SMEA).

    It takes the rows whose covariance has the least top eigenvalue, computed exactly; ByzFL takes one step of a power
    iteration from a random start. Arguments and errors are those of `mda`.

    Examples:
      >>> print(smea(1)([[1.0], [2.0], [3.0], [99.0]]))
      [2.]
    """

    def top_eigenvalue(rows: Array, ok: Array) -> Callable[[Array], Array]:
        places = geometry(rows, ok)

        def of_subset(mask: Array) -> Array:
            """Of its scatter matrix; infinite if one of its rows is infinitely far."""
            scatter = jnp.where(both(mask), about_mean(places.gram, mask.astype(places.gram.dtype)), 0.0)
            known = jnp.where(mask, places.near, True).all()
            return jnp.where(known, top_pair(scatter)[0], jnp.inf)

        return of_subset

    return _mean_of_closest(num_byzantine, top_eigenvalue)


def _mean_of_closest(num_byzantine: int, spread: Callable[[Array, Array], Callable[[Array], Array]]) -> Aggregator:
    """The mean of the subset of least spread; `spread(rows, ok)` gives that of a subset `mask [g]`."""
    direct = lambda rows, ok: mean_of(best_subset(spread(rows, ok), num_byzantine, ok), rows)
    return rule(direct, minority(num_byzantine), equivariant=True)
