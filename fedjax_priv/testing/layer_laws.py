"""The laws of a layer, as checks.

A `Case` is a layer that ends in a sum, and what it must decode to. Put a layer without a `combine` above one that has
it: `stack(it=..., send=plain())`. All checks use the same updates, `[NUM_CLIENTS, NUM_PARAMS]`, and raise
AssertionError with the number and the name of the law that is broken.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Cohort, Kept, Key, Layer, Link, Sent, absent
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.status import describe
from fedjax_priv.testing.laws import assert_close, is_compiled, law, require
from fedjax_priv.testing.single_layer_round import cohort_of, layer_round, run_layer, survivors, wire
from fedjax_priv.testing.uniformity import are_uniform

NUM_CLIENTS = 7
NUM_PARAMS = 33
GROUP = np.array([0, 1, 0, 1, 1, 0, 0])
WEIGHT = np.array([1, 2, 3, 4, 5, 6, 7]) / 28
LOST = ([], [3], [0, 1], [2, 5, 4])
LEAVES = 6
"""A client that leaves after its upload arrived."""
DRAWS = 400
OWN = 8
"""Rounds in which clients must differ, unless they send the same in all of them."""
VIEWS = 60
"""Rounds of which all uploads are seen."""


def everywhere(sent: Sent) -> np.ndarray:
    """Every client sends every coordinate."""
    del sent
    return np.ones((NUM_CLIENTS, NUM_PARAMS), bool)


class Case(NamedTuple):
    """A layer, and what it must decode to."""

    layer: Layer
    reference: Callable  # (x [m, d], weight [m]) of a group's survivors, float64 or Python integers -> [d]
    error: float = 0.0  # per summand, in addition to float32 rounding
    num_groups: int = 1  # 1 or 2
    field: bool = False  # updates are elements of `modulus`, and the sum is exact
    wire: Callable | None = None  # upload [n, ...] -> bits of each; None: of its arrays, and of those in the clear
    sends: Callable = everywhere  # Sent -> bool [n, d], which coordinates each client sends
    counted: Callable = lambda uploads: uploads  # number of uploads -> `count` of the row
    modulus: Modulus = FIELD

    @property
    def group(self) -> np.ndarray:
        """`[n]`, the row of each client."""
        return GROUP if self.num_groups == 2 else np.zeros(NUM_CLIENTS, int)

    @property
    def cohort(self) -> Cohort:
        """All clients honest and selected, with different weights."""
        return cohort_of(NUM_CLIENTS, group=self.group, weight=WEIGHT)

    @property
    def updates(self) -> np.ndarray:
        """`[n, d]`."""
        rng = np.random.default_rng(0)
        if self.field:
            return rng.integers(0, self.modulus.size, (NUM_CLIENTS, NUM_PARAMS), dtype=np.uint32)
        return rng.normal(size=(NUM_CLIENTS, NUM_PARAMS)).astype(np.float32)


def check_layer(
    case: Case, *, unbiased: bool = False, masked: bool = False, by_number: bool = True, variant: Callable = jax.jit
) -> None:
    """All laws of a layer.

    Args:
      case: the layer, and what it must decode to.
      unbiased: whether it claims to be; then `check_unbiased`.
      masked: whether an upload claims to be uniform in `case.modulus`; then `check_views`.
      by_number: whether a client's upload depends on nobody else, as before any mask; then `check_draws`.
      variant: how the layer is run, such as `self.variant` of a `chex.TestCase`; it is called on a function.

    Raises:
      AssertionError: a law is broken, which the message names by number and name.
      ValueError: `case` is no `Case`.
    """
    _validate.part(Case, "testing.Case(layer, reference)", case=case)
    _validate.takes("x, weight", **{"case.reference": case.reference})
    if not is_compiled(variant):
        check_variant(case, variant)
        return
    check_round_trip(case)
    check_bits(case)
    check_state(case)
    check_disclosure(case)
    check_unselected(case)
    if by_number:
        check_draws(case)
    if unbiased:
        check_unbiased(case)
    if masked:
        check_views(case)


def check_variant(case: Case, variant: Callable) -> None:
    """Law 14: run in another way, such as without jit, a layer does what it does when it is compiled."""
    x, alive = jnp.asarray(case.updates), survivors(NUM_CLIENTS, LOST[1])
    compiled = run_layer(case.layer, _key(), x, case.cohort, alive)
    other = variant(lambda *args: layer_round(case.layer, *args))(_key(), x, case.cohort, alive)
    other = jax.tree.map(jnp.asarray, other)  # bits of a message may be a number of Python
    with law(14, "the round of a layer must be the same with and without jit"):
        chex.assert_trees_all_equal_shapes_and_dtypes(other, compiled)
        exact, close = (_numbers((other, compiled), kind) for kind in (jnp.integer, jnp.floating))
        chex.assert_trees_all_equal(*exact)
        assert_close(*close, rtol=1e-5)


def check_state(case: Case) -> None:
    """Laws 3 and 15: client state keeps its structure, and the server's rows are finite, `[g, d]`."""
    result = run_layer(case.layer, _key(), jnp.asarray(case.updates), case.cohort, survivors(NUM_CLIENTS))
    first = jax.eval_shape(lambda key: case.layer.init(key, NUM_CLIENTS), _key())
    for name in Kept._fields:
        with law(3, "client state must keep its structure, shapes and dtypes"):
            state = jax.tree.map(lambda a, name=name: _kept_as(a, name), result["state"], is_leaf=_is_kept)
            chex.assert_trees_all_equal_shapes_and_dtypes(state, first)
        with law(15, "client state must be finite"):
            chex.assert_tree_all_finite([a for a in jax.tree.leaves(state) if jnp.issubdtype(a.dtype, jnp.floating)])
    _check_accepted(result["sent"])
    with law(15, "the server's rows must be finite, [g, d] of the dtype of the updates, with counts [g]"):
        chex.assert_shape(result["received"].value, (case.num_groups, NUM_PARAMS))
        chex.assert_shape(result["received"].count, (case.num_groups,))
        chex.assert_type(result["received"].value, case.updates.dtype)
        chex.assert_tree_all_finite(result["received"].value)


