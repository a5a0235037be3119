"""Clipped sums of sample gradients, against one gradient after the other in float64."""

import inspect

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv import losses, models
from fedjax_priv.base import ClientData
from fedjax_priv.clients import local_sgd
from fedjax_priv.clients.clipped_gradients import clipped_gradient, gradient_norms, norm_methods
from helpers import cohort_of

KEY = jax.random.key(9)
K, FEATURES, CLASSES = 7, 5, 3
X = np.random.default_rng(0).normal(size=(K, FEATURES)).astype(np.float32) * np.linspace(0.1, 3, K)[:, None]
EXAMPLES = jnp.asarray(X, jnp.float32), jnp.arange(K) % CLASSES
VALID = jnp.arange(K) != 2


class WithoutBias(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(CLASSES, use_bias=False, name="out")(jnp.tanh(nn.Dense(4, name="in")(inputs=x)))


class Shared(nn.Module):
    """One layer called twice."""

    @nn.compact
    def __call__(self, x):
        layer = nn.Dense(FEATURES)
        return nn.Dense(CLASSES)(layer(jnp.tanh(layer(x))))


class Scaled(nn.Module):
    """A parameter that belongs to no dense layer."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(CLASSES)(x * self.param("scale", nn.initializers.ones, (FEATURES,))[None, :])


class Tokens(nn.Module):
    """Several rows per sample."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(CLASSES)(jnp.stack([x, -x], 1).reshape(-1, FEATURES)).reshape(len(x), -1)[:, :CLASSES]


class Ensemble(nn.Module):
    """Parameters with an axis that a call does not see."""

    @nn.compact
    def __call__(self, x):
        dense = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, axis_size=2)
        return dense(CLASSES)(x).sum(0)


class Centred(nn.Dense):
    """A dense layer that does something else with its parameters."""

    @nn.compact
    def __call__(self, x):
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        return x @ (kernel - kernel.mean()) + bias[None, :]


class Special(nn.Module):
    make: object

    @nn.compact
    def __call__(self, x):
        return self.make()(x)


def doubled(*args, **kwargs):
    return 2 * jax.lax.dot_general(*args, **kwargs)


def elsewhere(model):
    """A loss that swaps the parameters of two layers."""
    square = models.mlp((FEATURES,), FEATURES, hidden=(FEATURES,))
    loss = losses.softmax_cross_entropy(square)
    swapped = lambda params: {"Dense_0": params["Dense_1"], "Dense_1": params["Dense_0"]}
    return (lambda params, examples: loss(swapped(params), examples)), square


def frozen():
    """A loss with constants for one layer's parameters, which it therefore does not read."""
    loss, fixed = losses.softmax_cross_entropy(MLP), MLP.init(KEY)
    return lambda params, examples: loss(params | {"Dense_0": fixed["Dense_0"]}, examples)


def regularised(model):
    plain = losses.softmax_cross_entropy(model)
    return lambda params, examples: (
        plain(params, examples) + 0.1 * sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(params))
    )


def of_module(module):
    return losses.softmax_cross_entropy(models.from_flax(module, (FEATURES,))), models.from_flax(module, (FEATURES,))


MLP = models.mlp((FEATURES,), CLASSES, hidden=(4, 6))
LAYER = "instantiated ghost"
CASES = {  # loss, model, methods of biases and kernels
    "mlp": (losses.softmax_cross_entropy(MLP), MLP, f"{LAYER} {LAYER} {LAYER}"),
    "without bias": (*of_module(WithoutBias()), f"{LAYER} ghost"),
    "shared": (*of_module(Shared()), f"instantiated instantiated {LAYER}"),
    "scaled": (*of_module(Scaled()), f"{LAYER} instantiated"),
    "regularised": (regularised(MLP), MLP, " ".join(["instantiated"] * 6)),
    "tokens": (*of_module(Tokens()), LAYER),
    "ensemble": (*of_module(Ensemble()), LAYER),
    "another layer": (*of_module(Special(lambda: Centred(CLASSES))), "instantiated instantiated"),
    "another product": (*of_module(Special(lambda: nn.Dense(CLASSES, dot_general=doubled))), LAYER),
    "elsewhere": (*elsewhere(MLP), f"{LAYER} {LAYER}"),
    "frozen": (frozen(), MLP, f"unused unused {LAYER} {LAYER}"),
}


def one_by_one(loss, params):
    """Loss and gradient of one sample after the other, of those that count."""
    one = jax.jit(jax.value_and_grad(lambda params, x, y: loss(params, (x[None], y[None]))[0]))
    found = [one(params, EXAMPLES[0][i], EXAMPLES[1][i]) for i in np.flatnonzero(VALID)]
    return [(float(value), jax.tree.map(lambda g: np.asarray(g, np.float64), grads)) for value, grads in found]


def reference(samples, max_norm):
    clipped = jax.tree.map(np.zeros_like, samples[0][1])
    for _, grads in samples:
        norm = np.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        factor = min(1, max_norm / norm)
        clipped = jax.tree.map(lambda total, g, factor=factor: total + g * factor, clipped, grads)
    return sum(value for value, _ in samples), clipped


