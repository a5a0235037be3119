"""How far one client moves a sum, by what it does in the adjacent input; in norms of the longest vector it may send."""

DISTANCE: dict[str, float] = {"zero-out": 1.0, "replacement": 2.0}
"""The client takes part in both: it sends only its noise, or any other vector."""
ANY_DISTANCE = {"add/remove": 1.0, **DISTANCE}
"""Also of a client that takes part in one of them only."""
