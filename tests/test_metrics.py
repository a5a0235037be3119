import functools
import inspect

import jax
import numpy as np
import pytest
from refusals import refused
from sklearn.metrics import accuracy_score, log_loss

from fedjax_priv.base import Model
from fedjax_priv.metrics import accuracy, attack_success, sequence_accuracy

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


@pytest.mark.parametrize(
    "measure", [accuracy, functools.partial(attack_success, target=1, trigger=np.copy)], ids=["accuracy", "attack"]
)
def test_the_model_sees_at_most_a_batch_and_is_compiled_for_no_other_size(measure):
    x, y = np.zeros((10, 2, 3), np.float32), np.zeros(10, np.int32)
    model = Model(init=lambda key: None, apply=lambda params, x: x.reshape(x.shape[0], 6) @ params)
    evaluate = measure(model, x, y, batch_size=4)
    text = jax.jit(evaluate).lower(np.zeros((6, 7), np.float32)).as_text()
    assert "tensor<4x1x7xf32>" in text
    assert "tensor<10x1x7xf32>" not in text and text.count("stablehlo.dot_general") == 1


@pytest.mark.parametrize("y", [np.zeros(3, np.int32), np.zeros((4, 1), np.int32)])
def test_labels_that_do_not_match_are_an_error(y):
    with pytest.raises(ValueError, match=r"y must have one label per row of x, shape \(4,\)"):
        accuracy(MODEL, np.zeros((4, 2), np.float32), y)
    with pytest.raises(ValueError, match="y must have one label"):
        accuracy(MODEL, np.zeros((0, 2), np.float32), np.zeros(0, np.int32))


@pytest.mark.parametrize("batch_size", [1, 3, 500])
def test_tokens_count_but_those_without_a_label(batch_size):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 4, 3)).astype(np.float32), rng.integers(0, 3, (5, 4)).astype(np.int32)
    y[1, 2:], y[3] = -1, -1
    model = Model(init=lambda key: None, apply=lambda params, x: x)
    got = jax.jit(sequence_accuracy(model, x, y, batch_size=batch_size))(None)
    there = y >= 0
    probability = np.exp(x[there].astype(np.float64))
    np.testing.assert_allclose(got["accuracy"], accuracy_score(y[there], x[there].argmax(1)), rtol=1e-6)
    loss = log_loss(y[there], probability / probability.sum(1, keepdims=True), labels=range(3))
    np.testing.assert_allclose(got["test_loss"], loss, rtol=1e-5)


def test_a_label_for_each_token_is_needed():
    with pytest.raises(ValueError, match=r"y must have one label per token of x, shape \(4, 2\)"):
        sequence_accuracy(MODEL, np.zeros((4, 2), np.int32), np.zeros(4, np.int32))


PICK = Model(init=lambda key: None, apply=lambda params, x: x * params)


@pytest.mark.parametrize("label", [3, -1])
def test_a_label_that_is_no_class_is_named(label):
    """In jit or not; where labels are traced only the loss shows it."""
    x, y = np.eye(3, dtype=np.float32), np.array([0, 1, label])
    said = rf"^y must be of the model's classes, in \[0, 3\), got {label}\b"
    for call in (accuracy(PICK, x, y), jax.jit(accuracy(PICK, x, y))):
        with pytest.raises(ValueError, match=said):
            call(1.0)
    assert np.isnan(jax.jit(lambda y: accuracy(PICK, x, y)(1.0)["test_loss"])(y))


@pytest.mark.parametrize("label", [3, -2])
def test_a_label_of_a_token_that_is_no_class_is_named(label):
    x, y = np.zeros((1, 4, 3), np.float32), np.array([[0, -1, label, 2]])
    with pytest.raises(ValueError, match=rf"^y must be of the model's classes, in \[-1, 3\), got {label}\b"):
        sequence_accuracy(PICK, x, y)(1.0)