def _check_accepted(sent: Sent) -> None:
    """A round counts no upload that is refused or not valid."""
    require(15, not np.asarray(sent.status).any(), "sound updates must set no bit of status")
    require(15, not np.asarray(sent.refused).any(), "sound updates must not be refused: `refused` must have no bit set")
    require(15, all(np.all(a) for a in jax.tree.leaves(sent.valid)), "the proofs of sound updates must be `valid`")


def check_disclosure(case: Case) -> None:
    """Law 10: what is disclosed depends on no private row of a lost client, and on nothing that it sent.

    Who leaves after its upload arrived, and is not `online`, sends as many bits then as who is lost; and if all
    leave, no sum is opened with what they kept private.
    """
    disclose = jax.jit(case.layer.disclose)
    for lost in filter(None, LOST):
        alive, online = survivors(NUM_CLIENTS, lost), survivors(NUM_CLIENTS, [*lost, LEAVES])
        result = run_layer(case.layer, _key(), jnp.asarray(case.updates), case.cohort, alive)
        told = result["private"], result["public"], result["sent"].clear
        ruined = _ruin(told[0], lost), told[1], _ruin(told[2], lost)
        for there in (alive, online):
            with law(10, f"what is disclosed must not depend on rows of lost clients, here {lost}"):
                chex.assert_trees_all_equal(*_bare((disclose(*ruined, alive, there), disclose(*told, alive, there))))
        with law(10, "who is not `online` must send as many bits as who is lost when sums are opened"):
            chex.assert_trees_all_equal(*(_sent_by(LEAVES, disclose(*told, who, online)[1]) for who in (alive, online)))
    _check_nobody_there(case, disclose)


