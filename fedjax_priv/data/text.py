"""Text for next-character prediction: Python's own documentation, which every Python has."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int32

from fedjax_priv import _validate
from fedjax_priv.engine.rounded_fractions import part_of

PADDING = -1
"""The label of a place that has no next character: it counts for nothing."""


class Text(NamedTuple):
    """Windows of text for next-character prediction, with who wrote each.

    Characters are numbers of `vocabulary`; `y[i, j]` is the one that follows `x[i, j]`, or `PADDING`.
    """

    x_train: Int32[np.ndarray, "train length"]
    y_train: Int32[np.ndarray, "train length"]
    users: Int32[np.ndarray, " train"]  # the author of each window, for `by_user`
    x_test: Int32[np.ndarray, "test length"]
    y_test: Int32[np.ndarray, "test length"]
    vocabulary: str


def python_documentation(length: int = 64, test_fraction: float = 0.1) -> Text:
    """The topics of Python's `help()`, some eighty texts of about half a million characters in all; a topic is a user.

    The text is that of the running Python, so its size depends on the version. Topics differ in what they are about and
    in size, from a few windows to many hundreds: data that are far from identically distributed.

    Args:
      length: characters of a window, fewer than the longest topic has.
      test_fraction: in [0, 1); the last windows of each topic, rounded down, are for the test.

    Raises:
      ValueError: an argument is out of range.
      ImportError: this Python came without its documentation.

    Examples:
      >>> text = python_documentation(32)
      >>> start = "".join(text.vocabulary[c] for c in text.x_train[0])
      >>> start[1:] == "".join(text.vocabulary[c] for c in text.y_train[0])[:-1]
      True
    """
    _validate.integer(length=length)
    _validate.fraction(below_one=True, test_fraction=test_fraction)
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ImportError("this Python has come without its documentation, the module pydoc_data") from error
    if length >= (longest := max(map(len, topics.values()))):
        raise ValueError(f"length must be below {longest}, the characters of the longest topic, got {length}")
    vocabulary = "".join(sorted(set().union(*topics.values())))
    number = {character: place for place, character in enumerate(vocabulary)}
    train, test, users = [], [], []
    for user, name in enumerate(sorted(topics)):
        text = np.array([number[character] for character in topics[name]], np.int32)
        x, y = _windows(text, length)
        kept = len(x) - part_of(test_fraction, len(x))
        train.append((x[:kept], y[:kept]))
        test.append((x[kept:], y[kept:]))
        users.append(np.full(kept, user, np.int32))
    (x_train, y_train), (x_test, y_test) = map(_joined, (train, test))
    return Text(x_train, y_train, np.concatenate(users), x_test, y_test, vocabulary)


def _joined(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    x, y = zip(*pairs, strict=True)
    return np.concatenate(x), np.concatenate(y)


def _windows(text: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Characters and the ones that follow, cut in windows `[k, length]`; the last is padded."""
    k = -(-(len(text) - 1) // length)
    x, y = np.zeros(k * length, np.int32), np.full(k * length, PADDING, np.int32)
    x[: len(text) - 1], y[: len(text) - 1] = text[:-1], text[1:]
    return x.reshape(k, length), y.reshape(k, length)
