"""Noise instead of an update."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import Attack
from fedjax_priv.base import Key
from fedjax_priv.engine.products import rounded_product
from fedjax_priv.layers.noise_gaussian import standard_normal


def gaussian(mean: float | Array = 0.0, std: float | Array = 1.0) -> Attack:
    """Independent normal coordinates (Blanchard et al. 2017), drawn anew by each client; ByzFL draws one row for all.

    Args:
      mean: mean of each coordinate; may be traced.
      std: standard deviation of each coordinate, >= 0; may be traced.

    Raises:
      ValueError: `mean` is not finite or `std` is not a finite number >= 0; a traced one is sent as NaN.

    Examples:
      >>> updates, honest = jnp.zeros((2, 3)), jnp.array([True, False])
      >>> jax.jit(gaussian(std=100.0))(jax.random.key(0), updates, honest, ~honest).shape
      (2, 3)
    """
    centre = _validate.finite(mean=mean)
    scale = _validate.non_negative(std=std)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "n d"]:
        del honest
        unit = standard_normal(key, jnp.arange(len(updates)), updates.shape[1:])
        return centre + rounded_product(scale * unit, key)

    return attack