def _check_nobody_there(case: Case, disclose: Callable) -> None:
    """All clients leave once their uploads have arrived.

    A layer may compute only now what they sent before, such as commitments; then no row may be recovered.
    """
    alive, nobody = survivors(NUM_CLIENTS), jnp.zeros(NUM_CLIENTS, bool)
    result = run_layer(case.layer, _key(), jnp.asarray(case.updates), case.cohort, alive)
    told = result["private"], result["public"], result["sent"].clear
    spoilt = _ruin(told[0], [*range(NUM_CLIENTS)]), *told[1:]
    headers = _bare(tuple(disclose(*rows, alive, nobody)[0] for rows in (told, spoilt)))
    if not all(jax.tree.leaves(jax.tree.map(np.array_equal, *headers))):
        result = run_layer(case.layer, _key(), jnp.asarray(case.updates), case.cohort, alive, nobody)
        opened = np.asarray(result["received"].count).any()
        require(
            10, not opened, "if nobody is `online`, no row with a count may be opened with what clients keep private"
        )


def _sent_by(client: int, bits: dict[str, Link]) -> dict[str, Any]:
    return {phase: np.broadcast_to(link.up, NUM_CLIENTS)[client] for phase, link in bits.items()}


def check_unselected(case: Case) -> None:
    """Law 16: what a client that is not selected holds reaches no other and no row of the server, and it sends no bits.

    `Sent.bits` count only where an upload arrives, so they may say anything of it.
    """
    out = LOST[1]
    others = survivors(NUM_CLIENTS, out)
    who = case.cohort._replace(selected=others)
    garbage = (case.updates[out] ^ 1,) if case.field else (np.nan, 1e30)
    result = run_layer(case.layer, _key(), jnp.asarray(case.updates), who, others)
    for held in garbage:
        x = case.updates
        x[out] = held
        spoilt = run_layer(case.layer, _key(), jnp.asarray(x), who, others)
        with law(16, "what a client that is not selected holds must reach no other, and not the server"):
            chex.assert_trees_all_equal(_without(out, spoilt), _without(out, result))
    links = [np.asarray(a) for a in jax.tree.leaves(result["bits"])]
    require(16, not any(a[out].any() for a in links), "a client that is not selected must send and be sent no bits")


def check_views(case: Case) -> None:
    """Law 7: an upload is uniform on F_q or modulo 2**bits whatever the update, by tests over keys.

    Each number that a client sends is tested, each of its bits, and what it differs by from that of the next client and
    from the next number: see `testing.uniformity`.
    """
    alive = survivors(NUM_CLIENTS)
    for x in (jnp.zeros_like(jnp.asarray(case.updates)), jnp.asarray(case.updates)):
        rounds = [run_layer(case.layer, jax.random.key(seed), x, case.cohort, alive) for seed in range(VIEWS)]
        sent = np.stack([case.sends(found["sent"]) for found in rounds])
        for views in map(_stacked, zip(*(jax.tree.leaves(found["upload"]) for found in rounds), strict=True)):
            whole = np.issubdtype(views.dtype, np.integer)
            named = sent if views.shape == sent.shape else np.ones(views.shape, bool)
            uniform = whole and are_uniform(views, named, case.modulus)
            require(7, uniform, "an upload must be uniform on the field, whatever it masks")


