"""The types of the library. No algorithm lives here.

Shapes: `n` clients of a cohort, `b` of them in a block, `g` rows the server holds after uploads are combined,
`d` model parameters. The client axis is always the first one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from fedjax_priv._keyless import keyless

Key = PRNGKeyArray
CLIENTS = "clients"
"""Name of the one mesh axis."""


class ClientData(NamedTuple):
    """The samples of every client, stacked; rows `count[i]:` of client `i` are padding and never train.

    `examples` is a pytree, as `(x [n, m, ...], y [n, m])`; `simulate` checks that it and `count` fit. Where the
    population is too large for the devices, it may hold the samples of the round's cohort only, in its order.
    """

    examples: PyTree  # [n, m, ...]
    count: Int[Array, " n"]


class Cohort(NamedTuple):
    """What is fixed about the clients of a round before anything is sent.

    Every field has one row a client, so that a cohort is cut into blocks like any other rows. A cohort as large as
    the population is the population in order.
    """

    client: Int[Array, " n"]  # the client's number in the population
    round: Int[Array, " n"]  # the same in every row
    weight: Float[Array, " n"]  # beta_i = |D_i| / sum_j |D_j|
    selected: Bool[Array, " n"]  # takes part in this round
    byzantine: Bool[Array, " n"]
    group: Int[Array, " n"]  # the row its upload is added to
    gain: Float[Array, " n"]  # channel gain, amplitude
    participation: Float[Array, " n"]  # probability of joining, of one that is in the cohort


class Link(NamedTuple):
    """Bits one phase of a round puts on each client's link: exact counts of the messages built."""

    up: UInt32[Array, " n"]
    down: UInt32[Array, " n"]


Bits = Mapping[str, Link]
"""Phase of the round -> bits."""


class Received(NamedTuple):
    """The rows the server holds once uploads are combined."""

    value: PyTree  # [g, ...]
    count: Int[Array, " g"]  # uploads in the row; 0: none, or not recovered


class Sent(NamedTuple):
    """What a layer puts on the wire beside the payload, and how that went."""

    bits: Any = 0  # uint32 [b], or a number for all
    status: Any = 0  # int32 [b], bits of `Status`; they cost the client's group
    clear: PyTree = ()  # [b, ...], not summed: the server keeps it by client
    measured: PyTree = ()  # numbers [b] by name, for the reader of a run; nobody is sent them


class Kept(NamedTuple):
    """State that a layer's `encode` may return where a client goes on otherwise if its upload does not count."""

    counted: PyTree  # [b, ...]
    lost: PyTree  # [b, ...], the same structure


class Combine(NamedTuple):
    """How uploads become rows; lifted values add by `+` over clients, blocks and devices."""

    lift: Callable[..., PyTree]  # (y [b, ...], alive [b], group [b]) -> summand
    lower: Callable[[PyTree], Received]
    num_groups: int = 1  # rows of `Received`
    max_uploads: int | None = None  # most uploads a sum can hold; None: any number


