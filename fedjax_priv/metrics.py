"""Metrics: what to look at along a training curve."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Model
from fedjax_priv.engine.batches import in_batches
from fedjax_priv.losses import as_labels, cross_entropy, token_losses

_MODEL = "models.from_flax(module, shape)"


def accuracy(
    model: Model, x: ArrayLike, y: ArrayLike, *, batch_size: int = 500
) -> Callable[[PyTree], dict[str, Float[Array, ""]]]:
    """Fraction of examples classified correctly, and mean cross entropy in nats.

    A NaN logit is taken for the largest, so its class is predicted, and the loss is NaN. If `test_loss` is NaN, the
    accuracy means nothing.

    Args:
      model: a classifier.
      x: examples `[k, ...]`.
      y: integer labels `[k]`, of the model's classes `0, ..., classes - 1`.
      batch_size: examples the model sees at once, to limit memory; it need not divide k.

    Returns:
      `evaluate(params) -> {"accuracy": [], "test_loss": []}`, which can be jitted.

    Raises:
      ValueError: `model` is no `Model`, there are no examples, the number of labels differs, or labels are not
        integers. `evaluate` raises it if a label is none of the model's classes; traced labels are not checked, and
        make `test_loss` NaN.

    Examples:
      >>> model = fedjax_priv.base.Model(init=None, apply=lambda params, x: x * params)
      >>> evaluate = accuracy(model, x=np.eye(4, 3, dtype=np.float32), y=np.array([0, 1, 2, 2]))
      >>> print(jax.jit(evaluate)(np.float32(1.0))["accuracy"])
      0.75
    """
    _validate.part(Model, _MODEL, model=model)
    x, y = _checked(x, y, 1, batch_size)
    ends = _ends(y)

    def evaluate(params: PyTree) -> dict[str, Array]:
        def score(example: tuple[Array, Array]) -> tuple[Array, Array]:
            row, label = example
            logits = model.apply(params, row[None])[0]
            _of_classes(ends, logits)
            loss = cross_entropy(logits, label)
            return (logits.argmax() == label).astype(jnp.float32), loss

        correct, loss = in_batches(score, (x, y), batch_size)
        return {"accuracy": correct.mean(), "test_loss": loss.mean()}

    return evaluate


def attack_success(
    model: Model,
    x: ArrayLike,
    y: ArrayLike,
    *,
    target: int,
    trigger: Callable[[ArrayLike], ArrayLike],
    batch_size: int = 500,
) -> Callable[[PyTree], dict[str, Float[Array, ""]]]:
    """Fraction of the examples of other labels that are classified as `target` once they have the trigger.

    Examples of the label `target` itself are left out, and one with a logit of NaN is classified as nothing. Compare
    with the same measure of a run without attack, its base rate.

    Args:
      model: a classifier.
      x: examples `[k, ...]`, without trigger.
      y: integer labels `[k]`, known when the program is compiled.
      target: the attackers' label, one of the model's classes `0, ..., classes - 1`.
      trigger: from examples to examples, such as `attacks.PixelTrigger()`.
      batch_size: examples the model sees at once.

    Returns:
      `evaluate(params) -> {"attack_success": []}`, which can be jitted.

    Raises:
      ValueError: as `accuracy`, but labels need not be classes; all labels are `target`; `trigger` is no function of
        examples, or returns another shape; or `target` is not an integer >= 0, or, when `evaluate` is called, none of
        the model's classes.

    Examples:
      >>> model = fedjax_priv.base.Model(init=None, apply=lambda params, x: x * params)
      >>> x, stamp = np.eye(3, dtype=np.float32), lambda x: x + np.array([[2, 0, 0]], np.float32)
      >>> evaluate = attack_success(model, x, np.array([0, 1, 2]), target=0, trigger=stamp)
      >>> print(jax.jit(evaluate)(np.float32(1.0))["attack_success"])
      1.0
    """
    _validate.part(Model, _MODEL, model=model)
    _validate.takes("examples", trigger=trigger)
    x, y = _checked(x, y, 1, batch_size)
    _validate.integer(at_least=0, target=target)
    others = np.asarray(y) != target
    if not others.any():
        raise ValueError(f"y must have labels other than target = {target}, got no other")
    clean = x[others]
    stamped = trigger(clean)
    if np.shape(stamped) != clean.shape:
        raise ValueError(
            f"trigger must return examples of the same shape, {clean.shape}, got {_validate.made(stamped)}"
        )
    stamped = jnp.asarray(stamped)

    def evaluate(params: PyTree) -> dict[str, Array]:
        def hit(row: Array) -> Array:
            logits = model.apply(params, row[None])[0]
            _of_classes((int(target), int(target)), logits, "target")
            return ((logits.argmax() == target) & ~jnp.isnan(logits).any()).astype(jnp.float32)

        return {"attack_success": in_batches(hit, stamped, batch_size).mean()}

    return evaluate


def together(*evaluations: Callable[[PyTree], dict[str, Array]]) -> Callable[[PyTree], dict[str, Array]]:
    """All metrics of several evaluations, such as accuracy and attack success.

    Raises:
      ValueError: when it is called, two of them have the same name.

    Examples:
      >>> evaluate = together(lambda w: {"largest": w.max()}, lambda w: {"sum": w.sum()})
      >>> found = evaluate(jnp.array([1.0, 3.0]))
      >>> print(found["largest"], found["sum"])
      3.0 4.0
    """

    def evaluate(params: PyTree) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for one in evaluations:
            metrics = one(params)
            if twice := sorted(found.keys() & metrics.keys()):
                raise ValueError(f"evaluations must measure under different names, got {twice} twice")
            found |= metrics
        return found

    return evaluate


def sequence_accuracy(
    model: Model, x: ArrayLike, y: ArrayLike, *, batch_size: int = 100
) -> Callable[[PyTree], dict[str, Float[Array, ""]]]:
    """Fraction of tokens predicted correctly, and mean cross entropy in nats per token; labels of -1 do not count.

    Args:
      model: of sequences, `apply(params, x [b, length])` is `[b, length, classes]`.
      x: sequences `[k, length]`.
      y: integer labels `[k, length]` of -1 or the model's classes, such as the tokens that follow.
      batch_size: sequences the model sees at once, to limit memory; it need not divide k.

    Returns:
      `evaluate(params) -> {"accuracy": [], "test_loss": []}`, which can be jitted.

    Raises:
      ValueError: as `accuracy`, or all labels are -1.

    Examples:
      >>> model = fedjax_priv.base.Model(init=None, apply=lambda params, x: params[x])  # logits of what follows a token
      >>> evaluate = sequence_accuracy(model, x=np.array([[0, 1, 2]]), y=np.array([[1, 2, -1]]))
      >>> print(jax.jit(evaluate)(np.eye(3, k=1, dtype=np.float32))["accuracy"])
      1.0
    """
    _validate.part(Model, _MODEL, model=model)
    x, y = _checked(x, y, 2, batch_size)
    ends = _ends(y)
    if ends is not None and ends[1] == -1:
        raise ValueError("y must have a label other than -1, which counts for nothing, got no other")

    def evaluate(params: PyTree) -> dict[str, Array]:
        def score(example: tuple[Array, Array]) -> tuple[Array, Array, Array]:
            tokens, labels = example
            logits = model.apply(params, tokens[None])[0]
            _of_classes(ends, logits, least=-1)
            each, there = token_losses(logits, labels)
            right = jnp.where(logits.argmax(-1) == labels, there, 0)
            return right.sum(), each.sum(), there.sum()

        correct, loss, number = jax.tree.map(jnp.sum, in_batches(score, (x, y), batch_size))
        number = jnp.maximum(number, 1)
        return {"accuracy": correct / number, "test_loss": loss / number}

    return evaluate


def _checked(x: Any, y: Any, axes: int, batch_size: int) -> tuple[Array, Array]:
    """Examples, and their labels on the first `axes` axes."""
    _validate.integer(batch_size=batch_size)
    x, y = _array(x=x), _array(y=y)
    if y.ndim != axes or not y.size or x.shape[:axes] != y.shape:
        per = "one label per row of x" if axes == 1 else "one label per token of x"
        raise ValueError(f"y must have {per}, shape {x.shape[:axes]}, at least one, got {y.shape}")
    if not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(f"y must be integers, got {y.dtype}")
    return x, as_labels(y)


def _array(**values: Any) -> Array:
    """The value as an array.

    Raises:
      ValueError: it is none of numbers, or has integers that do not fit int32.
    """
    ((name, value),) = values.items()
    if isinstance(value, Array):
        return value
    try:
        rows = np.asarray(value)
    except ValueError:  # of lists of unequal lengths
        rows = np.asarray(None)
    if rows.dtype.kind in "OSUMm":
        raise ValueError(f"{name} must be an array of numbers, got {_validate.made(value)}")
    _fit_int32(name, rows)
    return jnp.asarray(rows)


def _fit_int32(name: str, rows: np.ndarray) -> None:
    """Raises ValueError for integers that JAX would replace by others: it drops the upper half of an int64."""
    if rows.dtype.kind in "iu" and rows.size and not -(2**31) <= int(rows.min()) <= int(rows.max()) < 2**31:
        raise ValueError(f"{name} must be integers that fit int32, got {rows.min()} to {rows.max()}")


def _ends(y: Array) -> tuple[int, int] | None:
    """The least and the largest label; None of traced ones."""
    return None if isinstance(y, Tracer) else (int(y.min()), int(y.max()))


def _of_classes(ends: tuple[int, int] | None, logits: Array, name: str = "y", least: int = 0) -> None:
    """Check, while `evaluate` is traced, that labels are classes of the model."""
    classes = logits.shape[-1]
    if ends is not None and not least <= ends[0] <= ends[1] < classes:
        got = ends[0] if ends[0] < least else ends[1]
        raise ValueError(f"{name} must be of the model's classes, in [{least}, {classes}), got {got}")
