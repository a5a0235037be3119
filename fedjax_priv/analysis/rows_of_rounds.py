"""How a rule does on the rows of a run, in the terms of (f, kappa)-robustness."""

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
    """Rows as arrays, and how their mean becomes a direction."""

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
    """`||direction - mean_S||^2 / (sum_S ||x_i - mean_S||^2 / |S|)` of a round, S its honest rows: how close it came to
    the worst case that a (f, kappa)-robust rule allows, which is kappa (Allouah et al. 2023).

    For `observe=`: a run then has the ratio of every round. Rows are those that the rule was given. An honest one holds
    no upload of a Byzantine client: behind a secure sum it is the mean of a group without Byzantine members, or whose
    Byzantine members were lost. Where the direction is decoded from fewer numbers (`fedrep`, `robajol`), so is the
    mean, while the variance is that of the rows: after a projection to k of d numbers the ratio is about d/k times
    that of the k numbers. Rows of a secure sum are means, so their variance is smaller than that of clients.

    Args:
      view: of a round, as `observe` is given it.
      rule: another rule, tried on the same rows, from a fresh state; it must not draw. It gets them as arrays, `[g, k]`
        if k numbers are sent, and its kappa is one of these numbers. None: what the rule of the run did.
      dense: of the system's projection, if it has one (`layers.jl`).

    Returns:
      float32. NaN where the ratio is undefined: no honest row, a single one, or equal ones; or the rule gave no number.

    Raises:
      ValueError: `view` is none of a round, `rule` is no aggregator, or none is given and rows are no directions.

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
    """Rows `[g, k]`; 0 where one is absent, and at positions that are no coordinates."""
    sent, there = view.rows.value, view.rows.count > 0
    if isinstance(sent, Sketched):
        return _Rows(only_rows(there, sent.value), (), view, dense)
    if isinstance(sent, tuple):
        used = sent[1][0] < view.direction.size
        return _Rows(jnp.where(used[None], only_rows(there, sent[0]), 0.0), used, view, dense)
    return _Rows(only_rows(there, sent), view.rows.used, view, dense)


def _mean_and_spread(rows: Float[Array, "g k"], honest: Bool[Array, " g"]) -> tuple[Array, Array]:
    """The honest mean, and the root of the honest variance; that of equal rows is 0 if they are given as zeros."""
    number = jnp.maximum(honest.sum(), 1).astype(rows.dtype)
    mean = only_rows(honest, rows).sum(0) / number
    return mean, length(only_rows(honest, rows - mean[None])) / jnp.sqrt(number)
