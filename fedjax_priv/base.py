"""The types of the library. No algorithm lives here.

Shapes: `n` clients of a cohort, `b` of them in a block, `g` rows the server holds after uploads are combined,
`d` model parameters. The client axis is always the first one.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from fedjax_priv._devices import finite_rows, read_in_place
from fedjax_priv.keys import Key, keyless
from fedjax_priv.status import errors_raised

CLIENTS = "clients"
"""Name of the one mesh axis."""


class ClientData(NamedTuple):
    """The samples of every client, stacked; rows `count[i]:` of client `i` are padding and never train.

    `examples` is a pytree, such as `(x [n, m, ...], y [n, m])`; `simulate` checks that it fits `count`. For a
    population too large for the devices, it may hold only the samples of the round's cohort, in the cohort's order.
    """

    examples: PyTree  # [n, m, ...]
    count: Int[Array, " n"]


class Antennas(NamedTuple):
    """Links to a server with M antennas, which clients know nothing of; complex numbers have an axis for both parts."""

    gain: Float[Array, "n M 2"]
    total: Float[Array, "n M 2"]  # what the server takes for the sum of all gains; the same in every row
    coefficient: Float[Array, "n 2"]  # what is heard of a client after combining, real and imaginary part, noise at N0


class Cohort(NamedTuple):
    """The clients of a round, as fixed before anything is sent.

    Every field has one row per client, so a cohort can be cut into blocks. A cohort as large as the population is the
    population in order.
    """

    client: Int[Array, " n"]  # the client's number in the population
    round: Int[Array, " n"]  # the same in every row
    weight: Float[Array, " n"]  # beta_i = |D_i| / sum_j |D_j|
    selected: Bool[Array, " n"]  # takes part in the round
    byzantine: Bool[Array, " n"]
    group: Int[Array, " n"]  # the row of `Received` its upload is added to
    gain: Float[Array, " n"]  # channel gain, amplitude
    participation: Float[Array, " n"]  # probability of joining, given that it is in the cohort
    staleness: Int[Array, " n"]  # rounds ago that it was given the model it trains; 0: in this round
    digest: PyTree = ()  # uint32 [n, 2], what the client hashed of the model it was given; (): no layer needs it
    coefficient: PyTree = ()  # [n, 2], true gain over `gain`, real and imaginary part; (): `gain` is the true one
    antennas: PyTree = ()  # `Antennas`, of which `gain` is the root mean square; (): the server has one
    level: PyTree = ()  # [n], c_t over the air, the same in every row; (): the draw does not choose it
    factor: PyTree = ()  # uint32 [n], public integer that the server multiplies its upload by; (): 1


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


class Sent(NamedTuple):
    """What a layer sends in addition to the payload, and how encoding went.

    The server rejects the group of a client with a bit set in `status` or `refused`. No server sees what a client finds
    out about itself, and a Byzantine client does not report itself, so its `status` does not count. An upload that is
    not `valid` costs nobody else: it is in no sum, as if it had been lost, but the server holds it.
    """

    bits: Any = 0  # uint32 [b], or one number for all
    status: Any = 0  # int32 [b], bits of `Status` by checks that a client makes of itself
    refused: Any = 0  # int32 [b], bits of `Status` whoever sent it: seen by the server in the clear, or no message
    clear: PyTree = ()  # [b, ...], not summed: the server gets each client's
    measured: PyTree = ()  # name -> numbers [b] or [b, m], for the reader of a run; not sent
    valid: PyTree = ()  # bool [b], whether the server accepts the upload's proof of validity; (): none is asked for


class Kept(NamedTuple):
    """A next state that depends on what becomes of the round, as no party knows yet.

    `Layer.encode` returns it where a client's state moves although its upload was lost, `Aggregator.apply` where the
    server's state moves although the round failed: noise that was drawn is not drawn again.
    """

    counted: PyTree  # the state if the upload was accepted, [b, ...]; of the server: if the round succeeded
    lost: PyTree  # the state if not; the same structure


class Placement(NamedTuple):
    """Where a round is computed. No result depends on it."""

    block: int | None = None  # clients computed at once; None: as many as fit (`engine.side_by_side`)
    mesh: Mesh | None = None  # the devices that clients are spread over; None: one device


ONE_DEVICE = Placement()


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Stated:
    """A function, and what its author states of it; a function that wraps or replaces it states nothing."""

    function: Callable
    about: Any = None
    without_rows: Callable | None = None  # the same, for updates that are not rows; None: not possible

    def __call__(self, *args: Any) -> Any:
        """The function's result."""
        return self.function(*args)


