"""Parameters of a model with those of one layer, or of one of its units, changed."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv import _validate


def with_unit(params: PyTree, layer: str, unit: int, weights: Array, bias: float | Array) -> PyTree:
    """The model with a unit of these weights `[p]` and this bias.

    Raises:
      ValueError: it has no such unit.
    """
    weights = jnp.asarray(weights)
    if weights.shape != (inputs := unit_of(params, layer, unit),):
        raise ValueError(f"weights must have shape ({inputs},), one for each input of {layer}, got {weights.shape}")
    return changed(params, layer, bias=lambda a: a.at[unit].set(bias), kernel=lambda a: a.at[:, unit].set(weights))


def unit_of(params: PyTree, layer: str, unit: int) -> int:
    """Inputs of a unit.

    Raises:
      ValueError: there is none.
    """
    _validate.integer(at_least=0, unit=unit)
    kernel = layer_of(params, layer).get("kernel")
    if kernel is None or kernel.ndim != 2:
        raise ValueError(f"layer must be a dense one, with a kernel [inputs, units], got {layer!r}")
    if unit not in range(kernel.shape[1]):
        raise ValueError(f"unit must be one of the {kernel.shape[1]} of {layer}, got {unit}")
    return kernel.shape[0]


def layer_of(params: PyTree, layer: str) -> dict[str, Array]:
    """Parameters of a layer, by its name or, where modules are nested, by the end of its path, such as "block/Dense_0".

    Raises:
      ValueError: there is none with a bias, or more than one.
    """
    where = _path_of(params, layer)
    return {name: a for path, name, a in _named(params) if path == where}


def _path_of(params: PyTree, layer: str) -> str:
    """The path of one layer with a bias; one that has just this path is meant, if there is one."""
    paths = [path for path, name, _ in _named(params) if name == "bias" and path]
    found = [path for path in paths if path == layer] or [path for path in paths if path.endswith(f"/{layer}")]
    if not found:
        raise ValueError(f"layer must be one of the model with a bias, {paths}, got {layer!r}")
    if len(found) > 1:
        raise ValueError(f"layer must be the path of one layer, such as those of {found}, got {layer!r}")
    return found[0]


def _named(params: PyTree) -> list[tuple[str, str, Array]]:
    """Of each array the path of its layer, its name there, and the array."""
    text = functools.partial(jax.tree_util.keystr, simple=True, separator="/")
    return [(text(path[:-1]), text(path[-1:]), a) for path, a in jax.tree.leaves_with_path(params)]


def changed(params: PyTree, layer: str, **change: Callable[[Array], Array]) -> PyTree:
    """The model with some parameters of a layer changed."""
    where = _path_of(params, layer)
    new = [change[name](a) if path == where and name in change else a for path, name, a in _named(params)]
    return jax.tree.unflatten(jax.tree.structure(params), new)
