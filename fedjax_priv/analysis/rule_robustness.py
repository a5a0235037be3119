"""How far an attack moves an aggregation rule, measured by (delta, c)-robustness."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import EXAMPLE, Attack, checked_rows
from fedjax_priv.attacks.honest_statistics import honest_mean
from fedjax_priv.base import Aggregator, Key
from fedjax_priv.base.byzantine_clients import check_mask
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.row_norms import norms
from fedjax_priv.keys import named


class Robustness(NamedTuple):
    """The error of a rule on one set of rows. Definition 1 of FedREP is about means over random rows."""

    error: Float[Array, ""]  # ||Agg - honest mean||^2
    spread: Float[Array, ""]  # rho^2, mean of ||v_k - v_k'||^2 over pairs of honest rows
    fraction: Float[Array, ""]  # delta, the fraction of Byzantine rows
    ratio: Float[Array, ""]  # error / spread, accurate even if both underflow to 0

    @property
    def c(self) -> Float[Array, ""]:
        """`ratio / delta`; infinite or NaN without Byzantine rows, for which the definition requires error 0."""
        return self.ratio / self.fraction


def robustness(
    key: Key, rule: Aggregator, attack: Attack, updates: Float[Array, "m d"], honest: Bool[Array, " m"]
) -> Robustness:
    """The error of one call of a rule under an attack (FedREP, Definition 1).

    Args:
      key: of the attack and the rule.
      rule: called with a fresh state.
      attack: forges the rows that are not honest.
      updates: the rows that all clients would send if they were honest.
      honest: which rows are honest.

    Raises:
      ValueError: `rule` is not an aggregator, or `attack` is not a function of four arguments that returns rows of the
        shape of `updates`, or `honest` is not a bool mask of them.

    Examples:
      >>> from fedjax_priv import aggregators, attacks
      >>> updates, honest = jnp.array([[1.0], [2.0], [3.0], [2.0]]), jnp.array([True, True, True, False])
      >>> found = robustness(jax.random.key(0), aggregators.mean(), attacks.foe(10.0), updates, honest)
      >>> print(found.error)
      30.25
    """
    _validate.part(Aggregator, "aggregators.coordinate_median()", rule=rule)
    _validate.function(4, EXAMPLE, attack=attack)
    check_mask(len(updates), honest=honest)
    forged = checked_rows(attack(named(key, "attack"), updates, honest, ~honest), updates)
    sent = rows_where(honest, updates, forged)
    direction = rule(sent, jnp.ones(len(sent), bool), key=named(key, "aggregate"))
    mean, number = honest_mean(updates, honest)[0], honest.sum().astype(jnp.float32)
    away = rows_where(honest, updates - mean[None], jnp.zeros((), updates.dtype))
    error, spread = length(direction - mean), length(away) * jnp.sqrt(2 / jnp.maximum(number - 1, 1))
    return Robustness(
        error=jnp.square(error), spread=jnp.square(spread), fraction=1 - number / len(updates),
        ratio=jnp.square(error / spread),
    )  # fmt: skip


def length(x: Float[Array, "..."]) -> Float[Array, ""]:
    """Euclidean norm of all entries; squares neither overflow nor underflow in float32."""
    return norms(x.reshape(1, -1))[0]