def test_a_target_that_is_no_class_is_named():
    x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 2])
    success = lambda target: inspect.unwrap(attack_success)(PICK, x, y, target=target, trigger=lambda x: x)
    for target in (7.5, -1):
        with pytest.raises(ValueError, match=f"^target must be an integer >= 0, got {target}$"):
            success(target)
    with pytest.raises(ValueError, match=r"^target must be of the model's classes, in \[0, 3\), got 3\b"):
        jax.jit(success(3))(1.0)
    assert success(np.int32(2))(1.0)["attack_success"] == 0


def test_logits_of_nan_are_no_success_of_an_attack():
    """`argmax` of NaN is 0, and 0 is the target; one NaN beside the target's logit counts alike."""
    y, w = np.array([0, 1, 2]), np.eye(3, dtype=np.float32)
    for x, expected in ((np.full((3, 3), np.nan, np.float32), 0), (np.eye(3, dtype=np.float32), 1)):
        stamp = lambda rows: rows + np.float32([[2, 0, 0]])
        assert attack_success(MODEL, x, y, target=0, trigger=stamp)(w)["attack_success"] == expected
    apart = Model(init=None, apply=lambda params, x: x.at[:, 1].set(np.nan))
    assert (
        attack_success(apart, np.ones((3, 3), np.float32), y, target=1, trigger=lambda x: x)(w)["attack_success"] == 0
    )
    found = accuracy(MODEL, np.full((3, 3), np.nan, np.float32), y)(w)
    assert found["accuracy"] == np.float32(1 / 3) and np.isnan(found["test_loss"])


X3, Y3 = np.eye(3, dtype=np.float32), np.array([0, 1, 2])
bare = {measure: inspect.unwrap(measure) for measure in (accuracy, attack_success, sequence_accuracy)}
test_what_is_no_model_or_trigger_is_named = refused(
    (lambda: bare[accuracy](3, X3, Y3), "model must be a Model, such as .*, got int$"),
    (lambda: bare[sequence_accuracy](3, X3, Y3[:, None]), "model must be a Model, such as .*, got int$"),
    (lambda: bare[attack_success](3, X3, Y3, target=0, trigger=lambda x: x), "model must be a Model, .*, got int$"),
    (
        lambda: bare[attack_success](MODEL, X3, Y3, target=0, trigger=3),
        r"trigger must be a function of \(examples\), got int$",
    ),
)


def test_what_is_no_array_of_numbers_is_named():
    for name, (x, y), got in (
        ("x", ("x", Y3), "str"),
        ("x", (None, Y3), "NoneType"),
        ("y", (X3, [[1], [1, 2]]), "list"),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be an array of numbers, got {got}$"):
            bare[accuracy](PICK, x, y)


def test_tokens_that_int32_does_not_hold_are_refused():
    """JAX keeps their lower half, another token."""
    with pytest.raises(ValueError, match="^x must be integers that fit int32, got 4294967296 to 4294967298"):
        bare[sequence_accuracy](PICK, Y3[None] + 2**32, Y3[None])


def test_labels_that_int32_does_not_hold_are_refused():
    """JAX keeps their lower half: 2**32 + 1 would be class 1."""
    for y in (Y3 + 2**32, Y3 - 2**31 - 1, Y3.astype(np.uint64) + np.uint64(2**63)):
        with pytest.raises(ValueError, match="^y must be integers that fit int32, got "):
            bare[accuracy](PICK, X3, y)


@pytest.mark.parametrize("returned", [lambda x: x[:1], lambda x: None, lambda x: x[0]])
def test_a_trigger_keeps_the_shape_of_examples(returned):
    """Of fewer rows the fraction would be of other examples than those asked for."""
    with pytest.raises(ValueError, match=r"^trigger must return examples of the same shape, \(2, 3\), got "):
        bare[attack_success](PICK, X3, Y3, target=0, trigger=returned)


def test_sequences_without_a_label_are_refused():
    """Their accuracy of 0 and loss of 0 would be of no token."""
    with pytest.raises(ValueError, match="^y must have a label other than -1, which counts for nothing, got no other$"):
        bare[sequence_accuracy](PICK, np.zeros((1, 2, 3), np.float32), np.array([[-1, -1]]))
