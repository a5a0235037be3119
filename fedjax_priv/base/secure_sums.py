"""What a layer that hides single uploads says of its sums."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, PyTree


class SecureSum(NamedTuple):
    """When the server opens a sum of uploads, and with whose help. The defaults say that it sees every upload alone."""

    threshold: int = 1  # the server opens no sum of fewer uploads
    opened_by: int | None = None  # colluders who may show the server single uploads, or parts of them; None: not said
    condition: str = ""  # under which fewer colluders learn sums only, in words
    opens_at: int | None = None  # uploads that must have sent a coordinate to open its sum; None: sums are opened whole
    selects: bool = False  # clients send some coordinates only, and the server knows which
    spacing: int = 1  # of sums that it can tell apart, in field elements: they must stay within (q-1)/2 over it
    shows_rejected: bool = False  # what is opened takes the masks off an upload that arrived and is in no sum
    by_list: bool = False  # disclose takes `lists`, a `Lists` in which clients may be told of different survivors
    protocol: Any = None  # of masks in pairs, a `layers.secure_sum.masked_sum.Protocol`; None: of another kind, or none
    digest: Callable[[PyTree], Array] | None = None  # clients hash the model they are given, see `Cohort.digest`
