"""What an attack on values is, with or without a memory, and the layers that insert one into a stack."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Layer, Sent, absent
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.layers import stateless
from fedjax_priv.layers.sparsification import Sparse

Attack = Callable[[Key, Float[Array, "n d"], Bool[Array, " n"], Bool[Array, " n"]], Float[Array, "m d"]]
"""`(key, updates [n, d], honest [n], byzantine [n]) -> [n, d]` or `[1, d]`: what each client would send if it were
Byzantine.

Rows of Byzantine clients are what these would send if they were honest. A row may depend on the honest rows, all of
which an attacker sees, and on itself; other rows, finite or not, must make no difference. Attackers that see their own
updates only, as in `min_max(seen="own")`, know all Byzantine rows and no honest one. Rows that are neither honest nor
Byzantine take no part in the round. Draws are by row.
"""


class FromHistory(NamedTuple):
    """An attack that also knows what earlier rounds led to.

    Examples:
      >>> follow = FromHistory(lambda key, updates, honest, byzantine, last: -last[None])  # undo the last round
      >>> print(of_a_round(follow, jnp.array([2.0]))(jax.random.key(0), jnp.ones((3, 1)), jnp.ones(3, bool), None))
      [[-2.]]
    """

    apply: Callable[..., Float[Array, "m d"]]
    """`(key, updates [n, d], honest [n], byzantine [n], last [d])`; rows as of `Attack`.

    `last` is the direction of the last round that succeeded, 0 before the first one. It is what the rule returned:
    clients read it off the models that they are given, exactly where the server's optimizer is plain SGD.
    """


AnyAttack = Attack | FromHistory
EXAMPLE = "attacks.alie()"


def check_attack(**attacks: AnyAttack) -> None:
    """Functions of an attack's arguments.

    Raises:
      ValueError: one is something else, such as a function that makes an attack.
    """
    for name, attack in attacks.items():
        if isinstance(attack, FromHistory):
            _validate.function(5, "that of attacks.relocated_perturbation()", **{f"{name}.apply": attack.apply})
        else:
            _validate.function(4, EXAMPLE, **{name: attack})


def of_a_round(attack: AnyAttack, last: PyTree) -> Attack:
    """The attack in a round after one of this direction `[d]`; (): after none.

    Raises:
      ValueError: updates `[n, d]` have another number of coordinates, when the attack is called.
    """
    if not isinstance(attack, FromHistory):
        return attack

    def now(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "m d"]:
        known = jnp.zeros(updates.shape[1], updates.dtype) if absent(last) else last
        if known.shape != updates.shape[1:]:
            raise ValueError(
                "attack must be one of a round alone where updates are shortened, such as attacks.alie(): they have "
                f"{updates.shape[1]} numbers, the direction of the last round {known.size}"
            )
        return attack.apply(key, updates, honest, byzantine, known)

    return now


def attack_layer(attack: AnyAttack, encode: Callable[[Attack, Key, Any, Cohort], Any]) -> Layer:
    """A layer without state, `encode(attack, key, x, cohort) -> y`, which gives the attack what it may remember.

    Raises:
      ValueError: `attack` is no attack.
    """
    check_attack(attack=attack)

    def advertise(key: Key, state: PyTree, cohort: Cohort, last: PyTree = ()) -> tuple[tuple, PyTree, Bits]:
        del key, state, cohort
        return (), last, {}

    def encode_and_tell(key: Key, private: tuple, last: PyTree, x: Any, cohort: Cohort) -> tuple[Any, tuple, Sent]:
        del private
        return encode(of_a_round(attack, last), key, x, cohort), (), Sent()

    remembers = isinstance(attack, FromHistory)
    return stateless(whole=True)._replace(advertise=advertise, encode=encode_and_tell, needs_last=remembers)


def checked_rows(sent: Any, x: Array) -> Array:
    """What an attack returned, a row for each client or one for all.

    Raises:
      ValueError: it has another shape.
    """
    if (shape := jnp.shape(sent)) not in (x.shape, (1, *x.shape[1:])):
        raise ValueError(f"attack must return rows of shape {x.shape} or {(1, *x.shape[1:])}, got {shape}")
    return sent


def on_updates(attack: AnyAttack) -> Layer:
    """Byzantine clients that take part send what `attack` returns instead of their input to this layer, `[n, d]`.

    Insert it in a stack at the first step a Byzantine client can tamper with: the client follows the layers above
    honestly, and the layers below process the row it chose. The layer looks across clients, so the whole cohort is
    encoded at once. Honest clients send the same bits as without it.

    Raises:
      ValueError: `attack` is no attack or, when a round is traced, returns another shape; or it knows the last
        direction, and updates have another number of coordinates where it acts, since a layer above shortens them.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> cohort = cohort_of(2)._replace(byzantine=jnp.array([False, True]))
      >>> sent, *_ = jax.jit(on_updates(sign_flip()).encode)(jax.random.key(0), (), (), jnp.ones((2, 3)), cohort)
      >>> print(sent)
      [[ 1.  1.  1.]
       [-1. -1. -1.]]
    """

    def encode(attack: Attack, key: Key, x: Float[Array, "n d"], cohort: Cohort) -> Float[Array, "n d"]:
        byzantine = cohort.selected & cohort.byzantine
        sent = attack(key, x, cohort.selected & ~cohort.byzantine, byzantine)
        return rows_where(byzantine, checked_rows(sent, x), x)

    return attack_layer(attack, encode)


def on_sparse(attack: AnyAttack, num_params: int) -> Layer:
    """`on_updates` below a sparsifier: the attack sees dense rows `[n, d]`, and the k largest values it returns are
    sent.

    Args:
      attack: on dense rows.
      num_params: coordinates of an update, d.

    Raises:
      ValueError: as `on_updates`, or `num_params` is not an integer >= 1.

    Examples:
      >>> layers = fedjax_priv.layers
      >>> attack = on_sparse(foe(), num_params=10)
      >>> send = layers.stack(top=layers.top_k(10, 2), attack=attack, send=layers.plain_sparse(10))
    """
    _validate.integer(num_params=num_params)

    def encode(attack: Attack, key: Key, x: Sparse, cohort: Cohort) -> Sparse:
        rows = jax.vmap(lambda one: jnp.zeros(num_params, one.value.dtype).at[one.position].set(one.value))(x)
        byzantine = cohort.selected & cohort.byzantine
        sent = checked_rows(attack(key, rows, cohort.selected & ~cohort.byzantine, byzantine), rows)
        sent = jnp.broadcast_to(sent, rows.shape)
        position = jax.lax.top_k(jnp.abs(sent), x.position.shape[1])[1]
        forged = Sparse(jnp.take_along_axis(sent, position, axis=1), position)
        return Sparse(*rows_where(byzantine, forged, x))

    return attack_layer(attack, encode)
