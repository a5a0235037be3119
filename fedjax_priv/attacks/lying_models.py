"""Servers that give clients different models (Pasquini, Francati, Ateniese, CCS 2022, arXiv 2111.07380).

A secure sum hides an update among others. If the others are zero, the sum is the update, whatever the protocol.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.attacks.tampered_layers import changed, layer_of
from fedjax_priv.base import Key, LyingServer, Models, RoundState

DEAD = -1e3
"""A bias under which no unit of a ReLU layer fires whose weights are 0."""


def gradient_suppression(target: int, num_clients: int, layer: str) -> LyingServer:
    """The target gets the model, everybody else one in which a ReLU layer is dead: their gradients are exactly zero.

    All gradients but that of the bias of the output vanish if it is the last hidden layer. So the secure sum is the
    target's update at all other coordinates, if local training has no weight decay and no momentum from before.

    Args:
      target: the client to be read.
      num_clients: clients of the population.
      layer: name of the ReLU layer in the parameters, or its path, such as "block/Dense_0", if there are others of this
        name. All its parameters become 0, but for the `bias`, -1,000: no input makes a unit fire, however large.

    Raises:
      ValueError: the target is no client; or, when a round is traced, the model has no such layer, or several.

    Examples:
      >>> lies = gradient_suppression(target=3, num_clients=10, layer="Dense_0")
    """
    check_target(target, num_clients)

    def models(key: Key, state: RoundState) -> Models:
        del key
        both = jax.tree.map(lambda *a: jnp.stack(a), _dead(state.params, layer), state.params)
        return Models(both, only_for(target, num_clients))

    return LyingServer(models=models)


def check_target(target: int, num_clients: int) -> None:
    """Raises ValueError unless the target is a client of the population."""
    _validate.integer(num_clients=num_clients)
    _validate.integer(at_least=0, target=target)
    if target not in range(num_clients):
        raise ValueError(f"target must be a client below {num_clients}, got {target}")


def only_for(target: int, num_clients: int) -> Int[Array, " n"]:
    """Of two models the second one for the target, the first for everybody else."""
    return (jnp.arange(num_clients) == target).astype(jnp.int32)


def _dead(params: PyTree, layer: str) -> PyTree:
    """The model without this layer.

    Raises:
      ValueError: it has none of that name with a bias, or several.
    """
    nothing = dict.fromkeys(layer_of(params, layer), jnp.zeros_like)
    return changed(params, layer, **{**nothing, "bias": lambda a: jnp.full_like(a, DEAD)})