class Layer(NamedTuple):
    """One layer of the protocol: a client half above, a server half below.

    `state` is what a client carries from round to round; one whose upload does not count keeps what it had, unless
    `encode` returns `Kept`. In a round that fails all do. `advertise` opens a round: it turns the state into this
    round's `private` rows and tells everyone `public`. The server half (`decode`) gets the header, public values and
    `Received`; no private value reaches it but through `disclose`, which is what clients send once it is known whose
    upload arrived (`alive`) and who of them is still there (`online`).
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


def everyone_responds(key: Key, alive: Array, cohort: Cohort) -> Array:
    """Nobody leaves between upload and disclosure."""
    del key, cohort
    return alive


class Channel(NamedTuple):
    """What happens to messages on their way."""

    transmit: Callable[..., tuple]  # (key, y [b], cohort [b]) -> (y, alive [b]); alive implies selected
    receive: Callable[..., Received]  # (key, Received) -> Received, once a round
    respond: Callable[..., Array] = everyone_responds  # (key, alive [n], cohort) -> online [n], a part of alive
    superposes: bool = False  # uploads add on the way: the server gets their sum alone, and not who sent
    hides_count: bool = False  # nor how many did: a row counts as one upload


class Draw(NamedTuple):
    """Who takes part."""

    init: Callable[..., PyTree]  # (key, n) -> state
    apply: Callable[..., tuple]  # (key, state, round, count [n]) -> (Cohort, state)
    num_groups: int = 1  # groups are 0 to num_groups - 1


Release = Any
"""What the rounds of a system give away of a client: a type of `systems.releases`, which `ledger` reads."""


class Local(NamedTuple):
    """Local training of a block of clients that all start from the same parameters."""

    init: Callable[..., PyTree]  # (n, params) -> memory [n, ...]
    apply: Callable[..., tuple]  # (key, memory, params, ClientData, cohort), [b] -> (update [b, d], memory, loss [b])
    noise: Any = None  # the noise of its steps, a `clients.NoisySteps`; None: nothing is known


class Aggregator(NamedTuple):
    """From the server's rows to one direction; rows with `count == 0` are left out.

    `most_byzantine(M)` is how many of `M` rows may be Byzantine; -1: the rule has no direction for so few rows, and
    gives NaN. Where it is None, nobody knows. A rule is also a function of an array: `mean()(rows)`.
    """

    init: Callable[..., PyTree]  # (d) -> state
    apply: Callable[..., tuple]  # (key, state, Received) -> (direction [d], state)
    most_byzantine: Callable[[int], int] | None = None

    def __call__(
        self, rows: ArrayLike | Sequence, present: ArrayLike | Sequence | None = None, *, key: Key | None = None
    ) -> Float[Array, " d"]:
        """The direction of rows `[g, d]` outside a round, from a fresh state; compiled once a shape.

        Args:
          rows: a NumPy or JAX array, or a list of rows; taken as float32.
          present: bool `[g]`, which rows are there; others may hold anything. None: the finite ones, as in a round.
          key: for rules that draw, such as those after `bucketing`.

        Raises:
          ValueError: `rows` or `present` has another shape, or a rule that draws is given no key.
        """
        rows = jnp.asarray(rows, jnp.float32)
        if rows.ndim != 2:
            raise ValueError(f"rows must be of shape [g, d], got {rows.shape}")
        there = jnp.isfinite(rows).all(1) if present is None else jnp.asarray(present, bool)
        if there.shape != rows.shape[:1]:
            raise ValueError(f"present must be one truth value for each of {len(rows)} rows, got shape {there.shape}")
        received = Received(rows, there.astype(jnp.int32))
        return jax.jit(self.apply)(keyless() if key is None else key, self.init(rows.shape[1]), received)[0]


class Model(NamedTuple):
    """A model as a pair of pure functions."""

    init: Callable[..., PyTree]  # (key) -> params
    apply: Callable[..., Array]  # (params, x [b, ...]) -> logits [b, classes]


class RoundState(NamedTuple):
    """What the next round needs, and nothing else."""

    round: Int[Array, ""]  # attempts so far, one more after each: keys of a round are never used twice
    draw: PyTree
    params: PyTree
    memory: PyTree  # of local training, [n, ...]
    layers: PyTree  # [n, ...]
    aggregate: PyTree
    server: PyTree  # optax state


class View(NamedTuple):
    """What the server sees of a round: beside it only what it computes from this, and what it keeps from other rounds.

    Colluding clients add their own secrets to it, which are none of the server's. `unsent` is not the server's either:
    figures about all clients need it.
    """

    uploads: PyTree  # [n, ...], zero where nothing arrived; () where the channel superposes them
    clear: PyTree  # [n, ...], what travelled beside them, by layer; zero where nothing arrived
    alive: PyTree  # bool [n], whose upload arrived; () where the channel superposes them
    public: PyTree  # what everybody was told when the round opened, by layer
    header: PyTree  # what was disclosed once the survivors were known, by layer
    unsent: PyTree  # [n, ...], what lost clients would have sent in `clear`; zero for the others
    received: PyTree = ()  # `Received`, as the channel gave it


class RoundInfo(NamedTuple):
    """What a reader wants to know about a round."""

    direction: Float[Array, " d"]  # what the server optimizer was given
    client: Int[Array, " n"]  # who was in the cohort
    loss: Float[Array, " n"]  # mean training loss of each client
    bits: Bits
    counted: Bool[Array, " n"]  # the upload arrived and its group was recovered
    group_status: Int[Array, " g"]  # bits of `Status` of a group left out
    status: Int[Array, ""]  # bits of `Status`; any: the round failed and changed nothing
    measured: PyTree = ()  # numbers [n] by name, which layers measured
    observed: PyTree = ()  # what `federated_round(observe=...)` made of the server's view


class Algorithm(NamedTuple):
    """A federated system.

    `in_blocks(b)` is the same system run in blocks of `b` clients, where the block was left open; `block` is then a
    guess. `draw(key, state.draw, round, count)` is who will take part, exactly as `step` will draw it, and the next
    state of the draw: it depends on nothing that is trained, so cohorts can be known ahead. `caveats` are what any
    report of a run must say.
    """

    init: Callable[..., RoundState]  # (key, params, ClientData) -> RoundState
    step: Callable[..., tuple[RoundState, RoundInfo]]  # (key, state, ClientData) -> (RoundState, RoundInfo)
    mesh: Mesh | None = None  # the devices clients are spread over
    block: int | None = None  # clients trained and encoded at once
    in_blocks: Callable[[int], "Algorithm"] | None = None
    draw: Callable[..., tuple[Cohort, PyTree]] | None = None  # (key, draw state, round, count [n]) -> (Cohort, state)
    caveats: tuple[str, ...] = ()
    release: Release | None = None  # None: updates travel in the clear
