"""Attacks on field elements: what Byzantine clients put into a secure sum, after the quantizer and before the masks.

Nobody sees what is in a masked upload, so it may be any vector of F_q. The sum of a group with one Byzantine member can
be any vector too: after division by `levels`, any point of the grid with coordinates within q / (2 levels), whatever
the honest members hold.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import EXAMPLE, Attack, checked_rows
from fedjax_priv.attacks.on_groups import Members, members
from fedjax_priv.base import Cohort, Key, Layer
from fedjax_priv.crypto import field
from fedjax_priv.crypto.prg import expand, seed_of
from fedjax_priv.engine.client_rows import only_rows, rows_where
from fedjax_priv.keys import per_client
from fedjax_priv.layers import stateless
from fedjax_priv.layers.group_sums import field_sum
from fedjax_priv.layers.quantization import LARGEST

FieldAttack = Callable[
    [Key, UInt32[Array, "n d"], Bool[Array, " n"], Bool[Array, " n"], Int[Array, " n"]], UInt32[Array, "m d"]
]
"""`(key, elements [n, d], honest [n], byzantine [n], group [n]) -> [n, d]` or `[1, d]`: what each client would send if
it were Byzantine, any uint32, taken modulo q.

A row may depend on the honest rows, on itself and on who is in which group. Draws are by row.
"""

MOST = field.HALF


def on_field_elements(attack: FieldAttack) -> Layer:
    """Byzantine clients that take part send what `attack` returns instead of their input to this layer, `[n, d]`.

    Insert it below the quantizer and all noise, directly above the layer that sums in the field. It looks across
    clients, so the whole cohort is encoded at once. Honest clients send the same bits as without it.

    Raises:
      ValueError: `attack` is no function of five arguments or, when a round is traced, returns another shape.

    Examples:
      >>> layers = fedjax_priv.layers
      >>> attack = on_field_elements(sum_replacement(total=0))
      >>> grid = layers.quantize(2**20, 8)
      >>> send = layers.stack(quantize=grid, attack=attack, sum=layers.pairwise_masks(group_size=8))
    """
    _validate.function(5, "attacks.random_elements()", attack=attack)

    def encode(key: Key, x: UInt32[Array, "n d"], cohort: Cohort) -> UInt32[Array, "n d"]:
        byzantine = cohort.selected & cohort.byzantine
        sent = attack(key, x, cohort.selected & ~cohort.byzantine, byzantine, cohort.group)
        return rows_where(byzantine, field.canonical(checked_rows(sent, x)), x)

    return stateless(encode, whole=True)


def random_elements() -> FieldAttack:
    """Uniform field elements, drawn anew by each client: the sum of its group is uniform, and so is lost.

    Examples:
      >>> elements, honest = jnp.zeros((2, 3), jnp.uint32), jnp.array([True, False])
      >>> jax.jit(random_elements())(jax.random.key(0), elements, honest, ~honest, jnp.zeros(2, int)).dtype.name
      'uint32'
    """

    def attack(key: Key, elements: Array, honest: Array, byzantine: Array, group: Array) -> UInt32[Array, "n d"]:
        n, d = elements.shape
        return per_client(lambda key: expand(seed_of(key), "random elements", 0, d), key, jnp.arange(n))

    return attack


def sum_replacement(total: int = MOST) -> FieldAttack:
    """The sum of a group with a Byzantine member becomes `total` at every coordinate, if no member is lost.

    The attackers of a group know its honest members' elements: one of them sends `total` minus their sum, the others
    send 0. This is model replacement (Bagdasaryan et al. 2020) without its approximation that honest updates cancel.

    Args:
      total: the sum, in grid points of the quantizer, from -(q-1)/2 to (q-1)/2; the most that the field allows if not
        given.

    Raises:
      ValueError: `total` is no integer in that range.

    Examples:
      >>> elements, honest = jnp.array([[5], [7], [0]], jnp.uint32), jnp.array([True, True, False])
      >>> sent = jax.jit(sum_replacement(total=100))(jax.random.key(0), elements, honest, ~honest, jnp.zeros(3, int))
      >>> print(sent[2])  # 100 - 5 - 7
      [88]
    """
    _validate.integer(at_least=-MOST, total=total)
    if total > MOST:
        raise ValueError(f"total must be an integer from -{MOST} to {MOST}, got {total!r}")
    goal = np.uint32(int(total) % int(field.Q))

    def attack(key: Key, elements: Array, honest: Array, byzantine: Array, group: Array) -> UInt32[Array, "n d"]:
        who = members(group, honest, byzantine, len(elements))
        return _replace(jnp.full_like(elements, goal), elements, who)

    return attack


def mean_replacement(attack: Attack, levels: float | Array, num_groups: int) -> FieldAttack:
    """The means of groups with a Byzantine member become what `attack` chooses, if no member is lost.

    As `on_group_means`, but anywhere in the field: one attacker of a group sends the target minus the sum of its honest
    members' elements, the others send 0, and no check of a client's range applies. A target beyond the field
    saturates at +-(2**31 - 128) grid points, NaN at the upper end.

    Args:
      attack: on the means of groups, such as `alie()`.
      levels: grid points of the quantizer per unit. May be traced.
      num_groups: groups that the cohort draws.

    Raises:
      ValueError: `levels` is not > 0, `num_groups` is not an integer >= 1, or `attack` is no function of four arguments
        or, when a round is traced, returns another shape.

    Examples:
      >>> layers = fedjax_priv.layers
      >>> attack = on_field_elements(mean_replacement(alie(), levels=2**20, num_groups=2))
      >>> grid, masked = layers.quantize(2**20, 4), layers.pairwise_masks(2, group_size=4)
      >>> send = layers.stack(quantize=grid, attack=attack, sum=masked)
    """
    levels = _validate.positive(levels=levels)
    _validate.integer(num_groups=num_groups)
    _validate.function(4, EXAMPLE, attack=attack)

    def forge(key: Key, elements: Array, honest: Array, byzantine: Array, group: Array) -> UInt32[Array, "n d"]:
        who = members(group, honest, byzantine, num_groups)
        grid = levels * jnp.maximum(who.size, 1).astype(jnp.float32)[:, None]
        means = field.to_signed(_sums(elements, honest | byzantine, who)).astype(jnp.float32) / grid
        total = jnp.round(grid * checked_rows(attack(key, means, who.clean, who.attacked), means))
        whole = jnp.clip(jnp.where(jnp.isnan(total), LARGEST, total), -LARGEST, LARGEST).astype(jnp.int32)
        return _replace(field.from_signed(whole), elements, who)

    return forge


def _sums(elements: UInt32[Array, "n d"], which: Bool[Array, " n"], who: Members) -> UInt32[Array, "g d"]:
    sums = field_sum(who.num_groups)
    return sums.lower(sums.lift(elements, which, who.row)).value


def _replace(goal: UInt32[Array, "g d"], elements: UInt32[Array, "n d"], who: Members) -> UInt32[Array, "n d"]:
    """What each client sends so that the sums of its group are `goal`: the first attacker all that is missing."""
    n = len(elements)
    first = jax.ops.segment_min(jnp.where(who.byzantine, jnp.arange(n), n), who.row, who.num_groups)[who.row]
    missing = field.sub(goal, _sums(elements, who.honest, who))[who.row]
    return only_rows(first == jnp.arange(n), missing)
