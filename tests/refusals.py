"""Tables of bad arguments as tests."""

import pytest


def refused(*cases, by=lambda call: call(), pattern="^{}"):
    """A test for each `(given, message)`: `by(given)` raises a ValueError that matches `pattern` with the message."""

    @pytest.mark.parametrize(("given", "message"), cases)
    def test(given, message):
        with pytest.raises(ValueError, match=pattern.format(message)):
            by(given)

    return test


def each(**values):
    """`({name: value}, name)` for each of the bad values of each argument."""
    return [({name: value}, name) for name, bad in values.items() for value in bad]
