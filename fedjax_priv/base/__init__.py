"""The types of the library. No algorithm lives here.

Shapes: `n` clients of a cohort, `b` of them in a block, `g` rows the server holds after uploads are combined,
`d` model parameters. The client axis is always the first one.

- `cohorts`: the clients of a round. `byzantine_clients`: which of a population are Byzantine.
- `training`: what clients compute. `messages`: what they send.
- `layers`, `combining`, `secure_sums`, `channel`, `aggregator`: the parts between clients and server.
- `algorithm`: a whole system, its state and what its server sees. `placement`: where it is computed.
- `stated`: functions that carry what their author states of them. `given_rows`: rows that a caller gives a rule.
- `optional_fields`: fields that may hold nothing.
"""

from fedjax_priv.base.aggregator import Aggregator
from fedjax_priv.base.algorithm import Algorithm, LyingServer, Models, Release, RoundInfo, RoundState, View
from fedjax_priv.base.channel import Channel, everyone_responds
from fedjax_priv.base.cohorts import Antennas, ClientData, Cohort, Draw, Rows
from fedjax_priv.base.combining import Combine
from fedjax_priv.base.layers import Layer, Scaled
from fedjax_priv.base.messages import Bits, Kept, Link, Lists, Received, Sent
from fedjax_priv.base.optional_fields import absent
from fedjax_priv.base.placement import CLIENTS, ONE_DEVICE, Placement
from fedjax_priv.base.secure_sums import SecureSum
from fedjax_priv.base.stated import RowsOptional, Stated
from fedjax_priv.base.training import Local, Model, Told, Updates
from fedjax_priv.keys import Key

__all__ = [
    "CLIENTS",
    "ONE_DEVICE",
    "Aggregator",
    "Algorithm",
    "Antennas",
    "Bits",
    "Channel",
    "ClientData",
    "Cohort",
    "Combine",
    "Draw",
    "Kept",
    "Key",
    "Layer",
    "Link",
    "Lists",
    "Local",
    "LyingServer",
    "Model",
    "Models",
    "Placement",
    "Received",
    "Release",
    "RoundInfo",
    "RoundState",
    "Rows",
    "RowsOptional",
    "Scaled",
    "SecureSum",
    "Sent",
    "Stated",
    "Told",
    "Updates",
    "View",
    "absent",
    "everyone_responds",
]
