"""Parameters of a model with those of one layer, or of one of its units, changed."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


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
    kernel = layer_of(params, layer).get("kernel")
    if kernel is None or kernel.ndim != 2:
        raise ValueError(f"layer must be a dense one, with a kernel [inputs, units], got {layer!r}")
    if unit not in range(kernel.shape[1]):
        raise ValueError(f"unit must be one of the {kernel.shape[1]} of {layer}, got {unit}")
    return kernel.shape[0]


def layer_of(params: PyTree, layer: str) -> dict[str, Array]:
    """Parameters of a layer by name.

    Raises:
      ValueError: there is none of that name with a bias.
    """
    found = {path: a for path, a in _named(params)}
    if (layer, "bias") not in {path[-2:] for path in found}:
        names = [path[-2] for path in found if path[-1:] == ("bias",) and len(path) > 1]
        raise ValueError(f"layer must be one of the model with a bias, {names}, got {layer!r}")
    return {path[-1]: a for path, a in found.items() if path[-2:-1] == (layer,)}


def _named(params: PyTree) -> list[tuple[tuple, Array]]:
    leaves = jax.tree.leaves_with_path(params)
    return [(tuple(getattr(part, "key", None) for part in path), a) for path, a in leaves]


def changed(params: PyTree, layer: str, **change: Callable[[Array], Array]) -> PyTree:
    """The model with some parameters of a layer changed."""
    new = [change.get(path[-1], lambda a: a)(a) if path[-2:-1] == (layer,) else a for path, a in _named(params)]
    return jax.tree.unflatten(jax.tree.structure(params), new)