def _without_rows(function: Callable) -> Callable | None:
    return function.without_rows if isinstance(function, Stated) else None


class Lists(NamedTuple):
    """The survivors that a lying server names to each client, and who helps it."""

    alive: Bool[Array, "n n"]  # row k: those that client k is told
    colluding: Bool[Array, " n"]  # signs every list


class Combine(NamedTuple):
    """How uploads become rows; lifted values add by `+` over clients, blocks and devices."""

    lift: Callable[..., PyTree]  # (y [b, ...], alive [b], group [b]) -> summand
    lower: Callable[[PyTree], Received]
    num_groups: int = 1  # rows of `Received`
    max_uploads: int | None = None  # most uploads in a sum; None: any number
    times: Callable[..., PyTree] | None = None  # (y [b, ...], factor [b]) -> y; None: there is no such product

    def lifted(self, y: PyTree, alive: Array, cohort: Cohort) -> PyTree:
        """The summand of a block's uploads, each times its factor."""
        if isinstance(cohort.factor, tuple):
            return self.lift(y, alive, cohort.group)
        assert self.times is not None  # else `engine.parts.check_cohort` has refused the cohort
        return self.lift(self.times(y, cohort.factor), alive, cohort.group)

    @property
    def lift_sum(self) -> Callable[..., PyTree] | None:
        """`(sum of some uploads [d], how many) -> summand`, of a single group; None: uploads are lifted one by one."""
        return _without_rows(self.lift)


class Updates(NamedTuple):
    """Updates of a block of clients, known by their norms and sums; no client has a row."""

    loss: Float[Array, " b"]  # mean training loss
    norm: Float[Array, " b"]  # Euclidean
    weighted_sum: Callable[..., Array]  # (factors [b], counted [b]) -> the sum of those counted, times factors, [d]


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
    threshold: int = 1  # the server opens no sum of fewer uploads
    digest: Callable[[PyTree], Array] | None = None  # clients hash the model they are given, see `Cohort.digest`
    by_list: bool = False  # disclose takes `lists`, a `Lists` in which clients may be told of different survivors
    antennas: str | None = None  # what decode takes of several, see `Channel.antennas`
    spacing: int = 1  # of sums that it can tell apart, in field elements: they must stay within (q-1)/2 over it

    @property
    def scale(self) -> Callable[..., tuple] | None:
        """`encode` of a layer that multiplies each update by a number which depends on the update's norm alone.

        `(key, private [b], public, Scaled [b], cohort [b]) -> (Scaled, state [b], Sent)`; None: `encode` needs rows.
        """
        return _without_rows(self.encode)

    def placed(self, placement: Placement) -> "Layer":
        """This layer, its work computed in these blocks and on these devices."""
        if not self.needs_placement:
            return self
        halves = ("advertise", "disclose", "decode")
        there = {name: functools.partial(getattr(self, name), placement=placement) for name in halves}
        return self._replace(**there)


def everyone_responds(key: Key, alive: Array, cohort: Cohort) -> Array:
    """Every client whose upload arrived is still there at disclosure."""
    del key, cohort
    return alive


class Channel(NamedTuple):
    """What happens to messages on their way to the server."""

    transmit: Callable[..., tuple]  # (key, y [b], cohort [b]) -> (y, alive [b]); alive implies selected
    receive: Callable[..., Received]  # (key, Received) -> Received, once a round
    respond: Callable[..., Array] = everyone_responds  # (key, alive [n], cohort) -> online [n], a subset of alive
    superposes: bool = False  # uploads add on the way: the server gets only their sum, not who sent
    hides_count: bool = False  # nor how many sent: a row counts as one upload
    turns: bool = False  # uploads meet the true gain, see `Cohort.coefficient`
    antennas: str | None = None  # they are heard by several: what of these is received, see `layers.blind_combining`
    measure: Callable[..., Mapping[str, Array]] | None = None  # (x, y, cohort, measured by layers) -> name -> [b]

    @property
    def arrivals(self) -> Callable[..., Array] | None:
        """`(key, cohort [b]) -> alive [b]` of a channel that changes no upload; None: `transmit` needs the uploads."""
        return _without_rows(self.transmit)


