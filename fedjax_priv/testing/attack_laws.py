"""The laws of an attack on values, on field elements, on proposed coordinates and on labels, as checks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.attacks import AnyAttack, CoordinateAttack, FieldAttack
from fedjax_priv.attacks.attack_layers import check_attack as check_arguments
from fedjax_priv.attacks.attack_layers import of_a_round
from fedjax_priv.base import ClientData
from fedjax_priv.crypto import field
from fedjax_priv.testing.laws import is_compiled, law, require, traced_once

DRAWS = 3
"""Sets of rows that are tried."""
_SEEN = {"all": "honest rows and on itself", "own": "Byzantine rows"}
_UNSEEN = {"all": ((3, 0), (-1, 0), (0, 3), (-1, 3)), "own": ((1, 0), (-1, 0), (1, 3), (-1, 3))}
"""Clients whose rows must make no difference to a Byzantine one's: another that is, honest, or takes no part."""


class _Told(NamedTuple):
    """What an attack is told of `n` clients, of which 0 and 3 are Byzantine and the last one takes no part."""

    rows: PyTree  # [n, ...], what they hold
    masks: tuple  # of [n]


def check_attack(
    attack: AnyAttack, *, num_clients: int = 9, num_params: int = 7, finite: bool = True, seen: str = "all",
    variant: Callable = jax.jit,
) -> None:  # fmt: skip
    """Laws 4, 5, 14, 15 and 16: rows `[n, d]` or `[1, d]` that depend on the honest clients and the row's own client.

    Args:
      attack: it is given 5 honest clients at least, and a last direction if it knows one.
      num_clients: n, at least 8. Clients 0 and 3 are Byzantine, and the last one takes no part.
      num_params: d.
      finite: whether it sends finite numbers.
      seen: what the attackers see. `"all"`: honest updates, and each its own. `"own"`: those of Byzantine clients, as
        in `attacks.min_max(seen="own")`; then rows must not depend on honest clients.
      variant: how the attack is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
      ValueError: `seen` is neither of these, or `attack` is no function of four arguments.
    """
    _validate.one_of(tuple(_UNSEEN), seen=seen)
    check_arguments(attack=attack)
    masks = _honest(num_clients), _byzantine(num_clients)

    def is_sound(sent: Any, told: _Told) -> None:
        with law(15, "an attack must return float32 [n, d] or [1, d]" + ", finite" * finite):
            chex.assert_shape(sent, ({num_clients, 1}, num_params))
            chex.assert_type(sent, jnp.float32)
            if finite:
                chex.assert_tree_all_finite(sent)

    draw = lambda rng: jnp.asarray(rng.normal(3, 2, (num_clients, num_params)), jnp.float32)
    now = of_a_round(attack, jnp.linspace(-2.0, 3.0, num_params))
    _check(now, [_Told((draw(rng),), masks) for rng in _generators()], is_sound, lambda rows: jnp.nan, variant, seen)


def check_field_attack(
    attack: FieldAttack, *, num_clients: int = 9, num_params: int = 7, variant: Callable = jax.jit
) -> None:
    """Laws 4, 5, 14, 15 and 16, as `check_attack` says: uint32 rows `[n, d]` or `[1, d]`.

    Args:
      attack: of clients in two groups.
      num_clients: n, at least 8. Clients 0 and 3 are Byzantine, and the last one takes no part.
      num_params: d.
      variant: how the attack is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
    """
    masks = _honest(num_clients), _byzantine(num_clients), jnp.arange(num_clients) % 2

    def is_sound(sent: Any, told: _Told) -> None:
        with law(15, "an attack on field elements must return uint32 [n, d] or [1, d]"):
            chex.assert_shape(sent, ({num_clients, 1}, num_params))
            chex.assert_type(sent, jnp.uint32)

    draw = lambda rng: jnp.asarray(rng.integers(0, field.Q, (num_clients, num_params)), jnp.uint32)
    _check(attack, [_Told((draw(rng),), masks) for rng in _generators()], is_sound, lambda rows: rows + 1, variant)


