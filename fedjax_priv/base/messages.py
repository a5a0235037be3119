"""What clients send, what the server holds of it, and the bits on the way."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Int, PyTree, UInt32


class Link(NamedTuple):
    """Bits that one phase of a round puts on each client's link: exact sizes of the messages built."""

    up: UInt32[Array, " n"]
    down: UInt32[Array, " n"]


Bits = Mapping[str, Link]
"""Phase of the round -> bits."""


class Received(NamedTuple):
    """The rows the server holds after uploads are combined."""

    value: PyTree  # [g, ...]
    count: Int[Array, " g"]  # number of uploads in the row; 0: none, or not recovered
    status: PyTree = ()  # int32 [g], bits of `Status` that the server sets while it decodes; (): none
    used: PyTree = ()  # bool [d], the places of a row that are coordinates, others are zero; (): all


class Sent(NamedTuple):
    """What a layer sends in addition to the payload, and how encoding went.

    The server rejects the group of a client with a bit set in `status` or `refused`. A client reports `status` about
    itself. A Byzantine client does not report itself, so its `status` does not count. An upload that is not `valid`
    does not affect others: it is in no sum, as if it had been lost, but the server holds it.
    """

    bits: Any = 0  # uint32 [b], or one number for all
    status: Any = 0  # int32 [b], bits of `Status` by checks that a client makes of itself
    refused: Any = 0  # int32 [b], bits of `Status` whoever sent it: seen by the server in the clear, or no message
    clear: PyTree = ()  # [b, ...], not summed: the server gets each client's
    measured: PyTree = ()  # name -> numbers [b] or [b, m], for the reader of a run; not sent
    valid: PyTree = ()  # bool [b], whether the server accepts the upload's proof of validity; (): none is asked for
    unused: Any = ()  # integer, places at the end of every row that layers below leave out of their bits; (): none
    each: Any = ()  # integer, bits of a place, if each place costs the same; (): it does not


class Kept(NamedTuple):
    """Next states for each outcome that no party knows yet: the upload, or the round, is accepted, or it is not.

    `Layer.encode` returns it if a client's state changes even when its upload is lost, and `Aggregator.apply` if the
    server's state changes even when the round fails. So noise that was drawn is not drawn again.
    """

    counted: PyTree  # the state if the upload was accepted, [b, ...]; of the server: if the round succeeded
    lost: PyTree  # the state if not; the same structure
    unsound: PyTree = None  # if accepted from a Byzantine client that fails its own checks; None: as `lost`


class Lists(NamedTuple):
    """The survivors that a lying server names to each client, and who helps it."""

    alive: Bool[Array, "n n"]  # row k: those that client k is told
    colluding: Bool[Array, " n"]  # signs every list
