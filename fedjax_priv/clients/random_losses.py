"""Losses that draw: each sample of a batch gets its own key."""

from collections.abc import Callable

import jax
from jaxtyping import Array, PyTree

from fedjax_priv.keys import named
from fedjax_priv.losses import Loss, RandomLoss

GiveKeys = Callable[[Array, Array, PyTree], PyTree]
"""`(keys [b], time, examples [b, k, ...]) -> examples`, with a key per example if the loss draws."""


def keyed(loss: Loss | RandomLoss) -> tuple[Loss, GiveKeys]:
    """A loss of examples with keys, and the function that gives the examples of a batch their keys.

    A key is derived from the client's key, the number of the step and the place in the batch.
    """
    if not isinstance(loss, RandomLoss):
        return loss, lambda keys, time, examples: examples

    def of_pairs(params: PyTree, given: tuple[PyTree, Array]) -> Array:
        examples, keys = given
        return loss.function(params, examples, keys)

    return of_pairs, _with_keys


def _with_keys(keys: Array, time: Array, examples: PyTree) -> tuple[PyTree, Array]:
    size = jax.tree.leaves(examples)[0].shape[1]
    own = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(named(key, "loss"), time), size))
    return examples, own(keys)
