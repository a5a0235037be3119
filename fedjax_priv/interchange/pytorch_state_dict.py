"""Parameters of flax modules as the state dict of a PyTorch twin, as NumPy arrays.

A dense kernel [in, out] is a weight [out, in] there, that of a convolution [h, w, in, out] one [out, in, h, w]. Images
are [c, h, w], and [h, w, c] here, so the inputs of a dense layer that reads flattened images have another order.
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
    """For networks of flax's `Dense`, `Conv` in two dimensions, `GroupNorm` and `LayerNorm`.

    `twin.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})` loads it. The twin must
    compute the same: where strides are above 1, PyTorch has no padding like "SAME", and its norms add 1e-5 to the
    variance where flax's add 1e-6.

    Args:
      params: of a flax module, float32.
      names: layer of `params` -> that of the twin, as `{"Dense_0": "fc1", "Block_0.Conv_0": "blocks.0.conv"}`; others
        keep their name.
      flattened: dense layer of `params` -> shape [h, w, c] of the images or feature maps that it reads flattened.
        Beside convolutions it must be given; `{}`: no dense layer reads such, as behind a global mean.

    Raises:
      ValueError: an array is not the kernel, in two or four dimensions, scale or bias of a layer; `names` or
        `flattened` names another layer, or two have one name; a dense layer has another number of inputs than
        `flattened` says, or nothing is said of it beside convolutions.
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
    """The parameters of which `to_state_dict` with the same arguments is `state`.

    Args:
      template: parameters of the model, or their shapes: `jax.eval_shape(model.init, key)`.
      state: arrays, or tensors on the CPU as in `twin.state_dict()`.
      names: as in `to_state_dict`.
      flattened: as in `to_state_dict`.

    Raises:
      ValueError: as `to_state_dict`; a name is missing or not one of the twin, or an array has another shape.
    """
    places = _places(leaves_by_name(template), names, flattened)
    check_names([place.name for place in places.values()], state)
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
    arrays: Mapping[str, Any], names: Mapping[str, str] | None, flattened: Mapping[str, Shape] | None
) -> dict[str, _Place]:
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    layers = {name.rpartition(".")[0] for name in shapes}
    for argument, given in (("names", names), ("flattened", flattened)):
        if unknown := sorted(set(given or ()) - layers):
            raise ValueError(f"{argument} must be of the layers {sorted(layers)}, got {unknown}")
    ranks = {len(shape) for shape in shapes.values()}
    if flattened is None and {2, 4} <= ranks:
        raise ValueError(
            "flattened must say which dense layers read flattened feature maps, and their shape [h, w, c], as "
            '{"Dense_0": (7, 7, 64)}; {} if none does'
        )
    places = {name: _place(name, shape, names or {}, flattened or {}) for name, shape in shapes.items()}
    if len({place.name for place in places.values()}) < len(places):
        raise ValueError(f"names must give every layer a name of its own, got {dict(names or {})}")
    return places


def _place(name: str, shape: Shape, names: Mapping[str, str], flattened: Mapping[str, Shape]) -> _Place:
    layer, _, part = name.rpartition(".")
    there = names.get(layer, layer)
    if part in ("scale", "bias") and len(shape) == 1:
        return _Place(_join(there, "weight" if part == "scale" else part), shape)
    if part != "kernel" or len(shape) not in (2, 4):
        raise ValueError(f"params must be kernels of Dense or Conv, scales and biases, got {name} of shape {shape}")
    image = shape if len(shape) == 4 else (*flattened.get(layer, (1, 1, shape[0])), shape[1])
    if len(image) != 4 or np.prod(image) != np.prod(shape) or (layer in flattened and len(shape) == 4):
        raise ValueError(
            f"flattened must be shapes [h, w, c] of the inputs of dense layers, got {flattened[layer]} for {layer}, "
            f"whose kernel has shape {shape}"
        )
    return _Place(_join(there, "weight"), shape, image)


def _join(layer: str, part: str) -> str:
    """A model that is a layer has no name for it."""
    return f"{layer}.{part}" if layer else part
