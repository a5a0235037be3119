"""The text that comes with Python."""

from pydoc_data.topics import topics

import numpy as np
import pytest

from fedjax_priv import data
from fedjax_priv.data.text import PADDING

TEXT = data.python_documentation(50, test_fraction=0.0)


def written(numbers):
    return "".join(TEXT.vocabulary[number] for number in numbers)


def test_each_user_is_a_topic_and_nothing_is_lost():
    assert len(np.unique(TEXT.users)) == len(topics)
    for user, name in enumerate(sorted(topics)):
        x, y = TEXT.x_train[TEXT.users == user], TEXT.y_train[TEXT.users == user]
        labels = y[y != PADDING]
        assert topics[name] == written(x.ravel()[:1]) + written(labels)
        assert (y.ravel()[: len(labels)] != PADDING).all()
        np.testing.assert_array_equal(x.ravel()[1 : len(labels)], labels[:-1])


def test_the_test_is_the_end_of_each_topic():
    split = data.python_documentation(50, test_fraction=0.25)
    assert len(split.x_train) + len(split.x_test) == len(TEXT.x_train)
    user = np.bincount(TEXT.users).argmax()
    own = TEXT.x_train[TEXT.users == user]
    np.testing.assert_array_equal(split.x_train[split.users == user], own[: len(own) - len(own) // 4])


def test_topics_differ_in_size():
    windows = np.bincount(data.python_documentation().users)
    assert windows.min() < 10 and windows.max() > 300


@pytest.mark.parametrize("wrong", [dict(length=0), dict(test_fraction=1.0)])
def test_a_bad_argument_is_named(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
        data.python_documentation(**wrong)


def test_no_window_of_the_fraction_is_lost_to_rounding():
    """0.29 * 100 is 28.999999999999996 in float64; some topic has a multiple of 100 windows."""
    for length in range(20, 60):
        windows = np.bincount(data.python_documentation(length, test_fraction=0.0).users)
        if (windows % 100 == 0).any():
            break
    split = data.python_documentation(length, test_fraction=0.29)
    user = np.flatnonzero(windows % 100 == 0)[0]
    assert (split.users == user).sum() == windows[user] * 71 // 100


def test_a_window_longer_than_every_topic_is_refused():
    """It would be nothing but padding: a length of a billion fills any memory."""
    longest = max(map(len, topics.values()))
    with pytest.raises(ValueError, match=f"^length must be below {longest}, .* got {10**9}$"):
        data.python_documentation(10**9)
