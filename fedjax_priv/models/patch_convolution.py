"""Convolution as a matrix product with patches (im2col), for GPUs: one batched product for all clients.

As XLA derives them, convolutions with a kernel per client have as many groups as clients, and the window of a kernel
gradient is a whole image; a library computes them, at a rate that no count shows. Compiled for an H200, a round of 100
clients in one block with the CNN of McMahan et al. has 205 kernels with patches, not 226, and moves 17.5 GB more, 3.6
ms at 4.8 TB/s. To be faster than that, the library would need more than 70 TFLOP/s in convolutions of 100 groups, above
the rate of the H200 without tensor cores.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array

_Pads = Sequence[tuple[int, int]]
_Operator = Callable[..., Array]


def patches(x: Array, taps: Sequence[int], strides: Sequence[int], pads: _Pads) -> Array:
    """What each output position sees: `[b, h, w, c] -> [b, oh, ow, kh kw c]`, in the order of a kernel."""
    padded = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    counts = [(size - tap) // stride + 1 for size, tap, stride in zip(padded.shape[1:3], taps, strides, strict=True)]
    ends = [(count - 1) * stride + 1 for count, stride in zip(counts, strides, strict=True)]
    return jnp.concatenate(
        [
            padded[:, i : i + ends[0] : strides[0], j : j + ends[1] : strides[1]]
            for i in range(taps[0])
            for j in range(taps[1])
        ],
        -1,
    )


def spread(columns: Array, shape: Sequence[int], taps: Sequence[int], strides: Sequence[int], pads: _Pads) -> Array:
    """The transpose of `patches`: `[b, oh, ow, kh kw c] -> shape [b, h, w, c]`, each column added where it was read."""
    columns = columns.reshape(*columns.shape[:3], *taps, -1)

    def along(parts: Callable[[int], Array], axis: int) -> Array:
        size, stride = shape[axis] + sum(pads[axis - 1]), strides[axis - 1]

        def place(tap: int) -> Array:
            part = parts(tap)
            places = [(0, 0, 0)] * part.ndim
            places[axis] = (tap, size - tap - (part.shape[axis] - 1) * stride - 1, stride - 1)
            return jax.lax.pad(part, jnp.zeros((), part.dtype), places)

        return functools.reduce(jnp.add, (place(tap) for tap in range(taps[axis - 1])))

    rows = along(lambda j: columns[:, :, :, :, j], 2)
    padded = along(lambda i: rows[:, :, :, i], 1)
    (top, _), (left, _) = pads
    return padded[:, top : top + shape[1], left : left + shape[2]]


def by_patches(ordinary: _Operator, strides: Sequence[int], pads: _Pads) -> tuple[_Operator, Callable[..., tuple]]:
    """`(x, kernel) -> y` and `(x, kernel, cotangent) -> (of x, of kernel)`; under `vmap` by patches.

    Clients that share a kernel are folded into the batch of the ordinary convolution.

    Args:
      ordinary: the convolution of `[b, h, w, c]` and `[kh, kw, c, o]`.
      strides: of the window.
      pads: before and after, for height and width.
    """

    def product(x: Array, kernel: Array) -> Array:
        return patches(x, kernel.shape[:2], strides, pads) @ kernel.reshape(-1, kernel.shape[3])

    def product_gradients(x: Array, kernel: Array, cotangent: Array) -> tuple[Array, Array]:
        taps, features = kernel.shape[:2], kernel.shape[3]
        columns = cotangent @ kernel.reshape(-1, features).T
        seen = patches(x, taps, strides, pads).reshape(math.prod(cotangent.shape[:3]), -1)
        of_kernel = (seen.T @ cotangent.reshape(-1, features)).reshape(kernel.shape)
        return spread(columns, x.shape, taps, strides, pads), of_kernel

    convolve = custom_vmap(ordinary)

    @convolve.def_vmap
    def rule(axis_size: int, in_batched: list[bool], x: Array, kernel: Array) -> tuple[Array, bool]:
        if in_batched[1]:
            return jax.vmap(product, _axes(in_batched))(x, kernel), True
        y = convolve(x.reshape(-1, *x.shape[2:]), kernel)
        return y.reshape(axis_size, -1, *y.shape[1:]), True

    @custom_vmap
    def gradients(x: Array, kernel: Array, cotangent: Array) -> tuple[Array, Array]:
        return jax.vjp(ordinary, x, kernel)[1](cotangent)

    @gradients.def_vmap
    def gradient_rule(axis_size: int, in_batched: list[bool], *given: Array) -> tuple[tuple, tuple]:
        del axis_size
        return jax.vmap(product_gradients, _axes(in_batched))(*given), (True, True)

    return convolve, gradients


def _axes(in_batched: Sequence[bool]) -> tuple[int | None, ...]:
    return tuple(0 if batched else None for batched in in_batched)
