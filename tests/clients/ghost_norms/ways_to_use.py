"""Losses that use parameters in every way there is a rule for, and in ways there is none for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.clients.ghost_norms.sample_gradients import sample_gradients
from fedjax_priv.models.client_convolution import conv

RNG = np.random.default_rng(3)
K = 5
COUNTED = np.arange(K) != 1
GHOST, OWN, SLOW, NONE = "ghost norm", "instantiated", "by sample", "unused"


def some(*shape):
    return RNG.normal(size=shape)


def batch_of(one):
    """A loss of a batch from the loss of an example."""
    return lambda params, examples: jax.vmap(lambda example: one(params, example))(examples)


def each(y):
    """A number per row, in which no value counts like another."""
    y = y.reshape(len(y), -1)
    return (jnp.sin(y) * jnp.linspace(0.5, 1.5, y.shape[1])[None]).sum(1)


def mlp(p, x):
    hidden = jnp.tanh(x @ p["w"] + p["b"][None])
    return each(hidden @ p["v"] * p["scale"][None])


def convolved(params, x, **how):
    how = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")} | how
    return each(jax.lax.conv_general_dilated(x, params["kernel"], **how))


def by_kernel(p):
    return lambda x: conv(x, p["kernel"], (2, 2), "SAME")


def batch_groups(p, x):  # [k, 2, h, w, c]
    of = functools.partial(convolved, p, batch_group_count=2)
    return jnp.stack([of(x[i]).sum() for i in range(len(x))])


def looked_up(p, x, mode="clip"):
    return each(jnp.take(p["table"], x, axis=0, mode=mode, fill_value=0.0))


def recurrent(p, x):  # [k, t, d]
    step = lambda h, x: (jnp.tanh(x @ p["w"] + h @ p["u"]),) * 2
    return each(jax.lax.scan(step, jnp.zeros((len(x), 3)), x.swapaxes(0, 1))[0])


def looped(p, x):  # examples on two axes of what the loop carries
    step = lambda carried: (jnp.sin(carried[0]), jnp.cos(carried[1]), carried[2] + 1)
    rows, columns, _ = jax.lax.while_loop(lambda carried: carried[2] < 2, step, jax.lax.stop_gradient((x, x.T, 0)))
    return each((rows + columns.T) @ p["w"])


@jax.custom_vjp
def odd(x, w):
    return x @ w


odd.defvjp(lambda x, w: (x @ w, (x, w)), lambda saved, e: (e @ saved[1].T, 3 * saved[0].T @ e))


@jax.custom_vjp
def odd_conv(x, kernel):
    return conv(x, kernel, (1, 1), "SAME")


odd_conv.defvjp(
    lambda x, kernel: (odd_conv(x, kernel), (x, kernel)),
    lambda saved, e: (e[..., :3], 2 * jnp.ones_like(saved[1]) * e.sum()),
)


def case(loss, params, examples, methods):
    """A loss of one or more examples, and the method of each parameter in order of its name."""
    return loss, jax.tree.map(jnp.asarray, params), jnp.asarray(examples), methods


def every_case():
    """Made where float64 is enabled."""
    dense = {"w": some(4, 3)}
    tokens = some(K, 2, 4)
    images, narrow = some(K, 6, 5, 3), some(K, 6, 5, 1)
    ids = RNG.integers(0, 6, (K, 4))
    square = {"w": some(4, 4)}
    kernel = {"kernel": some(3, 2, 3, 4)}
    wide = {"kernel": some(3, 3, 3, 30)}
    return {
        "mlp": case(
            mlp,
            {"b": some(3), "scale": some(2), "v": some(3, 2), "w": some(4, 3)},
            some(K, 4),
            [OWN, OWN, GHOST, GHOST],
        ),
        "weight on the left": case(batch_of(lambda p, x: jnp.sin(p["w"] @ x).sum()), dense, some(K, 3), [GHOST]),
        "weight rearranged": case(lambda p, x: each(x @ -p["w"].T.reshape(4, 3)[::-1]), dense, some(K, 4), [GHOST]),
        "weight narrowed": case(
            lambda p, x: each((x.astype(jnp.float32) @ p["w"].astype(jnp.float32)).astype(x.dtype)),
            dense,
            some(K, 4),
            [GHOST],
        ),
        "positions": case(lambda p, x: each(x @ p["w"]), square, tokens, [GHOST]),
        "many positions": case(lambda p, x: each(x @ p["w"]), square, some(K, 7, 4), [OWN]),
        "groups": case(
            lambda p, x: each(jnp.einsum("ktgp,gpo->kgot", x, p["w"])), {"w": some(2, 4, 4)}, some(K, 2, 2, 4), [GHOST]
        ),
        "convolution": case(convolved, wide, some(K, 3, 2, 3), [GHOST]),
        "convolution, one channel": case(convolved, {"kernel": some(3, 2, 1, 2)}, narrow, [OWN]),
        "strides and padding": case(
            functools.partial(convolved, window_strides=(2, 3), padding=((1, 2), (0, 3))), kernel, images, [OWN]
        ),
        "dilation": case(
            functools.partial(convolved, rhs_dilation=(2, 1), lhs_dilation=(1, 2), padding=((0, 0), (-1, 1))),
            kernel,
            images,
            [OWN],
        ),
        "strides, ghost": case(functools.partial(convolved, window_strides=(2, 3)), wide, images, [GHOST]),
        "groups of channels": case(
            functools.partial(convolved, feature_group_count=3), {"kernel": some(3, 2, 1, 6)}, images, [OWN]
        ),
        "groups of channels, ghost": case(
            functools.partial(convolved, feature_group_count=3, padding="VALID", window_strides=(3, 3)),
            {"kernel": some(3, 3, 1, 6)},
            images,
            [GHOST],
        ),
        "batch groups": case(batch_groups, {"kernel": some(2, 2, 3, 4)}, some(K, 2, 3, 3, 3), [SLOW]),
        "other layout": case(
            functools.partial(convolved, dimension_numbers=("NCHW", "OIHW", "NCHW"), padding="VALID"),
            {"kernel": some(7, 3, 2, 3)},
            some(K, 3, 3, 4),
            [GHOST],
        ),
        "one axis": case(
            functools.partial(convolved, window_strides=(2,), dimension_numbers=("NWC", "WIO", "NWC")),
            {"kernel": some(3, 4, 5)},
            some(K, 5, 4),
            [GHOST],
        ),
        "client convolution": case(lambda p, x: each(conv(x, p["kernel"], (1, 1), "SAME")), kernel, images, [OWN]),
        "client convolution, ghost": case(
            lambda p, x: each(conv(x, p["kernel"], (2, 2), "SAME")), wide, images, [GHOST]
        ),
        "client convolution, several images": case(
            lambda p, x: each(jax.vmap(by_kernel(p), 1, 1)(x)), kernel, some(K, 2, 6, 5, 3), [OWN]
        ),
        "client convolution, several images, ghost": case(
            lambda p, x: each(jax.vmap(by_kernel(p), 1, 1)(x)), wide, some(K, 2, 4, 3, 3), [GHOST]
        ),
        "client convolution, images on an inner axis": case(
            lambda p, x: each(jax.vmap(by_kernel(p), 3, 2)(x)), wide, some(K, 4, 3, 2, 3), [SLOW]
        ),
        "client convolution, several kernels": case(
            lambda p, x: each(jax.vmap(lambda kernel: by_kernel({"kernel": kernel})(x), out_axes=1)(p["kernel"])),
            {"kernel": some(2, 3, 2, 3, 4)},
            some(K, 4, 3, 3),
            [SLOW],
        ),
        "client convolution inside another": case(
            lambda p, x: each(odd_conv(x, p["kernel"])), {"kernel": some(3, 2, 3, 40)}, images[:, :2, :1], [SLOW]
        ),
        "lookup": case(looked_up, {"table": some(6, 7)}, ids, [GHOST]),
        "lookup of few rows": case(looked_up, {"table": some(6, 2)}, ids, [OWN]),
        "lookup outside, clipped": case(looked_up, {"table": some(4, 9)}, ids, [GHOST]),
        "lookup outside, filled": case(functools.partial(looked_up, mode="fill"), {"table": some(4, 9)}, ids, [GHOST]),
        "tied": case(lambda p, x: each(jnp.tanh(p["table"][x]) @ p["table"].T), {"table": some(6, 7)}, ids, [OWN]),
        "used twice": case(lambda p, x: each(jnp.tanh(x @ p["w"]) @ p["w"]), square, some(K, 4), [OWN]),
        "two names for one": case(lambda p, x: each(jnp.tanh(x @ p["w"]) @ p["w"].T), square, some(K, 4), [OWN]),
        "weight normalisation": case(
            lambda p, x: each(x @ (p["w"] / jnp.linalg.norm(p["w"], axis=0)[None])), dense, some(K, 4), [OWN]
        ),
        "positive weight": case(lambda p, x: each(x @ jnp.exp(p["w"])), dense, some(K, 4), [OWN]),
        "repeated weight": case(
            lambda p, x: each(x @ jnp.broadcast_to(p["w"][:, None], (4, 3))), {"w": some(4)}, some(K, 4), [OWN]
        ),
        "low rank": case(
            lambda p, x: each(x @ (p["u"] @ p["v"])), {"u": some(4, 1), "v": some(1, 3)}, some(K, 4), [OWN, OWN]
        ),
        "penalty": case(lambda p, x: each(x @ p["w"]) + jnp.square(p["w"]).sum(), dense, some(K, 4), [OWN]),
        "only a penalty": case(
            lambda p, x: jnp.zeros(len(x), x.dtype) + jnp.square(p["w"]).sum(), dense, some(K, 4), [OWN]
        ),
        "unused": case(lambda p, x: each(x @ p["w"]), dense | {"z": some(2)}, some(K, 4), [GHOST, NONE]),
        "stopped": case(
            lambda p, x: each(x @ p["w"] * jax.lax.stop_gradient(p["z"])[None]),
            dense | {"z": some(3)},
            some(K, 4),
            [GHOST, OWN],
        ),
        "recurrent": case(recurrent, {"u": some(3, 3), "w": some(4, 3)}, tokens, [SLOW, SLOW]),
        "derivative by hand": case(lambda p, x: each(odd(x, p["w"])), dense, some(K, 4), [SLOW]),
        "recomputed": case(
            lambda p, x: each(jax.checkpoint(lambda x: jnp.sin(x @ p["w"]))(x)), dense, some(K, 4), [GHOST]
        ),
        "branches": case(
            batch_of(lambda p, x: jax.lax.cond(x[0] > 0, lambda: jnp.sin(x @ p["w"]), lambda: (x @ p["w"]) ** 2).sum()),
            dense,
            some(K, 4),
            [OWN],
        ),
        "spectrum": case(
            lambda p, x: each(jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(p["w"])[None])),
            {"w": some(4)},
            some(K, 4),
            [OWN],
        ),
        "complex product": case(
            lambda p, x: each(jnp.abs(jax.lax.complex(x, 2 * x) @ p["w"].astype(complex))), dense, some(K, 4), [SLOW]
        ),
        "two outputs": case(
            lambda p, x: each(sum(jax.lax.sort((x * p["w"][None], x), num_keys=1))), {"w": some(4)}, some(K, 4), [OWN]
        ),
        "loop of unknown length": case(looped, dense, some(K, 4), [GHOST]),
    }


def norm(tree):
    return jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(tree)))


def compared(loss, params, examples):
    """Relative errors of norms, from below and from above, and of the clipped sum; and the methods."""
    methods = []

    def compare(params, examples):
        one = jax.grad(lambda params, example: loss(params, jax.tree.map(lambda a: a[None], example))[0])
        grads = jax.vmap(one, (None, 0))(params, examples)
        true = jax.vmap(norm)(grads)
        factor = jnp.minimum(1, jnp.median(true) / true)
        expected = jax.tree.map(lambda g: jnp.tensordot(jnp.where(COUNTED, factor, 0), g, 1), grads)
        found = sample_gradients(loss, params, examples)
        methods.extend(jax.tree.leaves(found.methods))
        clipped = found.weighted_sum(factor, jnp.asarray(COUNTED))
        far = norm(jax.tree.map(jnp.subtract, clipped, expected))
        ratio = found.norms.astype(true.dtype) / true
        return ratio.min() - 1, ratio.max() - 1, far / norm(expected)

    with jax.enable_x64(True):
        return [float(error) for error in jax.jit(compare)(params, examples)], methods