@pytest.mark.parametrize("name", CASES)
def test_clipped_sums(name):
    loss, model, methods = CASES[name]
    params = jax.jit(lambda: jax.tree.map(lambda p: p + 0.1, model.init(KEY)))()
    assert " ".join(method.split()[0] for method in jax.tree.leaves(norm_methods(loss, params, EXAMPLES))) == methods
    clip = jax.jit(lambda bound: clipped_gradient(loss, bound)(params, EXAMPLES, VALID))
    samples = one_by_one(loss, params)
    for bound in (0.3, 1.5, 100.0):
        total, grads = clip(bound)
        expected_total, expected = reference(samples, bound)
        np.testing.assert_allclose(total, expected_total, rtol=1e-5)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), grads, expected)


def test_bounds_do_bind():
    """In the cases above some samples are clipped, and some are not."""
    loss, params = CASES["mlp"][0], MLP.init(KEY)
    of_one = jax.grad(lambda params, x, y: loss(params, (x[None], y[None]))[0])
    norms = jax.jit(jax.vmap(lambda x, y: optax.tree.norm(of_one(params, x, y))))(*EXAMPLES)
    assert 0.3 < min(norms) < 1.5 < max(norms) < 100


LOSS = CASES["mlp"][0]
DATA = ClientData(jax.tree.map(lambda a: jnp.stack([a, a[::-1]]), EXAMPLES), jnp.array([K, 4]))


def trained(**how):
    local = local_sgd(LOSS, learning_rate=0.5, batch_size=K, num_steps=1, **how)
    apply = jax.jit(lambda params: local.apply(KEY, local.init(2, params), params, DATA, cohort_of(2))[0])
    return apply(MLP.init(KEY))


def test_a_step_divides_by_the_batch_size_even_where_a_batch_is_partial():
    """The batch size is public; the number of a client's samples is not."""
    update = np.asarray(trained(sample_clip=0.3))
    total, grads = jax.jit(clipped_gradient(LOSS, 0.3))(
        MLP.init(KEY), jax.tree.map(lambda a: a[1], DATA.examples), jnp.arange(K) < 4
    )
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(grads)])
    np.testing.assert_allclose(update[1], 0.5 * flat / K, rtol=1e-5, atol=1e-7)
    assert (np.linalg.norm(update, axis=1) <= 0.5 * 0.3).all() and float(total) > 0


def test_noise_is_drawn_anew_by_each_client_in_each_step():
    sigma, steps = 2.0, 50
    local = local_sgd(LOSS, learning_rate=1.0, batch_size=K, num_steps=steps, sample_clip=1e-6, gradient_noise=sigma)
    update = np.asarray(jax.jit(lambda params: local.apply(KEY, (), params, DATA, cohort_of(2))[0])(MLP.init(KEY)))
    d = update.shape[1]
    assert abs(update.var() / (steps * sigma**2) - 1) < 5 * np.sqrt(2 / update.size)
    assert abs(np.corrcoef(update)[0, 1]) < 5 / np.sqrt(d)


def test_samples_that_do_not_count_may_be_anything_and_others_must_be_finite():
    clip = jax.jit(lambda x: clipped_gradient(LOSS, 1.0)(MLP.init(KEY), (x, EXAMPLES[1]), VALID))
    found = clip(EXAMPLES[0])
    jax.tree.map(np.testing.assert_array_equal, clip(EXAMPLES[0].at[2].set(jnp.nan)), found)
    for wrong in (jnp.nan, jnp.inf):
        _, grads = clip(EXAMPLES[0].at[3].set(wrong))
        assert not np.isfinite(grads["Dense_0"]["kernel"]).all()


def test_a_loss_of_another_shape_is_refused():
    columns = lambda params, examples: LOSS(params, examples)[:, None]
    with pytest.raises(
        ValueError, match=r"loss must return one value per example, shape \(7,\), got an array of shape \(7, 1\)"
    ):
        clipped_gradient(columns, 1.0)(MLP.init(KEY), EXAMPLES, VALID)


@pytest.mark.parametrize("bad", [None, "x", lambda params: params.sum()])
def test_what_is_no_loss_is_refused(bad):
    clip, norms, methods = map(inspect.unwrap, (clipped_gradient, gradient_norms, norm_methods))
    for call in (lambda: clip(bad, 1.0), lambda: norms(bad), lambda: methods(bad, jnp.ones(2), jnp.ones((3, 2)))):
        with pytest.raises(ValueError, match="^loss must be a function of 2 arguments, such as losses"):
            call()


@pytest.mark.parametrize("bad", [-1.0, 0.0, jnp.nan, "a"])
def test_a_norm_that_is_not_positive_is_refused(bad):
    with pytest.raises(ValueError, match="max_norm must be a finite number > 0, got"):
        clipped_gradient(LOSS, bad)


def test_a_traced_norm_that_is_not_positive_gives_no_number():
    loss, valid = (lambda w, x: x @ w), jnp.array([True, True])
    clip = jax.jit(lambda max_norm: clipped_gradient(loss, max_norm)(jnp.ones(2), jnp.ones((2, 2)), valid)[1])
    assert jnp.isnan(clip(-1.0)).all() and jnp.isfinite(clip(1.0)).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sample_clip": 0.0}, "sample_clip must be a finite number > 0, got 0.0"),
        ({"gradient_noise": -1.0}, "gradient_noise must be a finite number >= 0, got -1.0"),
    ],
)
def test_bad_arguments(how, message):
    with pytest.raises(ValueError, match=message):
        trained(**how)
    ((name, value),) = how.items()
    assert jnp.isnan(jax.jit(lambda value: trained(**{name: value}))(value)).any()
