"""Every model: parameter count, shapes, and that an example's logits depend on that example alone."""

import inspect
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv import models
from fedjax_priv.models import resnet
from fedjax_priv.models.cnn import max_pool

COUNTS = {  # model, shape of an example, d written out layer by layer
    "softmax": (models.softmax_regression((28, 28, 1), 10), (28, 28, 1), 785 * 10),
    "two layers": (models.mlp((28, 28), 10), (28, 28), 785 * 200 + 201 * 10),
    "three layers": (models.mlp((784,), 10, hidden=(200, 200)), (784,), 785 * 200 + 201 * 200 + 201 * 10),
    "mcmahan": (models.mcmahan_cnn(), (28, 28, 1), 1_663_370),
    "mcmahan valid": (models.mcmahan_cnn(padding="VALID"), (28, 28, 1), 582_026),
    "cifar": (models.cifar_cnn(), (32, 32, 3), 165_354),
    "resnet20": (models.resnet20(), (32, 32, 3), 272_474),
}


@pytest.mark.parametrize("name", COUNTS)
def test_number_of_parameters_and_shape_of_logits(name):
    model, shape, d = COUNTS[name]
    params = jax.eval_shape(model.init, jax.random.key(0))
    assert models.num_params(params) == d
    logits = jax.eval_shape(model.apply, params, jax.ShapeDtypeStruct((3, *shape), jnp.float32))
    assert (logits.shape, logits.dtype) == ((3, 10), jnp.float32)


def test_initial_parameters_are_drawn_by_one_program():
    nnx, eqx = pytest.importorskip("flax.nnx"), pytest.importorskip("equinox")
    base = models.from_flax(nn.Dense(2), (3,))
    with_adapters = models.lora(base, base.init(jax.random.key(0)), rank=1)
    in_nnx = models.from_nnx(lambda rngs: nnx.Linear(3, 2, rngs=rngs))
    in_equinox = models.from_equinox(lambda key: eqx.nn.Linear(3, 2, key=key))
    for model in (base, with_adapters, in_nnx, in_equinox):
        jax.block_until_ready(model.init(jax.random.key(1)))
        assert model.init._cache_size() == 1


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (models.mlp((5,), 3, hidden=(4, 4)), (5,)),
        (models.mcmahan_cnn((4, 4, 1), 3), (4, 4, 1)),
        (models.resnet20((4, 4, 3), 3), (4, 4, 3)),
    ],
    ids=["mlp", "cnn", "resnet20"],
)
def test_logits_of_an_example_do_not_depend_on_the_others(model, shape):
    rng, shapes = np.random.default_rng(0), jax.eval_shape(model.init, jax.random.key(0))
    params = jax.tree.map(lambda p: rng.normal(size=p.shape).astype(np.float32), shapes)
    x, y = rng.normal(size=(2, 4, *shape)).astype(np.float32)
    apply = jax.jit(model.apply)
    together, others = apply(params, x), apply(params, np.concatenate([x[:1], y[1:]]))
    np.testing.assert_allclose(others[0], together[0], rtol=1e-4, atol=1e-4)
    assert not np.allclose(others[1], together[1], rtol=1e-2, atol=1e-2)


