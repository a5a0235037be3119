"""Convolution that is fast when each client has its own kernel; for flax: `nn.Conv(conv_general_dilated=conv)`.

Under `vmap`, an ordinary convolution with a kernel per client becomes a grouped one, and its kernel gradient a
batch-grouped one; XLA runs both slowly. Measured on a CPU core with 5x5 kernels, 32 to 64 channels and 20 images of
12x12 a client, without padding, as a fraction of the rate of a large matmul: ordinary convolution of one client 0.8;
its input gradient 0.3 as an ordinary convolution with the flipped kernel and 0.6 as a matmul; its kernel gradient 0.02
as XLA derives it and 0.65 as matmuls; all by shifted slices and matmul for 4 clients at once 0.3. So on a CPU, a
convolution with one kernel for all clients folds them into its batch, one with a kernel each loops over clients, and
gradients are matmuls; none is without padding (`_with_a_margin`), and one of few channels to few is a matmul, too
(`tiled_convolution`). No other platform was measured; programs compiled for them were counted
(`experiments/accelerators/`). On a GPU, convolutions with a kernel per client are products with
patches (`patch_convolution`); on a TPU they are ordinary ones and their derivatives, which move 0.65 times as much
there.
"""

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.custom_batching import custom_vmap, sequential_vmap
from jaxtyping import Array, Float

from fedjax_priv import _validate
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.models.patch_convolution import by_patches, spread
from fedjax_priv.models.tiled_convolution import is_narrow, tiled

LAYOUT = ("NHWC", "HWIO", "NHWC")
_Pads = Sequence[tuple[int, int]]
_NAME = "client_convolution "


def conv(
    lhs: Float[Array, "b h w c"],
    rhs: Float[Array, "kh kw c o"],
    window_strides: Sequence[int],
    padding: str | _Pads,
    *,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = LAYOUT,
    feature_group_count: int = 1,
    precision: None = None,
) -> Float[Array, "b oh ow o"]:
    """Two-dimensional convolution, fast under `vmap` with shared and with per-client kernels.

    It takes the arguments that flax passes to `jax.lax.conv_general_dilated`. It has reverse-mode derivatives only.

    Raises:
      ValueError: dilation, groups, a precision, or another layout than NHWC, HWIO is requested.
    """
    for name, rates in (("lhs_dilation", lhs_dilation), ("rhs_dilation", rhs_dilation)):
        _validate.one_of((None, (1, 1)), **{name: rates and tuple(rates)})
    _validate.one_of((1,), feature_group_count=feature_group_count)
    _validate.one_of((None,), precision=precision)
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    _validate.one_of((jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, LAYOUT),), dimension_numbers=numbers)
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(lhs.shape[1:3], rhs.shape[:2], window_strides, padding)
    return _client_convolution(window_strides, padding)(lhs, rhs)


def named_convolution(name: str) -> tuple[Sequence[int], _Pads] | None:
    """Strides and padding of a convolution by the name that its output has in a jaxpr; None for another name."""
    if not name.startswith(_NAME):
        return None
    strides, pads = json.loads(name.removeprefix(_NAME))
    return strides, [(low, high) for low, high in pads]


def _client_convolution(strides: Sequence[int], pads: _Pads) -> Callable[[Array, Array], Array]:
    """`(x, kernel) -> y`, whose derivatives are fast under `vmap` too."""
    batched = _batched_convolution(strides, pads)
    ordinary = functools.partial(
        jax.lax.conv_general_dilated, window_strides=strides, padding=pads, dimension_numbers=LAYOUT
    )

    of_gpus, gradients_of_gpus = by_patches(ordinary, strides, pads)

    def forward(x: Array, kernel: Array) -> Array:
        y = by_platform(batched, ordinary, x, kernel, gpu=of_gpus)
        return checkpoint_name(y, _NAME + json.dumps([strides, pads]))

    def gradients(x: Array, kernel: Array, cotangent: Array) -> tuple[Array, Array]:
        by_input = _input_gradient(x.shape, cotangent.shape, strides, pads)
        return by_input(cotangent, kernel), _kernel_gradient(kernel.shape, strides, pads)(x, cotangent)

    def ordinary_gradients(x: Array, kernel: Array, cotangent: Array) -> tuple[Array, Array]:
        return jax.vjp(ordinary, x, kernel)[1](cotangent)

    def backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
        return by_platform(gradients, ordinary_gradients, *saved, cotangent, gpu=gradients_of_gpus)

    convolve = jax.custom_vjp(forward)
    convolve.defvjp(lambda x, kernel: (forward(x, kernel), (x, kernel)), backward)
    return convolve


def _batched_convolution(strides: Sequence[int], pads: _Pads) -> Callable[[Array, Array], Array]:
    """The ordinary convolution; under `vmap`, one for all clients if they have one kernel, else a loop over clients."""

    @custom_vmap
    def convolve(x: Array, kernel: Array) -> Array:
        return (tiled if is_narrow(kernel.shape) else _with_a_margin)(x, kernel, strides, pads)

    each = sequential_vmap(convolve)

    @convolve.def_vmap
    def rule(axis_size: int, in_batched: list[bool], x: Array, kernel: Array) -> tuple[Array, bool]:
        if in_batched[1]:
            return jax.vmap(each, in_axes=tuple(0 if batched else None for batched in in_batched))(x, kernel), True
        y = convolve(x.reshape(-1, *x.shape[2:]), kernel)
        return y.reshape(axis_size, -1, *y.shape[1:]), True

    return convolve


