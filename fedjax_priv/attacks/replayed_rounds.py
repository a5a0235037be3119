"""Servers that repeat a round without one client: the difference of the two sums is this client's update."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from fedjax_priv import _validate
from fedjax_priv.attacks.lying_models import check_target
from fedjax_priv.base import Cohort, Key, LyingServer, Models, RoundState


def replay(params: PyTree, target: int, num_clients: int, *, nudge: bool = False) -> LyingServer:
    """Every client is given `params` in every round; in odd rounds all are told that the target was lost.

    All clients are told one list, which no check of lists finds. The server reads the sum over all in an even round,
    over all but the target in an odd one. If training is deterministic, their difference is the target's update,
    within the rounding of two sums. In odd rounds the server computes as if it had not lied, and fails.

    Args:
      params: the model.
      target: the client to be read.
      num_clients: clients of the population.
      nudge: in odd rounds one parameter, the first one, is the next larger number that its type has: another model,
        which clients train to nearly the same update.

    Raises:
      ValueError: the target is no client.

    Examples:
      >>> from fedjax_priv.testing import cohort_of
      >>> lies = replay({"w": jnp.zeros(3)}, target=2, num_clients=4)
      >>> print(lies.lists(jnp.ones(4, bool), cohort_of(4, round=1))[0])
      [ True  True False  True]
    """
    check_target(target, num_clients)
    _validate.one_of((True, False), nudge=nudge)
    params = jax.tree.map(jnp.asarray, params)

    def models(key: Key, state: RoundState) -> Models:
        del key
        again = _nudged(params) if nudge else params
        both = jax.tree.map(lambda *a: jnp.stack(a), params, again)
        return Models(both, jnp.full(num_clients, state.round % 2))

    def lists(alive: Bool[Array, " n"], cohort: Cohort) -> Bool[Array, "n n"]:
        told = alive & ((cohort.round % 2 == 0) | (cohort.client != target))
        return jnp.broadcast_to(told[None], (alive.size, alive.size))

    return LyingServer(models=models, lists=lists)


def _nudged(params: PyTree) -> PyTree:
    leaves, tree = jax.tree.flatten(params)
    first = leaves[0].ravel()
    moved = first.at[0].set(jnp.nextafter(first[0], jnp.asarray(jnp.inf, first.dtype)))
    return jax.tree.unflatten(tree, [moved.reshape(leaves[0].shape), *leaves[1:]])
