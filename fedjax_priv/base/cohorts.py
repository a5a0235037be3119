"""The clients of a round, their samples, and who draws them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int, PyTree


class ClientData(NamedTuple):
    """The samples of every client, stacked; rows `count[i]:` of client `i` are padding and never train.

    `examples` is a pytree, such as `(x [n, m, ...], y [n, m])`; `simulate` checks that it fits `count`. For a
    population too large for the devices, it may hold only the samples of the round's cohort, in the cohort's order.
    """

    examples: PyTree  # [n, m, ...]
    count: Int[Array, " n"]


class Rows(NamedTuple):
    """Samples of a block that were not copied: those of its client `i` are `among[row[i]]`."""

    among: PyTree  # [n, m, ...], of these clients and others
    row: Int[Array, " b"]


class Antennas(NamedTuple):
    """Links to a server with M antennas, which clients do not know; complex numbers have an axis for both parts."""

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
    participation: Float[Array, " n"]  # probability of joining, given its place; 0: known to be absent
    staleness: Int[Array, " n"]  # rounds ago that it was given the model it trains; 0: in this round
    digest: PyTree = ()  # uint32 [n, 2], what the client hashed of the model it was given; (): no layer needs it
    coefficient: PyTree = ()  # [n, 2], true gain over `gain`, real and imaginary part; (): `gain` is the true one
    antennas: PyTree = ()  # `Antennas`, of which `gain` is the root mean square; (): the server has one
    level: PyTree = ()  # [n], c_t over the air, the same in every row; (): the draw does not choose it
    factor: PyTree = ()  # uint32 [n], public integer that the server multiplies its upload by; (): 1


class Draw(NamedTuple):
    """Which clients take part in a round."""

    init: Callable[..., PyTree]  # (key, n) -> state
    apply: Callable[..., tuple]  # (key, state, round, count [n]) -> (Cohort, state)
    num_groups: int = 1  # groups are 0 to num_groups - 1
    versions: int = 1  # models kept: the staleness of clients that take part is below it
    measures: Callable[..., Mapping[str, Array]] | None = None  # (Cohort, next state) -> name -> numbers [n] or []
    knowledge: Any = None  # what clients know of their gains, of `channels.knowledge`; None: everything
    period: int = 1  # b of cyclic sampling: client i may come in rounds that equal i modulo b, which is public
    byzantine: Any = 0  # whom `Cohort.byzantine` marks: how many of the population, from client 0 on, or a mask [n]
    by_coins: bool = False  # secret coins of all clients, or of a group, decide who is in the cohort