def check_round_trip(case: Case, losses: Sequence[Sequence[int]] = LOST) -> None:
    """Law 1: the decoded value is each group's sum over survivors within the stated error; in the field it is exact.

    `losses` are sets of clients whose upload is lost, each in a round: the first in round 0, and so on. Clients carry
    nothing from one to the next.
    """
    for number, lost in enumerate(losses):
        alive = np.asarray(survivors(NUM_CLIENTS, lost))
        who = case.cohort._replace(round=jnp.full(NUM_CLIENTS, number, jnp.int32))
        result = run_layer(case.layer, _key(), jnp.asarray(case.updates), who, jnp.asarray(alive))
        received, x = result["received"], np.where(case.sends(result["sent"]), case.updates, 0)
        for row in range(case.num_groups):
            mine = alive & (case.group == row)
            require(
                1,
                received.count[row] == case.counted(mine.sum()),
                f"row {row} must have the number of its survivors as count",
            )
            told = 0 if absent(received.status) or not mine.any() else int(received.status[row])
            require(1, told == 0, f"row {row} must set no bit of status: it is recovered, got: {describe(told)}")
            got = np.asarray(received.value[row])
            expected = case.reference(x[mine].astype(object if case.field else np.float64), WEIGHT[mine])
            require(
                1,
                got.shape == np.shape(expected),
                f"row {row} must have the shape of case.reference(x, weight), {np.shape(expected)}, not {got.shape}",
            )
            if case.field:
                exact = expected % case.modulus.size
                require(
                    1,
                    (got == exact).all(),
                    f"row {row} must be the survivors' sum in the field, clients {lost} lost in round {number}",
                )
            else:
                away = np.abs(got - expected).max()
                bound = mine.sum() * case.error + 1e-6
                require(
                    1,
                    away <= bound,
                    f"row {row} must be within {bound:.3g} of the sum, not {away:.3g}, "
                    f"clients {lost} lost in round {number}",
                )


def check_unbiased(case: Case) -> None:
    """Law 2: the mean over draws is within 5 standard errors of the sum, and a coarser grid would break this.

    Updates halfway between points of a grid of step `case.error` are looked at too: a rule for ties moves only these.
    """
    require(2, case.error > 0, "error must be > 0: it is the scale at which a bias is looked for")
    alive, mine = survivors(NUM_CLIENTS), case.group == 0
    decode = lambda key, x: run_layer(case.layer, key, x, case.cohort, alive)["received"].value[0]
    run, keys = jax.jit(jax.vmap(decode, (0, None))), jax.random.split(_key(), DRAWS)
    halfway = ((np.floor(case.updates / case.error) + 0.5) * case.error).astype(case.updates.dtype)
    for x in (halfway, case.updates):
        draws = np.asarray(run(keys, jnp.asarray(x)), np.float64)
        error = draws.std(0, ddof=1) / np.sqrt(DRAWS)
        away = np.abs(draws.mean(0) - case.reference(x[mine].astype(np.float64), WEIGHT[mine]))
        require(2, (away <= 5 * error + 1e-7).all(), "the mean over draws must be the sum, within 5 standard errors")
    coarse = np.floor(draws / (4 * case.error)) * 4 * case.error
    seen = (np.abs(coarse.mean(0) - draws.mean(0)) > 5 * error).mean()
    require(
        2, seen > 0.5, "error must be large enough, compared with the spread of draws, to detect a bias of its size"
    )


def check_draws(case: Case) -> None:
    """Law 5: a client's upload and state depend on its number, not on its place or on who else takes part.

    The law holds before masking only: a mask depends on all peers.
    """

    def send(x: np.ndarray, who: Cohort) -> tuple[PyTree, PyTree]:
        result = run_layer(case.layer, _key(), jnp.asarray(x), who, who.selected)
        return _bare((result["upload"], result["state"]))

    everybody = send(case.updates, case.cohort)
    for rows in (slice(None, -1), slice(1, None)):
        of = lambda tree, rows=rows: jax.tree.map(lambda a: a[rows], tree)
        same = jax.tree.map(np.array_equal, send(case.updates[rows], of(case.cohort)), of(everybody))
        require(5, all(jax.tree.leaves(same)), "a client must draw by its number (keys.per_client), not by its place")
    _check_own_draws(case)


