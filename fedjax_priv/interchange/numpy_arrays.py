"""Model parameters as NumPy arrays by name."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


def to_numpy(params: PyTree) -> dict[str, np.ndarray]:
    """Arrays by dotted name, such as `Dense_0.kernel`; `np.savez(file, **to_numpy(params))` writes them to a file.

    Raises:
      ValueError: two of them have one name.
    """
    return {name: np.array(leaf) for name, leaf in leaves_by_name(params).items()}


def from_numpy(template: PyTree, arrays: Mapping[str, Any]) -> PyTree:
    """The parameters that `to_numpy` turned into `arrays`, or that another program wrote under the same names.

    Args:
      template: parameters of the model, or their shapes: `jax.eval_shape(model.init, key)`.
      arrays: by name, as `np.load` returns them; they are cast to the dtypes of the template.

    Raises:
      ValueError: a name is missing or not one of the template, or an array has another shape.
    """
    leaves = leaves_by_name(template)
    check_names(leaves, arrays)
    taken = [jnp.asarray(of_shape(name, arrays[name], leaf.shape), leaf.dtype) for name, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(template), taken)


def leaves_by_name(tree: PyTree) -> dict[str, Any]:
    """Leaves by dotted name, in order; ValueError where two have one name."""
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree.leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if name in leaves:
            raise ValueError(f"params must have one name for each array, got {name!r} twice")
        leaves[name] = leaf
    return leaves


def check_names(wanted: Iterable[str], arrays: Mapping[str, Any]) -> None:
    """ValueError unless there is an array for each name, and no other."""
    wanted, given = set(wanted), set(arrays)
    if wanted != given:
        missing, unknown = sorted(wanted - given), sorted(given - wanted)
        raise ValueError(f"arrays must be those of the model: missing {missing}, not of the model {unknown}")


def of_shape(name: str, array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The array, if it has that shape; ValueError if not."""
    if np.shape(array) != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {tuple(np.shape(array))}")
    return np.asarray(array)
