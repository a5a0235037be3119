"""Parameters of flax modules as the state dict of a PyTorch twin, as NumPy arrays.

A dense kernel [in, out] here is a weight [out, in] there; a convolution kernel [h, w, in, out] is [out, in, h, w].
Images are [h, w, c] here and [c, h, w] there, so a dense layer that reads flattened images has its inputs reordered.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from fedjax_priv.interchange.numpy_arrays import check_names, from_numpy, leaves_by_name, of_shape, to_numpy

Shape = tuple[int, ...]


def to_state_dict(
    params: PyTree, *, names: Mapping[str, str] | None = None, flattened: Mapping[str, Shape] | None = None
) -> dict[str, np.ndarray]:
    """The state dict of the twin, for networks of flax's `Dense`, two-dimensional `Conv`, `GroupNorm` and `LayerNorm`.

    `twin.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})` loads it. The twin must
    compute the same function: for strides above 1 PyTorch has no "SAME" padding, and its norms add 1e-5 to the variance
    where flax's add 1e-6. The kernel of a flax `ConvTranspose` looks like that of a `Conv` and is written as one:
    rearrange it yourself.

    Args:
      params: of a flax module, float32.
      names: layer of `params` -> layer of the twin, as `{"Dense_0": "fc1", "Block_0.Conv_0": "blocks.0.conv"}`; other
        layers keep their names.
      flattened: dense layer of `params` -> shape [h, w, c] of the images or feature maps it reads flattened. Required
        if there are convolutions; `{}` if no dense layer reads flattened maps, as after a global mean.

    Raises:
      ValueError: an array is not a layer's kernel (in two or four dimensions), scale or bias; `names` or `flattened`
        names an unknown layer, or two arrays get one name; a dense layer's number of inputs differs from `flattened`,
        or `flattened` is missing although there are convolutions.

    Examples:
      >>> params = {"Dense_0": {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}}
      >>> {name: array.shape for name, array in to_state_dict(params).items()}
      {'Dense_0.bias': (3,), 'Dense_0.weight': (3, 2)}
    """
    arrays = to_numpy(params)
    return {place.name: place.there(arrays[name]) for name, place in _places(arrays, names, flattened).items()}


def from_state_dict(
    template: PyTree,
    state: Mapping[str, Any],
    *,
    names: Mapping[str, str] | None = None,
    flattened: Mapping[str, Shape] | None = None,
) -> PyTree:
    """The inverse of `to_state_dict` with the same arguments.

    Args:
      template: parameters of the model, or their shapes: `jax.eval_shape(model.init, key)`.
      state: arrays, or tensors on the CPU as in `twin.state_dict()`.
      names: as in `to_state_dict`.
      flattened: as in `to_state_dict`.

    Raises:
      ValueError: as `to_state_dict`; a name is missing or unknown, or an array has another shape than in the template.

    Examples:
      >>> params = {"Dense_0": {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}}
      >>> again = from_state_dict(params, to_state_dict(params))
      >>> jax.tree.all(jax.tree.map(np.array_equal, again, params))
      True
    """
    places = _places(leaves_by_name(template), names, flattened)
    check_names([place.name for place in places.values()], state=state)
    return from_numpy(template, {name: place.back(state[place.name]) for name, place in places.items()})


class _Place(NamedTuple):
    """An array in the twin."""

    name: str
    shape: Shape  # here
    image: Shape = ()  # of a kernel: [h, w, in, out]

    def there(self, array: np.ndarray) -> np.ndarray:
        if not self.image:
            return array
        return np.ascontiguousarray(array.reshape(self.image).transpose(3, 2, 0, 1)).reshape(self._shape_there())

    def back(self, array: Any) -> np.ndarray:
        array = of_shape(self.name, array, self._shape_there())
        if not self.image:
            return array
        h, w, inputs, outputs = self.image
        return array.reshape(outputs, inputs, h, w).transpose(2, 3, 1, 0).reshape(self.shape)

    def _shape_there(self) -> Shape:
        if not self.image:
            return self.shape
        h, w, inputs, outputs = self.image
        return (outputs, inputs, h, w) if len(self.shape) == 4 else (outputs, inputs * h * w)


def _places(
    arrays: Mapping[str, Any], names: Mapping[str, str] | None, flattened: Mapping[str, Any] | None
) -> dict[str, _Place]:
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    layers = {name.rpartition(".")[0] for name in shapes}
    for argument, given in (("names", names), ("flattened", flattened)):
        if not isinstance(given, Mapping | None):
            raise ValueError(f"{argument} must be a dict by layer, got {type(given).__name__}")
        if unknown := sorted(set(given or ()) - layers):
            raise ValueError(f"{argument} must name layers among {sorted(layers)}, got {unknown}")
    ranks = {len(shape) for shape in shapes.values()}
    if flattened is None and {2, 4} <= ranks:
        raise ValueError(
            "flattened must list the dense layers that read flattened feature maps, with their shape [h, w, c], as "
            '{"Dense_0": (7, 7, 64)}; {} if none does'
        )
    places = {name: _place(name, shape, names or {}, flattened or {}) for name, shape in shapes.items()}
    if len({place.name for place in places.values()}) < len(places):
        raise ValueError(f"names must be different for each layer, got {dict(names or {})}")
    return places


def _place(name: str, shape: Shape, names: Mapping[str, str], flattened: Mapping[str, Any]) -> _Place:
    layer, _, part = name.rpartition(".")
    there = names.get(layer, layer)
    if part in ("scale", "bias") and len(shape) == 1:
        return _Place(_join(there, "weight" if part == "scale" else part), shape)
    if part != "kernel" or len(shape) not in (2, 4):
        raise ValueError(f"params must be kernels of Dense or Conv, scales and biases, got {name} of shape {shape}")
    read = flattened.get(layer, (1, 1, shape[0]))
    image = shape if len(shape) == 4 else (*read, shape[1]) if isinstance(read, tuple | list) else ()
    if len(image) != 4 or np.prod(image) != np.prod(shape) or (layer in flattened and len(shape) == 4):
        raise ValueError(
            f"flattened must be shapes [h, w, c] of the inputs of dense layers, got {flattened[layer]} for {layer}, "
            f"whose kernel has shape {shape}"
        )
    return _Place(_join(there, "weight"), shape, image)


def _join(layer: str, part: str) -> str:
    """The twin's name of an array; a model that is a single layer has no name for it."""
    return f"{layer}.{part}" if layer else part
