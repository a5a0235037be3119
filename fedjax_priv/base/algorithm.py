"""A federated system: the state between rounds, and what a round tells its reader."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PyTree

from fedjax_priv.base.cohorts import Cohort
from fedjax_priv.base.messages import Bits

Release = Any
"""What the rounds of a system give away of a client: a type of `systems.releases`, which `ledger` reads."""


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
    num_clients: int | None = None  # of the population that `lists` is made for; None: any

    @property
    def lies(self) -> tuple[str, ...]:
        """What it does that does not follow the protocol, in words; none of an honest server."""
        by_list = "it tells clients different lists of survivors, by which they may open sums over fewer of them"
        by_model = "it gives clients models of its choice, which can leave a single update in a sum"
        return (by_list,) * (self.lists is not None) + (by_model,) * (self.models is not None)


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
    last: PyTree = ()  # [d], direction of the last round that succeeded, at first 0; (): no layer asks for it


class View(NamedTuple):
    """What the server sees of a round. In addition it has what it computes from this, and what it keeps from other
    rounds.

    Colluding clients add their own secrets to it. `unsent` and `honest` are not visible to the server; figures about
    all clients, and about what attackers did, need them. An exception are proposals of `layers.conspar`: clients send
    them before they are lost, so the server has those in `unsent` too.
    """

    uploads: PyTree  # [n, ...], zero where nothing arrived; () if the channel superposes them
    clear: PyTree  # [n, ...], what was sent next to them, by layer; zero where nothing arrived
    alive: PyTree  # bool [n], whose upload arrived and is valid; () if the channel superposes them
    public: PyTree  # what everyone was told when the round opened, by layer
    header: PyTree  # what was disclosed when the survivors were known, by layer
    unsent: PyTree  # [n, ...], what lost clients would have sent in `clear`; zero for others
    received: PyTree = ()  # `Received`, as it left the channel
    rows: PyTree = ()  # `Received`, as the rule was given it: decoded, `count` 0 where a row is left out
    honest: PyTree = ()  # bool [g], which of these rows are there and hold no upload of a Byzantine client
    direction: PyTree = ()  # [d], what the rule made of them


class RoundInfo(NamedTuple):
    """What a reader wants to know about a round."""

    direction: Float[Array, " d"]  # input of the server optimizer
    client: Int[Array, " n"]  # who was in the cohort
    loss: Float[Array, " n"]  # mean training loss of each client, 0 of one that does not train
    trains: Bool[Array, " n"]  # who takes part and has samples; a mean loss is over these
    bits: Bits
    counted: Bool[Array, " n"]  # accepted: the upload arrived and its group was recovered
    group_status: Int[Array, " g"]  # bits of `Status` of each group; any: the group is left out
    status: Int[Array, ""]  # bits of `Status`; any: it failed and moved only `round`, `draw`, `trained` and `Kept`
    measured: PyTree = ()  # name -> [n] or [n, m], measured by layers and the draw, and what the aggregator tells
    observed: PyTree = ()  # result of `federated_round(observe=...)` on the server's view


class Algorithm(NamedTuple):
    """A federated system.

    `draw(key, state.draw, round, count)` returns the cohort that `step` will draw, and the next state of the
    draw. It depends on nothing that is trained, so cohorts can be known ahead. So can the uploads that a channel loses
    whatever is in them: `arrivals(key, round, cohort)`. If clients refuse to train a model twice, some of a cohort sit
    out after rounds that failed, which is not known ahead.
    """

    init: Callable[..., RoundState]  # (key, params of float32 leaves, ClientData) -> RoundState
    step: Callable[..., tuple[RoundState, RoundInfo]]  # (key, state, ClientData) -> (RoundState, RoundInfo)
    mesh: Mesh | None = None  # the devices that clients are spread over
    block: int | None = None  # clients trained and encoded at once; None: as many as fit
    draw: Callable[..., tuple[Cohort, PyTree]] | None = None  # (key, draw state, round, count [n]) -> (Cohort, state)
    caveats: tuple[str, ...] = ()  # what a report of a run must say
    release: Release | None = None  # None: updates travel in the clear
    steps: Any = None  # of local training, a `clients.LocalSteps`; None: nothing is known
    lying_server: LyingServer | None = None  # None: the server follows the protocol
    arrivals: Callable[..., Array] | None = None  # (key, round, Cohort) -> alive [n]; None: unknown
    once_per_model: bool = False  # clients train no model twice, see `clients.once_per_model`
    period: int = 1  # as in `Draw`
    by_coins: bool = False  # as in `Draw`