def check_coordinate_attack(
    attack: CoordinateAttack, *, num_clients: int = 9, num_params: int = 7, proposed: int = 3,
    variant: Callable = jax.jit,
) -> None:  # fmt: skip
    """Laws 4, 5, 14, 15 and 16, as `check_attack` says: rows `[n, k]` of distinct coordinates.

    Args:
      attack: on proposals.
      num_clients: n, at least 8. Clients 0, 3 and the last one are not honest.
      num_params: d.
      proposed: coordinates that each client proposes, k.
      variant: how the attack is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
    """

    def is_sound(sent: Any, told: _Told) -> None:
        with law(15, "an attack on coordinates must return int32 [n, k], distinct in a row and from 0 to d - 1"):
            chex.assert_shape(sent, (num_clients, proposed))
            chex.assert_type(sent, jnp.int32)
            assert ((sent >= 0) & (sent < num_params)).all()
            assert all(len(set(row)) == proposed for row in np.asarray(sent).tolist())

    def draw(rng: np.random.Generator) -> tuple:
        updates = jnp.asarray(rng.normal(size=(num_clients, num_params)), jnp.float32)
        return updates, jax.lax.top_k(jnp.abs(updates), proposed)[1]

    told = [_Told(draw(rng), (_honest(num_clients),)) for rng in _generators()]
    _check(attack, told, is_sound, lambda rows: rows[..., ::-1], variant)


def check_label_attack(
    attack: Callable[[ClientData, Any, int], ClientData], *, num_clients: int = 9, num_classes: int = 5,
    variant: Callable = jax.jit,
) -> None:  # fmt: skip
    """Laws 14, 15 and 16: labels of Byzantine clients stay labels, and nothing else changes.

    Args:
      attack: `(data, byzantine [n], num_classes)` -> data, whose examples are pairs of inputs and labels.
      num_clients: n, at least 4. Clients 0 and 3 are Byzantine.
      num_classes: labels are from 0 to `num_classes - 1`.
      variant: how the attack is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
    """
    y = np.random.default_rng(0).integers(0, num_classes, (num_clients, 2), dtype=np.int32)
    data = ClientData((jnp.ones((num_clients, 2, 3)), jnp.asarray(y)), jnp.full(num_clients, 2, jnp.int32))
    byzantine = _byzantine(num_clients)
    after = variant(lambda data, byzantine: attack(data, byzantine, num_classes))(data, byzantine)
    with law(15, f"data must keep its shapes and dtypes, and labels be from 0 to {num_classes - 1}"):
        chex.assert_trees_all_equal_shapes_and_dtypes(after, data)
        assert ((after.examples[1] >= 0) & (after.examples[1] < num_classes)).all()
    with law(16, "only labels of Byzantine clients may change"):
        labels = jnp.where(byzantine[:, None], data.examples[1], after.examples[1])
        chex.assert_trees_all_equal(after._replace(examples=(after.examples[0], labels)), data)
    with law(14, "an attack on labels must do the same on arrays of NumPy"):
        chex.assert_trees_all_equal(attack(jax.device_get(data), np.asarray(byzantine), num_classes), after)


def _check(
    attack: Callable[..., Any], cases: list[_Told], is_sound: Callable, spoil: Callable, variant: Callable,
    seen: str = "all",
) -> None:  # fmt: skip
    """`is_sound(what is sent, told)` raises; `spoil(rows of one client)` are others."""
    key, compiled = jax.random.key(7), is_compiled(variant)
    run = variant(traced_once(lambda key, told: attack(key, *told.rows, *told.masks)))
    for number, told in enumerate(cases if compiled else cases[:1]):
        with law(4, "an attack must be traced once for all rounds"):
            sent = run(key, told)
        require(15, hasattr(sent, "dtype"), f"an attack must return one array, got {_validate.made(sent)}")
        is_sound(sent, told)
        for other, mine in _UNSEEN[seen] if compiled else ():
            rows = jax.tree.map(lambda a, other=other: a.at[other].set(spoil(a[other])), told.rows)
            with law(16, f"a row may depend on {_SEEN[seen]}, and on no other"):
                chex.assert_trees_all_equal(_row(run(key, told._replace(rows=rows)), mine), _row(sent, mine))
        if compiled and number == 0:
            with law(5, "a client's draws must not depend on how many others there are"):
                fewer = jax.tree.map(lambda a: a[:-1], told)
                found = jax.jit(attack)(key, *fewer.rows, *fewer.masks)
                _assert_close(_row(found, 3), _row(sent, 3))
        if not compiled:
            with law(14, "an attack must send the same with and without jit"):
                _assert_close(sent, jax.jit(attack)(key, *told.rows, *told.masks))


def _assert_close(one: jax.Array, other: jax.Array) -> None:
    """Integers are equal."""
    if jnp.issubdtype(one.dtype, jnp.integer):
        chex.assert_trees_all_equal(one, other)
    else:
        chex.assert_trees_all_close(one, other, rtol=1e-4, atol=1e-4)


def _generators() -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(DRAWS)]


def _byzantine(n: int) -> jax.Array:
    return (jnp.arange(n) == 0) | (jnp.arange(n) == 3)


def _honest(n: int) -> jax.Array:
    return ~_byzantine(n) & (jnp.arange(n) < n - 1)


def _row(sent: jax.Array, client: int) -> jax.Array:
    return sent[min(client, len(sent) - 1)]
