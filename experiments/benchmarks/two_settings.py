"""Rounds compiled with different values of a constant of the package, on the same noise, to be timed in turns."""

from collections.abc import Callable, Mapping
from types import ModuleType
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv import ClientData
from fedjax_priv.base import Algorithm, Model


def images_of_noise(sizes: np.ndarray) -> ClientData:
    """Images 28x28 and labels of clients with so many samples each, on one device."""
    shape = len(sizes), int(sizes.max())
    images = jax.random.normal(jax.random.key(1), (*shape, 28, 28, 1))
    labels = jax.random.randint(jax.random.key(2), shape, 0, 10)
    return jax.device_put(ClientData((images, labels), jnp.asarray(sizes, jnp.int32)), jax.devices()[0])


def compiled_rounds(
    make: Callable[[], Algorithm], model: Model, data: ClientData, module: ModuleType, name: str, values: Mapping
) -> dict[str, Callable[[], object]]:
    """Calls of a round, by the names of a constant's values. Each has its own system, which JAX traces only once.

    Args:
      make: makes the system.
      model: gives the parameters.
      data: of all clients.
      module: has the constant.
      name: of the constant.
      values: of the constant.
    """
    key, calls = jax.random.key(0), {}
    for setting, value in values.items():
        system = make()
        state = system.init(key, model.init(key), data)
        with mock.patch.object(module, name, value):
            step = jax.jit(system.step).lower(key, state, data).compile()
        calls[setting] = lambda step=step, state=state: step(key, state, data)
    return calls
