"""Model parameters as NumPy arrays by name."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


def to_numpy(params: PyTree) -> dict[str, np.ndarray]:
    """Arrays by dotted name, such as `Dense_0.kernel`; `np.savez(file, **to_numpy(params))` saves them.

    A type that NumPy does not know, such as bfloat16, becomes float32; `from_numpy` makes it what it was.

    Raises:
      ValueError: two arrays have the same name.

    Examples:
      >>> params = {"Dense_0": {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}}
      >>> {name: array.shape for name, array in to_numpy(params).items()}
      {'Dense_0.bias': (3,), 'Dense_0.kernel': (2, 3)}
    """
    return {name: np.array(as_numpy_type(leaf)) for name, leaf in leaves_by_name(params).items()}


def from_numpy(template: PyTree, arrays: Mapping[str, Any]) -> PyTree:
    """The inverse of `to_numpy`, also for arrays that another program wrote under the same names.

    Args:
      template: parameters of the model, or their shapes: `jax.eval_shape(model.init, key)`.
      arrays: by name, as `np.load` returns them; they are cast to the dtypes of the template.

    Raises:
      ValueError: `arrays` are not by name, a name is missing or unknown, or an array has another shape than in the
        template, or is complex or no numbers where that is real, or has a number that its type cannot hold: one that is
        finite and would become infinite, or another integer. Digits may be rounded.

    Examples:
      >>> params = {"Dense_0": {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}}
      >>> again = from_numpy(params, to_numpy(params))
      >>> jax.tree.all(jax.tree.map(np.array_equal, again, params))
      True
    """
    leaves = leaves_by_name(template)
    check_names(leaves, arrays=arrays)
    taken = [_numbers(name, arrays[name], leaf) for name, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(template), taken)


def as_numpy_type(array: Any) -> np.ndarray:
    """The same numbers in a type that NumPy, pandas and netCDF know without JAX.

    bfloat16 and float8 become float32, integers of less than a byte int32.

    Examples:
      >>> as_numpy_type(jnp.array([1.5], jnp.bfloat16))
      array([1.5], dtype=float32)
    """
    array = np.asarray(array)
    if array.dtype.kind != "V":
        return array
    return array.astype(np.int32 if jnp.issubdtype(array.dtype, jnp.integer) else np.float32)


def leaves_by_name(tree: PyTree) -> dict[str, Any]:
    """Leaves by dotted name, in order; ValueError if two have the same name."""
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree.leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if name in leaves:
            raise ValueError(f"params must have one name for each array, got {name!r} twice")
        leaves[name] = leaf
    return leaves


def check_names(wanted: Iterable[str], **named: Any) -> None:
    """Raises ValueError unless the argument has arrays of exactly the names `wanted`."""
    ((argument, arrays),) = named.items()
    if not isinstance(arrays, Mapping):
        raise ValueError(f"{argument} must be arrays by name, such as those of np.load, got {type(arrays).__name__}")
    wanted, given = set(wanted), set(arrays)
    if wanted != given:
        missing, unknown = sorted(wanted - given), sorted(given - wanted)
        raise ValueError(f"{argument} must have the names of the model: missing {missing}, unknown {unknown}")


def of_shape(name: str, array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The array as NumPy; ValueError if it has another shape."""
    if np.shape(array) != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {tuple(np.shape(array))}")
    return np.asarray(array)


def _numbers(name: str, array: Any, leaf: Any) -> jax.Array:
    array = of_shape(name, array, leaf.shape)
    bare = array.dtype.kind == "V" and array.dtype != leaf.dtype and not jnp.issubdtype(array.dtype, jnp.number)
    if bare or (array.dtype.kind in "cOSUmM" and array.dtype.kind != np.dtype(leaf.dtype).kind):
        raise ValueError(f"{name} must be numbers that fit {leaf.dtype}, got {array.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):  # told below
        taken = jnp.asarray(array, leaf.dtype)
    given, made = as_numpy_type(array), as_numpy_type(taken)
    lost = np.isfinite(given) & ~np.isfinite(made) if jnp.issubdtype(leaf.dtype, jnp.inexact) else made != given
    if lost.any():
        raise ValueError(f"{name} must be numbers that fit {leaf.dtype}, got {given[lost][0]}")
    return taken