def _with_a_margin(x: Array, kernel: Array, strides: Sequence[int], pads: _Pads) -> Array:
    """The ordinary convolution; one without padding is padded by a column, whose results are cut off.

    In JAX 0.10.2 a convolution of many unpadded images takes up to six times as long: 3x3 kernels, 64 to 32 channels
    and 32 images of 28x28 24 ms of a core, and 4.4 with the column.
    """
    if any(map(any, pads)):
        return jax.lax.conv_general_dilated(x, kernel, strides, pads, dimension_numbers=LAYOUT)
    width = (x.shape[2] - kernel.shape[1]) // strides[1] + 1
    y = jax.lax.conv_general_dilated(x, kernel, strides, ((0, 0), (0, 1)), dimension_numbers=LAYOUT)
    return y[:, :, :width]


def _input_gradient(
    inputs: tuple[int, ...], outputs: tuple[int, ...], strides: Sequence[int], pads: _Pads
) -> Callable[[Array, Array], Array]:
    """`(cotangent, kernel) -> [b, h, w, c]`, by a convolution where that is little more work than a matmul.

    The convolution computes a value per input position, the matmul one per output position. With equally many positions
    the convolution is 1.2 to 2 times faster; it breaks even at 1.2 to 2 times as many input positions.
    """
    if tuple(strides) == (1, 1) and math.prod(inputs[1:3]) < 1.5 * math.prod(outputs[1:3]):
        return functools.partial(_turned_convolution, pads)
    return _spread_columns(inputs, strides, pads)


def _turned_convolution(pads: _Pads, cotangent: Array, kernel: Array) -> Array:
    """Input gradient for strides of 1: the convolution of the cotangent with the flipped kernel."""
    taps_h, taps_w = kernel.shape[:2]
    (top, bottom), (left, right) = pads
    places = (
        (0, 0, 0),
        (taps_h - 1 - top, taps_h - 1 - bottom, 0),
        (taps_w - 1 - left, taps_w - 1 - right, 0),
        (0, 0, 0),
    )
    padded = jax.lax.pad(cotangent, jnp.zeros((), cotangent.dtype), places)
    # Flip and transpose here: passing the layout to the convolution instead is ten times slower in XLA.
    turned = jnp.flip(kernel, (0, 1)).swapaxes(2, 3)
    return _batched_convolution((1, 1), ((0, 0), (0, 0)))(padded, turned)


def _spread_columns(shape: tuple[int, ...], strides: Sequence[int], pads: _Pads) -> Callable[[Array, Array], Array]:
    """Input gradient as one matmul with a column per tap and channel; columns are added where their tap reads."""

    @sequential_vmap
    def gradient(cotangent: Array, kernel: Array) -> Array:
        taps, features = kernel.shape[:2], kernel.shape[3]
        columns = cotangent.reshape(-1, features) @ kernel.reshape(-1, features).T
        return spread(columns.reshape(*cotangent.shape[:3], -1), shape, taps, strides, pads)

    return gradient


_COPIES = 2**21
"""Bytes of shifted copies that a core still has in its cache while they are multiplied."""


def _kernel_gradient(shape: tuple[int, ...], strides: Sequence[int], pads: _Pads) -> Callable[[Array, Array], Array]:
    """`(x, cotangent) -> [kh, kw, c, o]`; samples whose shifted copies leave the cache are taken some at a time.

    Measured on a CPU core, 3x3 kernels and 32 samples: 32 to 64 channels on 26x26 25 ms all at once, 9.8 by four and
    9.7 one by one; 64 to 64 channels on 32x32 120 ms all at once and 34 one by one.
    """
    few = functools.partial(_gradient_of_few, shape, strides)

    @sequential_vmap
    def gradient(x: Array, cotangent: Array) -> Array:
        if is_narrow(shape):
            of_kernel = functools.partial(tiled, x, strides=strides, pads=pads)
            return jax.linear_transpose(of_kernel, jax.ShapeDtypeStruct(shape, x.dtype))(cotangent)[0]
        padded, n = jnp.pad(x, ((0, 0), *pads, (0, 0))), len(x)
        copies = shape[1] * math.prod(padded.shape[1:]) * x.dtype.itemsize // strides[1]
        size = _samples_at_once(n, copies)
        if size == n:
            return few(padded, cotangent)

        def add(total: Array, i: Array) -> tuple[Array, None]:
            part = [jax.lax.dynamic_slice_in_dim(a, i * size, size) for a in (padded, cotangent)]
            return total + few(*part), None

        return jax.lax.scan(add, jnp.zeros(shape, x.dtype), jnp.arange(n // size))[0]

    return gradient


def _samples_at_once(samples: int, copies: int) -> int:
    """All samples if their shifted copies, of `copies` bytes each, stay in the cache, else a part that leaves room."""
    if samples * copies <= _COPIES:
        return samples
    parts = (size for size in range(2, samples) if not samples % size and size * copies <= _COPIES / 2)
    return max(parts, default=1)


def _gradient_of_few(shape: tuple[int, ...], strides: Sequence[int], x: Array, cotangent: Array) -> Array:
    """One matmul per row of the kernel, over padded input shifted along the width.

    Samples are the last axis, so that shifted copies move long runs and no matmul has to transpose them.
    """
    (taps_h, taps_w, channels, features), (stride_h, stride_w) = shape, strides
    _, height, width, _ = cotangent.shape
    span_h, span_w = (height - 1) * stride_h + 1, (width - 1) * stride_w + 1
    turned = x.transpose(3, 1, 2, 0)
    shifted = jnp.stack([turned[:, :, j : j + span_w : stride_w] for j in range(taps_w)])
    columns = cotangent.transpose(1, 2, 0, 3).reshape(-1, features)
    rows = [shifted[:, :, i : i + span_h : stride_h].reshape(taps_w * channels, -1) for i in range(taps_h)]
    return jnp.stack([row @ columns for row in rows]).reshape(shape)
