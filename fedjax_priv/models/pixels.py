"""Pixels that stay bytes until the model sees them: a quarter of the memory, on the host and on the device."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Model


def from_pixels(model: Model, *, mean: ArrayLike = 0.0, deviation: ArrayLike = 1.0) -> Model:
    """The model of uint8 images: `model.apply(params, (x / 255 - mean) / deviation)`.

    Args:
      model: of float32 images `[b, h, w, c]`.
      mean: of a pixel in [0, 1], one number or one per channel.
      deviation: its standard deviation, above 0, as `mean`.

    Raises:
      ValueError: `model` is no `Model`, `mean` is not finite or `deviation` not above 0; or (when traced) images are
        not uint8, so that pixels in [0, 1] are not divided again.

    Examples:
      >>> model = from_pixels(softmax_regression((2, 2, 1), 3), mean=0.5, deviation=0.5)
      >>> params = jax.tree.map(lambda a: jnp.zeros(a.shape), jax.eval_shape(model.init, jax.random.key(0)))
      >>> model.apply(params, jnp.full((1, 2, 2, 1), 255, jnp.uint8)).shape
      (1, 3)
    """
    _validate.part(Model, "models.mcmahan_cnn()", model=model)
    _validate.each(_validate.finite, mean=mean)
    _validate.each(_validate.positive, deviation=deviation)

    def seen(x: Array) -> Array:
        if x.dtype != jnp.uint8:
            raise ValueError(f"x must be uint8 pixels, got {x.dtype}: use the model itself for float32 images")
        return (x.astype(jnp.float32) / 255 - mean) / deviation

    def apply(params: PyTree, x: Array) -> Array:
        return model.apply(params, seen(x))

    if (own := model.train) is None:
        return Model(model.init, apply)
    return Model(model.init, apply, lambda params, x, keys: own(params, seen(x), keys))
