import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from fedjax_priv.base import Model
from fedjax_priv.losses import RandomLoss, checked_loss, sequence_cross_entropy, softmax_cross_entropy
from fedjax_priv.metrics import sequence_accuracy


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


@pytest.mark.parametrize(("dtype", "classes"), [("uint8", 256), ("uint8", 300), ("int8", 128)])
def test_labels_of_a_byte_are_what_they_are(dtype, classes):
    """A byte does not hold the number of classes, nor an unsigned one -1; the largest one is a label."""
    most = np.iinfo(dtype).max
    model = Model(init=lambda key: None, apply=lambda params, x: x)
    y, logits = np.array([[0, most, most], [3, most, 1]], dtype), np.zeros((2, 3, classes), np.float32)
    logits[0, 1, most] = 9.0
    expected = -np.take_along_axis(log_softmax(logits, axis=-1), y.astype(int)[..., None], -1)[..., 0]
    loss = jax.jit(lambda x, y: sequence_cross_entropy(model)(None, (x, y)))
    np.testing.assert_allclose(loss(logits, y), expected.mean(1), rtol=1e-5)
    single = jax.jit(lambda x, y: softmax_cross_entropy(model)(None, (x, y)))
    np.testing.assert_allclose(single(logits[0], y[0]), expected[0], rtol=3e-5)
    found = jax.jit(sequence_accuracy(model, logits, y))(None)
    np.testing.assert_allclose(found["test_loss"], expected.mean(), rtol=1e-5)
    assert found["accuracy"] == pytest.approx(2 / 6)


PLAIN = Model(init=lambda key: jnp.zeros((3, 4)), apply=lambda params, x: x @ params)
X, Y = jnp.zeros((2, 3)), jnp.array([0, 3])


@pytest.mark.parametrize(
    ("loss", "examples", "message"),
    [
        (softmax_cross_entropy, {"x": X, "y": Y}, r"examples must be a pair \(x, y\), got dict; .*"),
        (softmax_cross_entropy, (X, Y.astype(jnp.float32)), "labels y must be integers, got float32"),
        (softmax_cross_entropy, (X, Y[:, None]), r"model must return logits of shape \(2, 1\) \+ .*, got \(2, 4\)"),
        (
            softmax_cross_entropy,
            (X[:, None], Y[:, None]),
            r"labels y must have shape \[b\], got \(2, 1\); .*sequence.*",
        ),
        (sequence_cross_entropy, (X, Y), r"labels y must have shape \[b, length\], got \(2,\)"),
    ],
)
def test_examples_that_are_not_those_of_the_loss_are_refused(loss, examples, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        loss(PLAIN)(jnp.zeros((3, 4)), examples)


def test_a_random_loss_without_keys_among_its_arguments_is_refused():
    with pytest.raises(
        ValueError, match=r"^loss\.function must be a function of \(params, examples, keys\), got one of"
    ):
        checked_loss(RandomLoss(lambda params, examples: examples))  # pyright: ignore[reportArgumentType]
