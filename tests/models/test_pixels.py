import inspect

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv import models
from fedjax_priv.base import Model

SEEN = Model(lambda key: None, lambda params, x: x)


def test_bytes_become_what_the_model_was_made_for():
    x = jnp.arange(256, dtype=jnp.uint8).reshape(1, 16, 16, 1)
    np.testing.assert_array_equal(models.from_pixels(SEEN).apply(None, x), x.astype(jnp.float32) / 255)
    shifted = models.from_pixels(SEEN, mean=0.1307, deviation=0.3081).apply(None, x)
    np.testing.assert_allclose(shifted, (np.asarray(x, np.float64) / 255 - 0.1307) / 0.3081, rtol=1e-6, atol=1e-6)


def test_a_mean_for_each_channel():
    x = jnp.full((1, 2, 2, 3), 255, jnp.uint8)
    mean = np.array([0.0, 0.5, 1.0], np.float32).reshape(1, 1, 1, 3)
    np.testing.assert_allclose(models.from_pixels(SEEN, mean=mean).apply(None, x)[0, 0, 0], [1, 0.5, 0])


def test_floats_are_refused():
    with pytest.raises(ValueError, match="^x must be uint8"):
        models.from_pixels(SEEN).apply(None, jnp.zeros((1, 2, 2, 1)))


test_what_would_give_no_pixels_is_named = refused(
    (lambda: models.from_pixels(SEEN, deviation=0.0), "deviation must be a finite number > 0, got 0.0"),
    (
        lambda: models.from_pixels(SEEN, deviation=np.float32([1, -1])),
        "deviation must be a finite number > 0, got -1.0",
    ),
    (lambda: models.from_pixels(SEEN, mean=float("nan")), "mean must be a finite number, got nan"),
    (lambda: inspect.unwrap(models.from_pixels)(3), "model must be a Model, such as .*, got int"),
)
