import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import each, refused

from fedjax_priv.models.client_convolution import conv
from fedjax_priv.models.patch_convolution import by_patches

LAYOUT = ("NHWC", "HWIO", "NHWC")
CASES = {  # input height and width, kernel, stride, padding
    "5x5": ((6, 7), 5, 1, "SAME"),
    "5x5 valid": ((6, 7), 5, 1, "VALID"),
    "3x3 by 2, odd": ((7, 5), 3, 2, "SAME"),
    "3x3 by 2, even": ((6, 8), 3, 2, "SAME"),
    "2x2 by 2, a row unread": ((7, 6), 2, 2, "VALID"),
    "2x2 by 2, a column unread": ((6, 7), 2, 2, "VALID"),
    "1x1 by 2": ((6, 5), 1, 2, "SAME"),
    "1x1": ((3, 4), 1, 1, "SAME"),
}
AXES = {
    "one client": [],
    "kernel each": [(0, 0)],
    "kernel shared": [(0, None)],
    "input shared": [(None, 0)],
    "sweep of kernel each": [(0, 0), (0, 0)],
    "sweep of kernel shared": [(0, 0), (0, None)],
}


def with_gradients(axes, *convolutions):
    """Values and gradients of each, in one program."""

    def of(convolve):
        def run(x, kernel):
            y, pull = jax.vjp(convolve, x, kernel)
            return y, pull(jnp.sin(y))

        for inner in reversed(axes):
            run = jax.vmap(run, inner)
        return run

    return jax.jit(lambda x, kernel: [of(convolve)(x, kernel) for convolve in convolutions])


def close(got, want):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(b).max())))


NARROW, WIDE = 4, 40  # features: of three channels, tiles compute the former on a CPU


def operands(axes, size, taps, features=NARROW):
    rng = np.random.default_rng(0)
    lead = [[n for n, pair in zip((2, 3), axes, strict=False) if pair[i] == 0] for i in (0, 1)]
    x, kernel = rng.normal(size=(*lead[0], 2, *size, 3)), rng.normal(size=(*lead[1], taps, taps, 3, features))
    return x.astype(np.float32), kernel.astype(np.float32)


@pytest.mark.parametrize("features", [NARROW, WIDE])
@pytest.mark.parametrize(
    ("case", "axes"),
    [
        *((case, "kernel each") for case in CASES),
        *((case, axes) for case in ("5x5", "3x3 by 2, odd") for axes in AXES if axes != "kernel each"),
    ],
)
def test_values_and_gradients(case, axes, features):
    """Of a client with its own kernel in every case; under vmap a gradient is a convolution or a matmul."""
    size, taps, stride, padding = CASES[case]
    x, kernel = operands(AXES[axes], size, taps, features)
    strides = (stride, stride)
    plain = lambda x, k: jax.lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=LAYOUT)
    ours = lambda x, k: conv(x, k, strides, padding)
    close(*with_gradients(AXES[axes], ours, plain)(x, kernel))


@pytest.mark.parametrize(
    ("case", "axes"),
    [
        *((case, "kernel each") for case in ("5x5 valid", "3x3 by 2, odd", "2x2 by 2, a row unread", "1x1 by 2")),
        *(("3x3 by 2, even", axes) for axes in AXES if axes != "kernel each"),
    ],
)
def test_the_form_of_gpus(case, axes):
    """The form itself, on this CPU: `conv` would choose another."""
    size, taps, stride, padding = CASES[case]
    x, kernel = operands(AXES[axes], size, taps)
    pads = jax.lax.padtype_to_pads(size, (taps, taps), (stride, stride), padding)
    plain = lambda x, k: jax.lax.conv_general_dilated(x, k, (stride, stride), pads, dimension_numbers=LAYOUT)
    forward, gradients = by_patches(plain, (stride, stride), pads)
    of_gpus = jax.custom_vjp(forward)
    of_gpus.defvjp(lambda x, k: (forward(x, k), (x, k)), lambda saved, cotangent: gradients(*saved, cotangent))
    close(*with_gradients(AXES[axes], of_gpus, plain)(x, kernel))


def test_convolutions_of_a_cpu_are_never_without_padding():
    """XLA's are several times slower; the control is one of `jax.lax`."""
    x, kernel = jnp.ones((2, 4, 6, 6, 3)), jnp.ones((2, 3, 3, 3, WIDE))
    pads = lambda fn: re.findall(r"pad = (\[\[.*?\]\])", jax.jit(jax.vmap(fn)).lower(x, kernel).as_text())
    ours = pads(lambda x, k: conv(x, k, (1, 1), "VALID"))
    theirs = pads(lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "VALID", dimension_numbers=LAYOUT))
    assert (ours, theirs) == (["[[0, 0], [0, 1]]"], ["[[0, 0], [0, 0]]"])


