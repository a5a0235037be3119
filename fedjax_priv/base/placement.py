"""Where a round is computed: in blocks of clients, on devices."""

from typing import NamedTuple

from jax.sharding import Mesh

CLIENTS = "clients"
"""Name of the one mesh axis."""


class Placement(NamedTuple):
    """Where a round is computed. No result depends on it."""

    block: int | None = None  # clients computed at once; None: as many as fit (`engine.side_by_side`)
    mesh: Mesh | None = None  # the devices that clients are spread over; None: one device


ONE_DEVICE = Placement()