class Draw(NamedTuple):
    """Which clients take part in a round."""

    init: Callable[..., PyTree]  # (key, n) -> state
    apply: Callable[..., tuple]  # (key, state, round, count [n]) -> (Cohort, state)
    num_groups: int = 1  # groups are 0 to num_groups - 1
    versions: int = 1  # models kept: the staleness of clients that take part is below it
    measures: Callable[..., Mapping[str, Array]] | None = None  # (Cohort, next state) -> name -> numbers [n] or []
    knowledge: Any = None  # what clients know of their gains, of `channels.knowledge`; None: everything


Release = Any
"""What the rounds of a system give away of a client: a type of `systems.releases`, which `ledger` reads."""


class Local(NamedTuple):
    """Local training of a block of clients that all start from the same parameters.

    Where clients train models of earlier rounds, each is a block alone, under `vmap`.
    """

    init: Callable[..., PyTree]  # (n, params) -> memory [n, ...]
    apply: Callable[..., tuple]  # (key, memory, params, ClientData, cohort), [b] -> (update [b, d], memory, loss [b])
    digest: Callable[[PyTree], Array] | None = None  # of params; clients train no model twice, `clients.once_per_model`

    @property
    def steps(self) -> Any:
        """What `apply` states of its steps, a `clients.LocalSteps`; None: nothing is known."""
        return self.apply.about if isinstance(self.apply, Stated) else None

    @property
    def updates(self) -> Callable[..., Updates] | None:
        """`(key, params, ClientData [b], cohort [b]) -> Updates [b]`, the same training; None: it makes rows."""
        return _without_rows(self.apply)


class Told(NamedTuple):
    """What a client gets when a round opens, where the aggregator tells it more than the model."""

    params: PyTree
    numbers: Mapping[str, Array]  # name -> float32 []


class Aggregator(NamedTuple):
    """From the server's rows to one direction; rows with `count == 0` are left out.

    `most_byzantine(M)` is how many Byzantine rows of `M` the rule tolerates; -1: it needs more rows, and its direction
    is NaN. None: unknown. A rule can also be called on an array: `mean()(rows)`.

    A round without rows fails, unless `needs_rows` is False: noise of the server hides that nobody came. With `tells`,
    numbers of its state go to the clients with the model, and `Local.apply` gets both as `Told`. A rule that trusts a
    row by its number needs rows that are the same clients in every round.
    """

    init: Callable[..., PyTree]  # (d) -> state
    apply: Callable[..., tuple]  # (key, state, Received) -> (direction [d], state, or `Kept` in its place)
    most_byzantine: Callable[[int], int] | None = None
    needs_rows: bool = True
    tells: Callable[[PyTree], Mapping[str, Array]] | None = None  # (state) -> name -> float32 []
    trusted_row: bool = False  # whether it trusts a row by its number

    def __call__(
        self, rows: ArrayLike | Sequence, present: ArrayLike | Sequence | None = None, *, key: Key | None = None
    ) -> Float[Array, " d"]:
        """The direction of rows `[g, d]` outside a round, from a fresh state; compiled once per shape.

        Args:
          rows: a NumPy or JAX array, or a list of rows; converted to float32.
          present: bool `[g]`, which rows are present; others may hold anything. None: the finite ones, as in a round.
          key: for rules that draw, such as those after `bucketing`.

        Returns:
          A JAX array, finished: `np.asarray` of it copies nothing on a CPU.

        Raises:
          ValueError: `rows` or `present` has another shape, or a rule that draws gets no key.
          RuntimeError: the function of a rule `from_host` failed.
        """
        if isinstance(rows, Sequence) and len(sizes := {np.shape(row) for row in rows}) > 1:
            raise ValueError(f"rows must have shape [g, d], got rows of shapes {', '.join(map(str, sorted(sizes)))}")
        rows = jnp.asarray(read_in_place(rows) if isinstance(rows, np.ndarray) else rows, jnp.float32)
        if rows.ndim != 2:
            raise ValueError(f"rows must have shape [g, d], got {rows.shape}")
        there = finite_rows(rows) if present is None else jnp.asarray(present, bool)
        if there.shape != rows.shape[:1]:
            raise ValueError(f"present must have shape ({len(rows)},), one bool per row, got {there.shape}")
        received = Received(rows, there.astype(jnp.int32))
        with errors_raised():
            found = jax.jit(self.apply)(keyless() if key is None else key, self.init(rows.shape[1]), received)[0]
            found = jax.block_until_ready(found)  # rows may lie in the caller's memory
        return found


