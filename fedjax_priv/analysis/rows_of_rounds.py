"""How good a rule is on the rows of a run, measured by (f, kappa)-robustness."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.analysis.rule_robustness import length
from fedjax_priv.base import Aggregator, Received, View
from fedjax_priv.crypto.sketch import Sketched, projection
from fedjax_priv.engine.client_rows import only_rows
from fedjax_priv.keys import keyless


class _Rows(NamedTuple):
    """The rows of a round as an array; `decoded` turns their mean into a direction."""

    value: Float[Array, "g k"]
    used: Array | tuple  # as `Received.used`
    view: View
    dense: bool

    def decoded(self, mean: Float[Array, " k"]) -> Float[Array, " d"]:
        sent, d = self.view.rows.value, self.view.direction.size
        if isinstance(sent, Sketched):
            return projection(d, mean.size, dense=self.dense).back(sent.seed[0], mean)
        if isinstance(sent, tuple):
            return jnp.zeros(d, mean.dtype).at[sent[1][0]].set(mean, mode="drop")
        if mean.size != d:
            raise ValueError(
                f"rule must be given where the rows of a round are no directions: they have {mean.size} numbers, "
                f"the direction {d}"
            )
        return mean


def kappa_run(view: View, rule: Aggregator | None = None, *, dense: bool = False) -> Float[Array, ""]:
    """`||direction - mean_S||^2 / (sum_S ||x_i - mean_S||^2 / |S|)` of a round, S its honest rows.

    A (f, kappa)-robust rule never exceeds kappa (Allouah et al. 2023). With `observe=`, a run has the ratio of every
    round. Rows are the inputs of the rule. A row is honest if it contains no upload of a Byzantine client: behind a
    secure sum, a row is the mean of a group, and honest if the group has no Byzantine members or all of them were lost.
    Such means have a smaller variance than updates of single clients. If the direction is decoded from fewer numbers
    (`fedrep`, `robajol`), the mean is decoded too, but the variance is that of the rows: after a projection from d to k
    numbers, the ratio is about d/k times the ratio of the k numbers.

    Args:
      view: of a round, as `observe` receives it.
      rule: another rule, called on the same rows from a fresh state; it must not draw. It gets an array `[g, k]` if
        clients send k numbers, and the ratio is that of these k numbers. None: the rule of the run.
      dense: as in `layers.jl`, if the system projects updates.

    Returns:
      float32. NaN if the ratio is undefined: there are fewer than two honest rows, all honest rows are equal, or the
      rule returned nan.

    Raises:
      ValueError: `view` is not the view of a round, `rule` is not an aggregator, or `rule` is None and a direction
        cannot be decoded from the rows.

    Examples:
      >>> rule = fedjax_priv.aggregators.coordinate_median()  # to compare with the system's own
      >>> observe = lambda view: {"kappa": kappa_run(view), "of_median": kappa_run(view, rule)}
      >>> # run = simulate(systems.robust_fedavg(..., observe=observe), ...); run.kappa.max(), run.kappa.median()
    """
    _validate.part(View, "the argument of observe", view=view)
    _validate.one_of((True, False), dense=dense)
    if rule is not None:
        _validate.part(Aggregator, "aggregators.coordinate_median()", rule=rule)
    if not isinstance(view.rows, Received):
        raise ValueError("view must be that of a round, as `observe` is given it, got one without the rows of the rule")
    rows = _as_arrays(view, dense)
    first = rows.value[jnp.argmax(view.honest)]
    mean, spread = _mean_and_spread(rows.value - first[None], view.honest)
    if rule is None:
        error = (view.direction - rows.decoded(first)) - rows.decoded(mean)
    else:
        received = Received(rows.value, view.rows.count, used=rows.used)
        error = (rule.apply(keyless(), rule.init(first.size), received)[0] - first) - mean
    return jnp.where(spread > 0, jnp.square(length(error) / spread), jnp.nan)


def _as_arrays(view: View, dense: bool) -> _Rows:
    """Rows `[g, k]`; 0 in absent rows, and at positions that are no coordinates of the model."""
    sent, there = view.rows.value, view.rows.count > 0
    if isinstance(sent, Sketched):
        return _Rows(only_rows(there, sent.value), (), view, dense)
    if isinstance(sent, tuple):
        used = sent[1][0] < view.direction.size
        return _Rows(jnp.where(used[None], only_rows(there, sent[0]), 0.0), used, view, dense)
    return _Rows(only_rows(there, sent), view.rows.used, view, dense)


def _mean_and_spread(rows: Float[Array, "g k"], honest: Bool[Array, " g"]) -> tuple[Array, Array]:
    """The honest mean, and the root of the honest variance, which is exactly 0 if all rows are zero."""
    number = jnp.maximum(honest.sum(), 1).astype(rows.dtype)
    mean = only_rows(honest, rows).sum(0) / number
    return mean, length(only_rows(honest, rows - mean[None])) / jnp.sqrt(number)