def _check_own_draws(case: Case) -> None:
    """Law 5: of clients with the same update, all send the same, as draws from a common seed, or no two of them do."""
    x = jnp.broadcast_to(case.updates[0], case.updates.shape)
    alike = cohort_of(NUM_CLIENTS, group=np.zeros(NUM_CLIENTS, int), weight=np.full(NUM_CLIENTS, WEIGHT.mean()))
    uploads = [run_layer(case.layer, key, x, alike, alike.selected)["upload"] for key in jax.random.split(_key(), OWN)]
    rows = np.concatenate([_stacked(leaves) for leaves in zip(*map(jax.tree.leaves, uploads), strict=True)], -1)
    equal = (rows[:, :, None] == rows[:, None]).all((0, 3))
    all_or_none = equal.sum() in (NUM_CLIENTS, NUM_CLIENTS**2)
    require(5, all_or_none, "two clients must not share draws that others make by themselves")


def check_bits(case: Case) -> None:
    """Law 6: the bits reported are those of the message. The bits of other phases are what `Case` cannot know."""
    alive = survivors(NUM_CLIENTS)
    result = run_layer(case.layer, _key(), jnp.asarray(case.updates), case.cohort, alive)
    require(
        15,
        result["sent"].status.shape in ((), (NUM_CLIENTS,)),
        f"status must be one number or have shape ({NUM_CLIENTS},)",
    )
    bits = np.broadcast_to(result["sent"].bits, NUM_CLIENTS)
    arrays = _bare((result["upload"], result["sent"].clear))
    built = case.wire(result["upload"]) if case.wire else wire(arrays)
    require(6, (bits == built).all(), f"bits must be the size of the message, {built}, got {bits}")


def _key() -> Key:
    return jax.random.key(7)


def _numbers(tree: Any, kind: Any) -> Any:
    """The leaves of a kind; bools are integers here."""
    whole = lambda a: jnp.issubdtype(a.dtype, jnp.integer) or a.dtype == bool
    fits = whole if kind is jnp.integer else lambda a: jnp.issubdtype(a.dtype, kind)
    return tuple([a for a in jax.tree.leaves(side) if fits(a)] for side in tree)


def _kept_as(node: Any, name: str) -> Any:
    """What `Kept` holds under this name."""
    if not isinstance(node, Kept):
        return node
    found = getattr(node, name)
    return node.lost if found is None else found


def _is_kept(node: Any) -> bool:
    return isinstance(node, Kept)


def _stacked(leaves: Sequence[Any]) -> np.ndarray:
    """A leaf of the upload of each round, `[rounds, n, numbers]`."""
    return np.stack([np.asarray(a).reshape(NUM_CLIENTS, -1) for a in leaves])


def _ruin(tree: Any, lost: list[int]) -> Any:
    """Rows of lost clients hold something else."""
    rows = jnp.array(lost)
    return jax.tree.map(lambda a: jnp.asarray(a).at[rows].set(_other(jnp.asarray(a)[rows])), tree)


def _other(a: jax.Array) -> jax.Array:
    """Of the same type, everywhere another value, and finite where it was: 0 times it is 0."""
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jax.random.key_data(a) + 1, impl=jax.random.key_impl(a))
    if a.dtype == bool:
        return ~a
    return jnp.where(a + 1 != a, a + 1, (-a / 2).astype(a.dtype))  # large floats take no 1


def _bare(tree: Any) -> Any:
    """NumPy compares no keys, but their words."""
    is_key = lambda a: jnp.issubdtype(jnp.asarray(a).dtype, jax.dtypes.prng_key)
    return jax.tree.map(lambda a: jax.random.key_data(a) if is_key(a) else a, tree)


def _without(lost: list[int], tree: Any) -> Any:
    """Rows of the others, and all that is no client's."""
    rows = lambda a: np.delete(a, lost, axis=0) if a.shape[:1] == (NUM_CLIENTS,) else a
    return jax.tree.map(rows, jax.device_get(_bare(tree)))
