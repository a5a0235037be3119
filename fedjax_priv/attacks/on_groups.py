"""Attacks on what the server sees of a secure sum: the means of groups, which FedREP calls buffers.

A rule behind a secure sum compares rows that are means of `s` clients. An attack on single updates is weak there: ALIE
moves a row by `z std / s`, and honest rows differ by `std / sqrt(s)`. Here the attack chooses the rows themselves.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import AnyAttack, Attack, attack_layer, checked_rows
from fedjax_priv.attacks.on_values.searched import Respond
from fedjax_priv.base import Aggregator, Cohort, Key, Layer
from fedjax_priv.engine.client_rows import only_rows, rows_where
from fedjax_priv.keys import named, per_client


class Members(NamedTuple):
    """Who is in which group, as the attackers know it; groups are numbered by their first client."""

    row: Int[Array, " n"]  # the group of each client
    honest: Bool[Array, " n"]  # takes part, and is
    byzantine: Bool[Array, " n"]
    num_groups: int

    def number(self, which: Bool[Array, " n"]) -> Int[Array, " g"]:
        """How many of these clients a group has."""
        return jax.ops.segment_sum(which.astype(jnp.int32), self.row, self.num_groups)

    @property
    def size(self) -> Int[Array, " g"]:
        """Clients of a group that take part."""
        return self.number(self.honest | self.byzantine)

    @property
    def attacked(self) -> Bool[Array, " g"]:
        """Whether a group has a Byzantine member."""
        return self.number(self.byzantine) > 0

    @property
    def clean(self) -> Bool[Array, " g"]:
        """Whether it has honest members only."""
        return (self.size > 0) & ~self.attacked


def members(
    group: Int[Array, " n"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"], num_groups: int
) -> Members:
    """Groups in the order of their first clients: if each has one client, rows are clients in their order."""
    first = jax.ops.segment_min(jnp.arange(group.size), group, num_groups)
    return Members(jnp.argsort(jnp.argsort(first))[group], honest, byzantine, num_groups)


def on_group_means(attack: AnyAttack, num_groups: int, *, largest: float | Array = jnp.inf) -> Layer:
    """Byzantine clients choose the means of their groups: the `k` of a group of `s` that is to have the mean `t` each
    send `(s t - sum of its honest members) / k`.

    `attack` sees the means of all groups `[g, d]`, those without a Byzantine member as the honest rows, and returns the
    `t`. The attackers know the honest updates and who is in which group; they do not know whose upload will be lost,
    and a group that loses one has another mean. If each client is a group, this is `on_updates(attack)`. The layer
    looks across clients, so the whole cohort is encoded at once.

    Args:
      attack: on rows that are means of groups, such as `alie()` or `optimal_foe(rule)`.
      num_groups: g, as the cohort draws them.
      largest: the largest magnitude that a Byzantine client sends, cut by coordinate; behind a quantizer
        `(q-1) / 2 / (s levels)`, beyond which sums wrap. `mean_replacement` has no such limit. May be traced.

    Raises:
      ValueError: `num_groups` is not an integer >= 1, `largest` is not > 0 (a traced one is sent as NaN), or `attack`
        is refused by `on_updates`.

    Examples:
      >>> layers = fedjax_priv.layers
      >>> attack = on_group_means(alie(), 8)
      >>> send = layers.stack(attack=attack, average=layers.average(), send=layers.plain(8))
    """
    _validate.integer(num_groups=num_groups)
    most = _validate.above_zero(largest=largest)

    def encode(attack: Attack, key: Key, x: Float[Array, "n d"], cohort: Cohort) -> Float[Array, "n d"]:
        take_part, byzantine = cohort.selected, cohort.selected & cohort.byzantine
        who = members(cohort.group, take_part & ~cohort.byzantine, byzantine, num_groups)
        sums = lambda which: jax.ops.segment_sum(only_rows(which, x), who.row, num_groups)
        size = who.size.astype(x.dtype)[:, None]
        means = sums(take_part) / jnp.maximum(size, 1)
        sent = checked_rows(attack(key, means, who.clean, who.attacked), means)
        total = size * sent - sums(who.honest)
        each = total / jnp.maximum(who.number(byzantine), 1).astype(x.dtype)[:, None]
        return rows_where(byzantine, jnp.clip(each, -most, most)[who.row], x)

    return attack_layer(attack, encode)


def before_groups(search: Callable[[Respond], Attack], rule: Aggregator, num_groups: int, *, draws: int = 16) -> Attack:
    """A searched attack by clients who do not know the groups yet: they try it on random ones and average the distance.

    Args:
      search: from the server's defence to the attack: `optimal_foe`, `optimal_alie`, or `furthest` on a line.
      rule: the server's rule on the means of groups.
      num_groups: g; their sizes differ by at most one.
      draws: random groupings over which the distance is averaged; for each the rule draws anew.

    Raises:
      ValueError: a number is not an integer >= 1.

    Examples:
      >>> rule = fedjax_priv.aggregators.coordinate_median()
      >>> attack = on_updates(before_groups(optimal_alie, rule, num_groups=5))
    """
    _validate.function(1, "attacks.optimal_alie", search=search)
    _validate.part(Aggregator, "aggregators.coordinate_median()", rule=rule)
    _validate.integer(num_groups=num_groups, draws=draws)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "m d"]:
        there = honest | byzantine
        draw = lambda key: _grouping(key, there, num_groups)
        groups = jax.vmap(draw)(jax.random.split(named(key, "groups"), draws))
        keys = jax.random.split(named(key, "rule"), draws)

        def respond(rows: Float[Array, "n d"]) -> Float[Array, "k d"]:
            def one(drawn: tuple[Int[Array, " n"], Key]) -> Float[Array, " d"]:
                group, key = drawn
                number = jax.ops.segment_sum(there.astype(jnp.int32), group, num_groups)
                sums = jax.ops.segment_sum(only_rows(there, rows), group, num_groups)
                return rule(sums / jnp.maximum(number, 1).astype(rows.dtype)[:, None], number > 0, key=key)

            return jax.lax.map(one, (groups, keys))

        return search(respond)(named(key, "search"), updates, honest, byzantine)

    return attack


def _grouping(key: Key, there: Bool[Array, " n"], num_groups: int) -> Int[Array, " n"]:
    """A uniform grouping of these clients; the others make no difference to it."""
    place = per_client(jax.random.uniform, key, jnp.arange(there.size))
    return jnp.argsort(jnp.argsort(jnp.where(there, place, jnp.inf))) % num_groups
