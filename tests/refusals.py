"""Tables of bad arguments as tests."""

from helpers import refuses


def refused(*cases, by=lambda call: call(), pattern="^{}"):
    """A test for each `(given, message)`: `by(given)` raises a ValueError that matches `pattern` with the message."""
    return refuses(by, *((given, pattern.format(message)) for given, message in cases))


def each(**values):
    """`({name: value}, name)` for each of the bad values of each argument."""
    return [({name: value}, name) for name, bad in values.items() for value in bad]
