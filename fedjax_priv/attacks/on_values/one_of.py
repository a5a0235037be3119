"""An attack chosen by number: many attacks in one compiled program."""

from collections.abc import Callable, Sequence
from typing import overload

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from fedjax_priv.attacks.attack_layers import AnyAttack, Attack, FromHistory, check_attack, of_a_round
from fedjax_priv.base import Key
from fedjax_priv.engine import batched_switch


@overload
def one_of(index: ArrayLike, attacks: Sequence[Attack]) -> Attack: ...
@overload
def one_of(index: ArrayLike, attacks: Sequence[AnyAttack]) -> AnyAttack: ...
def one_of(index: ArrayLike, attacks: Sequence[AnyAttack]) -> AnyAttack:
    """The attack `attacks[index]`. Under `vmap`, as in a sweep over `index`, each member runs only its own attack.

    Args:
      index: from 0, int or float; may be traced. A traced index out of range sends NaN.
      attacks: to choose from. If one knows the last direction, so does what is returned.

    Raises:
      ValueError: `attacks` is empty or holds something else than attacks, or `index` is out of range.

    Examples:
      >>> updates, honest = jnp.array([[1.0], [3.0]]), jnp.array([True, False])
      >>> print(jax.jit(one_of(1, [sign_flip(), foe(2.0)]))(jax.random.key(0), updates, honest, ~honest)[-1])
      [-2.]
    """
    at, known = batched_switch.number(index, attacks)
    check_attack(**{f"attacks[{i}]": attack for i, attack in enumerate(attacks)})

    def attack(
        key: Key,
        updates: Float[Array, "n d"],
        honest: Bool[Array, " n"],
        byzantine: Bool[Array, " n"],
        last: Float[Array, " d"],
    ) -> Float[Array, "n d"]:
        def as_rows(one: AnyAttack) -> Callable[..., Float[Array, "n d"]]:
            return lambda last, *args: jnp.broadcast_to(of_a_round(one, last)(*args), updates.shape)

        sent = batched_switch.switch(at, [as_rows(one) for one in attacks], last, key, updates, honest, byzantine)
        return jnp.where(known, sent, jnp.nan)

    remembering = FromHistory(attack)
    return remembering if any(isinstance(one, FromHistory) for one in attacks) else of_a_round(remembering, ())
