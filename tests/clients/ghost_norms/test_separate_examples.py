"""Losses that combine examples are refused, others are not."""

import jax
import jax.numpy as jnp
import pytest

from clients.ghost_norms.ways_to_use import every_case
from fedjax_priv import losses, models
from fedjax_priv.clients import clipped_gradient
from fedjax_priv.clients.ghost_norms import separate_examples
from fedjax_priv.clients.ghost_norms.dependence import Rows, Unknown

K = 5
W = {"w": jnp.ones((4, 3))}
X = jnp.ones((K, 4))
normalised = lambda y: (y - y.mean(0)[None]) / (y.std(0)[None] + 1)
COMBINED = {
    "batch normalisation": lambda p, x: normalised(x @ p["w"]).sum(1),
    "its statistics constant": lambda p, x: (x @ p["w"] - jax.lax.stop_gradient((x @ p["w"]).mean(0))[None]).sum(1),
    "centred losses": lambda p, x: (x @ p["w"]).sum(1) - (x @ p["w"]).sum(1).mean(),
    "all pairs": lambda p, x: ((x @ p["w"]) @ (x @ p["w"]).T).sum(1),
    "differences of all pairs": lambda p, x: jnp.abs((x @ p["w"])[:, None] - (x @ p["w"])[None]).sum((1, 2)),
    "running sums": lambda p, x: jnp.cumsum((x @ p["w"]).sum(1)),
    "sorted": lambda p, x: jnp.sort((x @ p["w"]).sum(1)),
    "softmax over examples": lambda p, x: jax.nn.softmax((x @ p["w"]).sum(1)),
    "mixed rows, split": lambda p, x: jnp.tile((x @ p["w"]).reshape(1, -1), (K, 1)).max(1),
    "attention between examples": jax.jit(lambda p, x: (jax.nn.softmax(x @ x.T) @ (x @ p["w"])).sum(1)),
    "stacked, then centred": lambda p, x: jnp.stack([x @ p["w"], x @ p["w"]]).sum((0, 2)) - jnp.stack([x, x]).sum(),
    "stacked, between examples": lambda p, x: jnp.stack([x @ p["w"], x @ p["w"]], 2).max((0, 2)).sum() + x.sum(1),
    "inside": lambda p, x: jax.checkpoint(lambda y: y - y.max(0)[None])(x @ p["w"]).sum(1),
}


@pytest.mark.parametrize("name", COMBINED)
def test_losses_that_combine_examples_are_refused(name):
    with pytest.raises(ValueError, match="loss must not combine examples, but [a-z_]+ does"):
        jax.eval_shape(clipped_gradient(COMBINED[name], 1.0), W, X, jnp.ones(K, bool))


def test_a_batch_of_one_combines_nothing():
    jax.eval_shape(clipped_gradient(COMBINED["sorted"], 1.0), W, X[:1], jnp.ones(1, bool))


def dependence(loss, params, examples):
    """What the check finds of the losses."""
    count = len(jax.tree.leaves(params)), len(jax.tree.leaves(examples))
    jaxpr = jax.make_jaxpr(loss)(params, examples).jaxpr
    return separate_examples._followed(jaxpr, [None] * count[0] + [Rows(0)] * count[1])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stacked_values_are_followed(axis):
    """The axis of examples moves where the new one comes before it, also where rows of an example are in a row."""
    stacked = lambda p, x: jnp.stack([(x @ p["w"]).reshape(-1, 1), jnp.ones((3 * K, 1))], axis)
    assert dependence(stacked, W, X) == [Rows(1 if axis == 0 else 0, 3)]


def test_rows_and_columns_stacked_are_not_followed():
    square = jnp.ones((K, K))
    assert dependence(lambda p, x: jnp.stack([x, x.T]), (), square) == [Unknown()]


UNKNOWN = {
    *("recurrent", "loop of unknown length", "spectrum", "batch groups"),
    *("client convolution, several images", "client convolution, several images, ghost"),
    *("client convolution, images on an inner axis", "client convolution, several kernels"),
}
"""Losses with an equation that is not followed."""


def test_losses_of_single_examples_are_followed_to_the_end():
    with jax.enable_x64(True):
        for name, (loss, params, examples, _) in every_case().items():
            found = dependence(loss, params, examples)
            assert (found == [Rows(0)]) == (name not in UNKNOWN | {"only a penalty"}), name
            separate_examples.check_separate(jax.make_jaxpr(loss)(params, examples), params)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(models.mlp((6,), 3), (6,)), (models.cifar_cnn(), (32, 32, 3)), (models.resnet20((32, 32, 3)), (32, 32, 3))],
)
def test_models_of_the_library_are_followed_to_the_end(model, shape):
    params = jax.eval_shape(model.init, jax.random.key(0))
    examples = jax.ShapeDtypeStruct((K, *shape), jnp.float32), jax.ShapeDtypeStruct((K,), jnp.int32)
    assert dependence(losses.softmax_cross_entropy(model), params, examples) == [Rows(0)]
