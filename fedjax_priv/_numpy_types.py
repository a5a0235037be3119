"""Arrays in types that NumPy, pandas and netCDF know without JAX."""

from typing import Any

import jax.numpy as jnp
import numpy as np


def as_numpy_type(array: Any) -> np.ndarray:
    """The array on the host; bfloat16, float8 and 4-bit integers become float32 or int32, which hold the same numbers.

    Examples:
      >>> print(as_numpy_type(jnp.array([1.5], jnp.bfloat16)).dtype, as_numpy_type(jnp.array([1.5])).dtype)
      float32 float32
    """
    array = np.asarray(array)
    if array.dtype.kind != "V":
        return array
    return array.astype(np.int32 if jnp.issubdtype(array.dtype, jnp.integer) else np.float32)