def test_two_layer_network_is_two_affine_maps_and_a_relu():
    model = models.mlp((2, 3), 4, hidden=(5,))
    rng, shapes = np.random.default_rng(0), jax.eval_shape(model.init, jax.random.key(0))
    params = jax.tree.map(lambda p: rng.normal(size=p.shape).astype(np.float32), shapes)
    first, last = params["Dense_0"], params["Dense_1"]
    x = rng.normal(size=(6, 2, 3)).astype(np.float32)
    hidden = np.maximum(x.reshape(6, 6) @ first["kernel"] + first["bias"], 0)
    np.testing.assert_allclose(
        jax.jit(model.apply)(params, x), hidden @ last["kernel"] + last["bias"], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("size", [(4, 6), (5, 7)])
def test_max_pool_is_flaxs(size):
    x = np.random.default_rng(0).normal(size=(2, *size, 3)).astype(np.float32)
    theirs, theirs_back = jax.vjp(lambda x: nn.max_pool(x, (2, 2), (2, 2)), jnp.asarray(x))
    ours, ours_back = jax.vjp(max_pool, jnp.asarray(x))
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(ours_back(theirs)[0], theirs_back(theirs)[0])


def test_norms_of_resnet_have_eight_groups_of_channels():
    x = np.random.default_rng(0).normal(2, 3, (2, 4, 4, 16)).astype(np.float32)
    groups = x.reshape(2, 4, 4, 8, 2).astype(np.float64)
    mean, var = groups.mean((1, 2, 4), keepdims=True), groups.var((1, 2, 4), keepdims=True)
    expected = ((groups - mean) / np.sqrt(var + 1e-6)).reshape(x.shape)
    found = resnet._norm().init_with_output(jax.random.key(0), x)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_block_of_resnet_whose_kernels_are_zero_is_a_relu():
    block, x = resnet._Block(16, 1), jax.random.normal(jax.random.key(1), (1, 4, 4, 16))
    zeros = jax.tree.map(lambda p: jnp.zeros(p.shape), jax.eval_shape(block.init, jax.random.key(0), x))
    np.testing.assert_array_equal(block.apply(zeros, x), np.maximum(x, 0))


def test_a_module_with_running_statistics_is_refused():
    model = models.from_flax(nn.BatchNorm(use_running_average=False), (3,))
    with pytest.raises(ValueError, match=r"no variables but params, got \['batch_stats', 'params'\]"):
        model.init(jax.random.key(0))


test_bad_sizes_are_errors_that_name_them = refused(
    (lambda: models.softmax_regression((0, 3), 2), "input_shape must be an integer >= 1, got 0"),
    (lambda: models.mlp((3,), 2, hidden=(4, -1)), "hidden must be an integer >= 1, got -1"),
    (lambda: models.mlp((3,), 0), "num_classes must be"),
    (lambda: inspect.unwrap(models.mcmahan_cnn)(padding="same"), "padding must be one of 'SAME', 'VALID', got 'same'"),
    (
        lambda: inspect.unwrap(models.mcmahan_cnn)((28, 28), 10),
        r"input_shape must be \(height, width, channels\), at least 4x4, got \(28, 28\)",
    ),
    (lambda: models.mcmahan_cnn((4, 3, 1)), r"input_shape must be .*, at least 4x4, got \(4, 3, 1\)"),
    (lambda: models.mcmahan_cnn((16, 15, 1), padding="VALID"), r"input_shape must be .*, at least 16x16, got"),
    (lambda: inspect.unwrap(models.resnet20)((32, 32)), r"input_shape must be .*, got \(32, 32\)"),
    (lambda: models.resnet20(num_classes=0), "num_classes must be"),
    (lambda: models.cifar_cnn(0), "num_classes must be"),
)


@pytest.mark.parametrize(("side", "padding"), [(4, "SAME"), (16, "VALID")])
def test_the_smallest_images_leave_something_to_classify(side, padding):
    model = models.mcmahan_cnn((side, side, 1), 3, padding=padding)
    params = jax.eval_shape(model.init, jax.random.key(0))
    assert params["Dense_0"]["kernel"].shape == (64, 512)  # one place of 64 channels


def test_without_equinox_its_models_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "equinox", None)
    with pytest.raises(ImportError, match=r"fedjax-priv\[equinox\]"):
        models.from_equinox(lambda key: None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: inspect.unwrap(models.mlp)((8,), 3, hidden=5), "hidden must be a tuple of integers >= 1, got 5"),
        (
            lambda: inspect.unwrap(models.from_flax)(nn.Dense(3), 64),
            "input_shape must be a tuple of integers >= 1, got 64",
        ),
        (
            lambda: inspect.unwrap(models.from_flax)(nn.Dense, (3,)),
            "module must be a Module, such as .*, got Dense, which may have .*",
        ),
        (
            lambda: inspect.unwrap(models.from_flax)(nn.Dense(2), (3,), training=True),
            "training must be a dict, such as .*, got True",
        ),
    ],
)
def test_arguments_of_another_type_are_refused(make, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()


@pytest.mark.parametrize(
    ("model", "x", "got"),
    [
        (models.mlp((5, 4), 3, hidden=()), np.zeros((2, 4, 4), np.float32), r"\(5, 4\) and .*, got \(4, 4\) float32"),
        (models.transformer(7, 3, width=4, heads=1), np.zeros((2, 5), np.int32), r"\(3,\) and .*, got \(5,\) int32"),
        (models.transformer(7, 3, width=4, heads=1), np.zeros((2, 3), np.float32), r"\(3,\) and dtype int32, got .*32"),
    ],
)
def test_examples_of_another_shape_or_kind_are_refused_with_the_shape_of_the_model(model, x, got):
    shapes = lambda x: jax.eval_shape(model.apply, jax.eval_shape(model.init, jax.random.key(0)), x)
    with pytest.raises(ValueError, match=f"^x must have examples of input_shape {got}"):
        shapes(x)
