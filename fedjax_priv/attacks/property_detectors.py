"""Models in which one unit fires only on a property of a client's data.

The canary gradients of Pasquini, Francati, Ateniese, CCS 2022 (arXiv 2111.07380).
"""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, PyTree

from fedjax_priv import _validate
from fedjax_priv.attacks.lying_models import DEAD, check_target, only_for
from fedjax_priv.attacks.tampered_layers import unit_of, with_unit
from fedjax_priv.base import Key, LyingServer, Models, RoundState


def property_detector(
    target: int,
    num_clients: int,
    layer: str,
    unit: int,
    weights: Array,
    threshold: float | Array,
    *,
    to_all: bool = False,
) -> LyingServer:
    """A unit of the first layer fires only on a property of the data: the sum shows whether the target's data have it.

    In the target's model the unit computes `max(0, weights @ x - threshold)`; in everybody else's it is dead. So its
    gradients are exactly zero, in the whole sum at `detector_coordinates`, unless the target holds an example with
    `weights @ x > threshold`. All other coordinates are those of an honest round but for this unit.

    Args:
      target: the client whose data are asked.
      num_clients: clients of the population.
      layer: name of the ReLU layer in the parameters that gets the examples, or its path, such as "block/Dense_0", if
        there are others of this name.
      unit: of this layer, whose output some later layer uses.
      weights: of an example as a vector, `[p]`; may be traced.
      threshold: may be traced.
      to_all: one model for all, the target's, which masks that depend on the model do not notice: the sum says whether
        anybody's data have the property.

    Raises:
      ValueError: the target is no client, `unit` is not an integer >= 0, or weights or threshold are not finite; or,
        when a round is traced, the model has no such layer with such a unit and as many inputs as weights, or several.

    Examples:
      >>> bright = property_detector(3, 10, "Dense_0", unit=0, weights=jnp.ones(64), threshold=40.0)
    """
    check_target(target, num_clients)
    _validate.integer(at_least=0, unit=unit)
    _validate.each(_validate.finite, weights=weights)
    threshold = _validate.finite(threshold=threshold)
    _validate.one_of((True, False), to_all=to_all)

    def models(key: Key, state: RoundState) -> Models:
        del key
        live = with_unit(state.params, layer, unit, weights, -threshold)
        dead = with_unit(state.params, layer, unit, jnp.zeros_like(weights), DEAD)
        row = jnp.ones(num_clients, jnp.int32) if to_all else only_for(target, num_clients)
        return Models(jax.tree.map(lambda *a: jnp.stack(a), dead, live), row)

    return LyingServer(models=models)


def detector_coordinates(params: PyTree, layer: str, unit: int) -> Bool[Array, " d"]:
    """Where the weights and the bias of a unit are in an update: all zero in a sum if the unit did not fire.

    Raises:
      ValueError: the model has no such layer with such a unit, or several.

    Examples:
      >>> params = {"Dense_0": {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)}}
      >>> print(detector_coordinates(params, "Dense_0", unit=1).astype(int))
      [0 1 0 0 1 0 0 1 0]
    """
    inputs = unit_of(params, layer, unit)
    nothing = jax.tree.map(jnp.zeros_like, params)
    return ravel_pytree(with_unit(nothing, layer, unit, jnp.ones(inputs), 1.0))[0] == 1