class Models(NamedTuple):
    """The models that a lying server hands out."""

    params: PyTree  # [V, ...]
    row: Int[Array, " n"]  # which of them each client of the population is given


class LyingServer(NamedTuple):
    """What a server does that does not follow the protocol, see `attacks.split_lists`, `attacks.gradient_suppression`.

    From what it is sent it computes as an honest one would: `View` shows what else it can read.
    """

    models: Callable[..., Models] | None = None  # (key, state) -> Models; None: all clients are given the model
    lists: Callable[..., Array] | None = None  # (alive [n], cohort) -> bool [n, n], as `Lists.alive`; None: no lie
    colluding: tuple[int, ...] = ()  # clients that help, by their number in the population


class Model(NamedTuple):
    """A model as pure functions."""

    init: Callable[..., PyTree]  # (key) -> params
    apply: Callable[..., Array]  # (params, x [b, ...]) -> logits [b, classes]
    train: Callable[..., Array] | None = None  # (params, x, keys [b]) -> logits in training that draws; None: `apply`


class RoundState(NamedTuple):
    """What the next round needs, and nothing else."""

    round: Int[Array, ""]  # rounds tried so far, failed ones included, so no key is used twice
    draw: PyTree
    params: PyTree
    memory: PyTree  # client state of local training, [n, ...]
    layers: PyTree  # client state of the layers, [n, ...]
    aggregate: PyTree
    server: PyTree  # optax state
    versions: PyTree = ()  # models of the last rounds, [V, ...], that of round r in row r modulo V; (): the newest only
    trained: PyTree = ()  # uint32 [n, 2], digest of the model that each client trained last; (): they do not remember


class View(NamedTuple):
    """What the server sees of a round. In addition it has what it computes from this, and what it keeps from other
    rounds.

    Colluding clients add their own secrets to it. `unsent` is not visible to the server; figures about all clients need
    it.
    """

    uploads: PyTree  # [n, ...], zero where nothing arrived; () if the channel superposes them
    clear: PyTree  # [n, ...], what was sent next to them, by layer; zero where nothing arrived
    alive: PyTree  # bool [n], whose upload arrived and is valid; () if the channel superposes them
    public: PyTree  # what everyone was told when the round opened, by layer
    header: PyTree  # what was disclosed when the survivors were known, by layer
    unsent: PyTree  # [n, ...], what lost clients would have sent in `clear`; zero for others
    received: PyTree = ()  # `Received`, as it left the channel


class RoundInfo(NamedTuple):
    """What a reader wants to know about a round."""

    direction: Float[Array, " d"]  # input of the server optimizer
    client: Int[Array, " n"]  # who was in the cohort
    loss: Float[Array, " n"]  # mean training loss of each client
    bits: Bits
    counted: Bool[Array, " n"]  # accepted: the upload arrived and its group was recovered
    group_status: Int[Array, " g"]  # bits of `Status` of each group; any: the group is left out
    status: Int[Array, ""]  # bits of `Status`; any: it failed and moved only `round`, `draw`, `trained` and `Kept`
    measured: PyTree = ()  # name -> [n] or [n, m], measured by layers and the draw, and what the aggregator tells
    observed: PyTree = ()  # result of `federated_round(observe=...)` on the server's view


class Algorithm(NamedTuple):
    """A federated system.

    `draw(key, state.draw, round, count)` returns the cohort that `step` will draw, and the next state of the
    draw. It depends on nothing that is trained, so cohorts can be known ahead.
    """

    init: Callable[..., RoundState]  # (key, params, ClientData) -> RoundState
    step: Callable[..., tuple[RoundState, RoundInfo]]  # (key, state, ClientData) -> (RoundState, RoundInfo)
    mesh: Mesh | None = None  # the devices that clients are spread over
    block: int | None = None  # clients trained and encoded at once; None: as many as fit
    draw: Callable[..., tuple[Cohort, PyTree]] | None = None  # (key, draw state, round, count [n]) -> (Cohort, state)
    caveats: tuple[str, ...] = ()  # what a report of a run must say
    release: Release | None = None  # None: updates travel in the clear
    steps: Any = None  # of local training, a `clients.LocalSteps`; None: nothing is known
