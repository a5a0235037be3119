"""One layer of the protocol: a client half and a server half."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, Float, PyTree

from fedjax_priv.base.combining import Combine
from fedjax_priv.base.messages import Received
from fedjax_priv.base.placement import Placement
from fedjax_priv.base.secure_sums import SecureSum
from fedjax_priv.base.stated import without_rows


class Scaled(NamedTuple):
    """What layers do to updates that are not rows: they multiply each by a number."""

    norm: Float[Array, " b"]  # of the update times `factor`
    factor: Float[Array, " b"]  # so far; an update whose factor is 0 is left out, whatever it holds
    size: int  # d, numbers in an update


class Layer(NamedTuple):
    """One layer of the protocol: a client half and a server half.

    1. `advertise` opens a round. It turns client state into this round's `private` rows and tells everyone `public`.
    2. `encode` is the client half. It turns a block of updates into uploads.
    3. `disclose` is what clients send once it is known whose upload arrived (`alive`) and which of these clients are
       still there (`online`).
    4. `decode` is the server half. It gets what was disclosed (`header`), `public` and `Received`, never `private`.

    `state` is what a client carries from round to round. A rejected upload leaves it as it was, unless `encode` returns
    `Kept`; a failed round leaves everyone's as it was.
    """

    init: Callable[..., PyTree]  # (key, n) -> state [n, ...]
    advertise: Callable[..., tuple]  # (key, state, cohort) -> (private [n, ...], public, Bits)
    encode: Callable[..., tuple]  # (key, private [b], public, x [b], cohort [b]) -> (y [b], state [b], Sent)
    disclose: Callable[..., tuple]  # (private, public, clear, alive [n], online [n]) -> (header, Bits)
    decode: Callable[..., Received]  # (header, public, Received) -> Received
    combine: Combine | None = None  # of the innermost layer, and no other
    whole: bool = False  # encode looks across clients: its block is the cohort
    caveats: tuple[str, ...] = ()  # what a report of a run must say
    needs_count: bool = False  # decode computes with the number of uploads in a row
    needs_placement: bool = False  # all halves but encode take `placement`: they work client by client
    needs_last: bool = False  # advertise takes `last`, see `RoundState.last`
    antennas: str | None = None  # what decode takes of several, see `Channel.antennas`
    sums: SecureSum = SecureSum()  # of the innermost layer, as `combine`

    @property
    def scale(self) -> Callable[..., tuple] | None:
        """`encode` of a layer that multiplies each update by a number which depends on the update's norm alone.

        `(key, private [b], public, Scaled [b], cohort [b]) -> (Scaled, state [b], Sent)`; None: `encode` needs rows.
        """
        return without_rows(self.encode)

    def placed(self, placement: Placement) -> "Layer":
        """This layer, its work computed in these blocks and on these devices."""
        if not self.needs_placement:
            return self
        halves = ("advertise", "disclose", "decode")
        there = {name: functools.partial(getattr(self, name), placement=placement) for name in halves}
        return self._replace(**there)
