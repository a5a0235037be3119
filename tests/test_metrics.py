import jax
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss

from fedjax_priv.base import Model
from fedjax_priv.metrics import accuracy

MODEL = Model(init=lambda key: None, apply=lambda params, x: x @ params)


@pytest.mark.parametrize("batch_size", [1, 4, 11, 500])
def test_accuracy_and_loss_are_scikit_learns_for_any_batch_size(batch_size):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(11, 3)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    y = rng.integers(0, 4, 11).astype(np.int32)
    got = jax.jit(accuracy(MODEL, x, y, batch_size=batch_size))(w)
    logits = (x @ w).astype(np.float64)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(got["accuracy"], accuracy_score(y, logits.argmax(1)), rtol=1e-6)
    np.testing.assert_allclose(got["test_loss"], log_loss(y, probability, labels=range(4)), rtol=1e-5)


def test_the_model_sees_at_most_a_batch():
    x, y = np.zeros((10, 2, 3), np.float32), np.zeros(10, np.int32)
    model = Model(init=lambda key: None, apply=lambda params, x: x.reshape(x.shape[0], 6) @ params)
    text = jax.jit(lambda w, x: accuracy(model, x, y, batch_size=4)(w)).lower(np.zeros((6, 7), np.float32), x).as_text()
    assert "tensor<4x1x7xf32>" in text
    assert "tensor<10x1x7xf32>" not in text


@pytest.mark.parametrize("y", [np.zeros(3, np.int32), np.zeros((4, 1), np.int32)])
def test_labels_that_do_not_match_are_an_error(y):
    with pytest.raises(ValueError, match=r"y must have one label per row of x, shape \(4,\)"):
        accuracy(MODEL, np.zeros((4, 2), np.float32), y)
    with pytest.raises(ValueError, match="y must have one label"):
        accuracy(MODEL, np.zeros((0, 2), np.float32), np.zeros(0, np.int32))
