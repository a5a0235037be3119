import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax

from fedjax_priv.base import Model
from fedjax_priv.losses import sequence_cross_entropy, softmax_cross_entropy


def test_cross_entropy_is_minus_the_log_probability_of_the_label():
    rng = np.random.default_rng(0)
    x, w, y = rng.normal(size=(5, 3)), 30 * rng.normal(size=(3, 4)), np.array([0, 3, 1, 1, 2], np.int32)
    model = Model(init=lambda key: None, apply=lambda params, x: x @ params)
    loss = softmax_cross_entropy(model)
    got = loss(jnp.asarray(w, jnp.float32), (jnp.asarray(x, jnp.float32), jnp.asarray(y)))
    np.testing.assert_allclose(got, -log_softmax(x @ w, axis=1)[np.arange(5), y], rtol=1e-4, atol=1e-4)


def test_a_label_without_a_class_costs_nan():
    model = Model(init=lambda key: None, apply=lambda params, x: x)
    got = softmax_cross_entropy(model)(None, (jnp.zeros((4, 3)), jnp.array([-1, 0, 2, 3])))
    assert np.isnan(got).tolist() == [True, False, False, True]


def test_tokens_are_averaged_over_those_that_count():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(3, 4, 5)), np.array([[0, 4, 1, 2], [3, -1, -1, 0], [-1] * 4], np.int32)
    model = Model(init=lambda key: None, apply=lambda params, x: x)
    got = sequence_cross_entropy(model)(None, (jnp.asarray(logits, jnp.float32), jnp.asarray(y)))
    each = -np.take_along_axis(log_softmax(logits, axis=-1), np.maximum(y, 0)[..., None], -1)[..., 0]
    np.testing.assert_allclose(got, [each[0].mean(), each[1, [0, 3]].mean(), 0], rtol=1e-5)


def test_a_token_without_a_class_costs_nan():
    model = Model(init=lambda key: None, apply=lambda params, x: x)
    got = sequence_cross_entropy(model)(None, (jnp.zeros((3, 2, 3)), jnp.array([[-2, 0], [3, -1], [2, -1]])))
    assert np.isnan(got).tolist() == [True, True, False]
