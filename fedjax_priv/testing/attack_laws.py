"""The laws of an attack, as a check."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.attacks import Attack
from fedjax_priv.testing.laws import is_compiled, law, traced_once

DRAWS = 3
"""Sets of updates that are tried."""


def check_attack(
    attack: Attack, *, num_clients: int = 9, num_params: int = 7, finite: bool = True, variant: Callable = jax.jit
) -> None:
    """Laws 4, 5, 14, 15 and 16: rows `[n, d]` or `[1, d]` that depend on the honest clients and the row's own client.

    Args:
      attack: it is given 5 honest clients at least.
      num_clients: n, at least 8. Clients 0 and 3 are Byzantine, and the last one takes no part.
      num_params: d.
      finite: whether it sends finite numbers.
      variant: how the attack is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
    """
    key, place = jax.random.key(7), np.arange(num_clients)
    byzantine, out = (place == 0) | (place == 3), place == num_clients - 1
    told = jnp.asarray(~byzantine & ~out), jnp.asarray(byzantine)
    run = variant(traced_once(attack))
    compiled = is_compiled(variant)
    for seed in range(DRAWS if compiled else 1):
        updates = jnp.asarray(np.random.default_rng(seed).normal(3, 2, (num_clients, num_params)), jnp.float32)
        with law(4, "an attack must be traced once for all rounds"):
            sent = run(key, updates, *told)
        with law(15, "an attack must return float32 [n, d] or [1, d]" + ", finite" * finite):
            chex.assert_shape(sent, ({num_clients, 1}, num_params))
            chex.assert_type(sent, jnp.float32)
            if finite:
                chex.assert_tree_all_finite(sent)
        for other, mine in ((3, 0), (num_clients - 1, 0)) if compiled else ():
            changed = run(key, updates.at[other].set(jnp.nan), *told)
            with law(16, "a row may depend on honest rows and on itself, and on no other"):
                chex.assert_trees_all_equal(_row(changed, mine), _row(sent, mine))
        if compiled and seed == 0:
            with law(5, "a client's draws must not depend on how many others there are"):
                fewer = jax.jit(attack)(key, updates[:-1], *(mask[:-1] for mask in told))
                chex.assert_trees_all_close(_row(fewer, 3), _row(sent, 3), rtol=1e-5, atol=1e-5)
        if not compiled:
            with law(14, "an attack must send the same with and without jit"):
                chex.assert_trees_all_close(sent, jax.jit(attack)(key, updates, *told), rtol=1e-4, atol=1e-4)


def _row(sent: jax.Array, client: int) -> jax.Array:
    return sent[min(client, len(sent) - 1)]
