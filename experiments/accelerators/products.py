"""Flops of matrix products and convolutions, from optimized HLO: 2 for each product and sum."""

import math
import re

import numpy as np

from experiments.accelerators.hlo import Line, dims, sizes


def product(line: Line, table: dict[str, Line]) -> int:
    """Flops of a matrix product or a convolution, also one that a library computes."""
    target = re.search(r'custom_call_target="([^"]+)"', line.rest)
    library = target[1] if target else ""
    if line.op == "dot" or "gemm" in library or library.endswith("$matmul"):
        contracted = re.search(r'lhs_contracting_dim(?:s=\{|ensions":\[)([\d",]*)', line.rest)
        first = dims(table[line.operands[0]].shape)
        over = [first[int(d)] for d in re.findall(r"\d+", contracted[1])] if contracted else []
        return 2 * sizes(line.shape)[0][0] * math.prod(over)
    if line.op != "convolution" and "conv" not in library:
        return 0
    out, images, weights = line.shape, *(table[name].shape for name in line.operands[:2])
    if library.endswith("BackwardInput"):  # a library's labels are those of the forward convolution
        images, out = out, images
    elif library.endswith("BackwardFilter"):
        weights, out = out, weights
    return _convolution(out, images, weights, line.rest)


def is_of_bytes(line: Line, table: dict[str, Line]) -> bool:
    """Whether both factors of a product are 8-bit integers, of which accelerators multiply more in a second."""
    return all(table[name].shape.startswith(("s8[", "u8[")) for name in line.operands[:2])


def _convolution(out: str, images: str, weights: str, rest: str) -> int:
    """Products with what is no padding and no hole, 2 flops each."""
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", rest)
    if not labels:
        return 0
    shapes = zip(labels.groups(), (images, weights, out), strict=True)
    image, weight, result = (dict(zip(names, dims(shape), strict=True)) for names, shape in shapes)
    window = dict(re.findall(r"(\w+)=([\d_x\-]+)", (re.search(r"window=\{(.*?)\}", rest) or ["", ""])[1]))
    taken = 1
    for place, label in enumerate(sorted(name for name in labels[2] if name.isdigit())):
        stride, before, hole, apart = (
            int((window.get(name) or "x".join([default] * 9)).split("x")[place].split("_")[0])
            for name, default in (("stride", "1"), ("pad", "0"), ("lhs_dilate", "1"), ("rhs_dilate", "1"))
        )
        at = np.arange(result[label])[:, None] * stride + np.arange(weight[label])[None, :] * apart - before
        taken *= int(((at >= 0) & (at % hole == 0) & (at // hole < image[label])).sum())
    return 2 * result["b"] * result["f"] * weight["i"] * taken