@pytest.mark.parametrize("features", [NARROW, WIDE])
@pytest.mark.parametrize("strides", [(1, 1), (1, 2), (3, 1)])
def test_sides_that_differ(strides, features):
    """Strides, pads, images and kernels; pads as flax gives them."""
    x, kernel = operands([], (6, 9), 3, features)
    kernel, pads = kernel[:2], ((2, 0), (1, 1))
    plain = lambda x, k: jax.lax.conv_general_dilated(x, k, strides, pads, dimension_numbers=LAYOUT)
    close(*with_gradients([], lambda x, k: conv(x, k, strides, pads), plain)(x, kernel))


def kernel_gradient(convolve):
    return jax.jit(lambda x, kernel, cotangent: jax.vjp(lambda k: convolve(x, k), kernel)[1](cotangent)[0])


@pytest.mark.parametrize(
    ("samples", "side", "strides", "loops"),
    [(8, 30, (1, 1), True), (7, 30, (2, 1), True), (12, 40, (1, 3), True), (1, 96, (1, 1), False)],
)
def test_kernel_gradients_of_more_than_a_cache_holds(samples, side, strides, loops):
    """Two samples at a time, one, and four; and a sample that alone is too large."""
    rng, pads = np.random.default_rng(0), ((1, 0), (2, 1))
    x = jnp.asarray(rng.normal(size=(samples, side, side, 32)), jnp.float32)
    plain = lambda x, k: jax.lax.conv_general_dilated(x, k, strides, pads, dimension_numbers=LAYOUT)
    kernel = jnp.zeros((3, 3, 32, WIDE))
    cotangent = jnp.asarray(rng.normal(size=jax.eval_shape(plain, x, kernel).shape), jnp.float32)
    theirs, ours = kernel_gradient(plain), kernel_gradient(lambda x, k: conv(x, k, strides, pads))
    assert ("stablehlo.while" in ours.lower(x, kernel, cotangent).as_text()) == loops
    want, got = (gradient(x, kernel, cotangent) for gradient in (theirs, ours))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max()))


def test_memory_of_a_kernel_gradient_does_not_grow_by_copies_of_all_samples():
    """Each further sample costs its padded input and less than one of the three copies."""

    def temporary(samples):
        x, cotangent = jnp.zeros((samples, 30, 30, 32)), jnp.zeros((samples, 30, 30, WIDE))
        gradient = kernel_gradient(lambda x, k: conv(x, k, (1, 1), "SAME"))
        return gradient.lower(x, jnp.zeros((3, 3, 32, WIDE)), cotangent).compile().memory_analysis().temp_size_in_bytes

    assert (temporary(64) - temporary(16)) / 48 < 2 * 4 * 32 * 32 * 32


def test_few_channels_to_few_are_no_convolution_on_a_cpu():
    """The controls have a feature or a channel too many."""
    for channels, features, narrow in ((1, 31, True), (1, 32, False), (5, 20, True), (6, 20, False)):
        x, kernel = jnp.ones((4, 6, 6, channels)), jnp.ones((3, 3, channels, features))
        text = jax.jit(lambda k, x: conv(x, k, (1, 1), "SAME")).lower(kernel, x).as_text()
        assert ("stablehlo.convolution" in text) != narrow


@pytest.mark.parametrize("features", [NARROW, WIDE])
def test_an_image_has_the_bits_that_it_has_among_others(features):
    """Alone it is another program, which some processors round in another order."""
    x, kernel = operands([], (9, 11), 5, features)
    convolve = jax.jit(lambda x, k: conv(x, k, (2, 1), "SAME"))
    images = np.concatenate([x, x + 1, 2 * x])[:5]
    together = convolve(images, kernel)
    for i, image in enumerate(images):
        others = np.where(np.arange(5)[:, None, None, None] == i, image, np.float32(np.nan))
        np.testing.assert_array_equal(together[i], convolve(others, kernel)[i])
        np.testing.assert_allclose(together[i], convolve(image[None], kernel)[0], rtol=1e-5, atol=1e-5)


def program(kernel_axis):
    x, kernel = np.zeros((5, 2, 6, 6, 3), np.float32), np.zeros((5, 3, 3, 3, WIDE), np.float32)
    convolve = jax.vmap(lambda x, k: conv(x, k, (1, 1), "SAME"), (0, kernel_axis))
    return jax.jit(convolve).lower(x, kernel if kernel_axis == 0 else kernel[0]).as_text()


def test_a_shared_kernel_is_one_convolution_of_all_clients_and_none_is_grouped():
    shared, each = program(None), program(0)
    assert "tensor<10x6x6x3xf32>" in shared
    assert "stablehlo.while" not in shared
    assert "stablehlo.while" in each
    for text in (shared, each):
        assert re.findall(r"feature_group_count = (\d+)", text) == ["1"]


test_what_it_cannot_do_is_an_error_with_its_name = refused(
    *each(
        rhs_dilation=[(2, 2)], lhs_dilation=[(1, 2)], feature_group_count=[3],
        dimension_numbers=[("NCHW", "OIHW", "NCHW")],
    ),
    by=lambda options: conv(jnp.zeros((3, 3, 3, 3)), jnp.zeros((3, 3, 3, 3)), (1, 1), "SAME", **options),
    pattern="^{} must be",
)  # fmt: skip
