"""The laws of a layer, as checks.

A `Case` is a layer that ends in a sum, and what it must decode to. Put a layer without a `combine` above one that has
it: `stack(it=..., send=plain())`. All checks use the same updates, `[NUM_CLIENTS, NUM_PARAMS]`, and raise
AssertionError with the law that is broken.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_priv.base import Cohort, Key, Layer, Sent
from fedjax_priv.crypto import field
from fedjax_priv.testing.single_layer_round import cohort_of, run_layer, survivors, wire

NUM_CLIENTS = 7
NUM_PARAMS = 33
GROUP = np.array([0, 1, 0, 1, 1, 0, 0])
WEIGHT = np.array([1, 2, 3, 4, 5, 6, 7]) / 28
LOST = ([], [3], [0, 1], [2, 5, 4])
DRAWS = 400


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
    field: bool = False  # updates are elements of F_q, and the sum is exact
    wire: Callable = wire  # upload [n, ...] -> bits of the message of each client
    sends: Callable = everywhere  # Sent -> bool [n, d], which coordinates each client sends
    counted: Callable = lambda uploads: uploads  # number of uploads -> `count` of the row

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
            return rng.integers(0, int(field.Q), (NUM_CLIENTS, NUM_PARAMS), dtype=np.uint32)
        return rng.normal(size=(NUM_CLIENTS, NUM_PARAMS)).astype(np.float32)


def check_layer(case: Case, *, unbiased: bool = False) -> None:
    """All checks; `check_unbiased` only if the layer claims to be `unbiased`."""
    check_round_trip(case)
    check_draws(case)
    check_bits(case)
    if unbiased:
        check_unbiased(case)


def check_round_trip(case: Case) -> None:
    """The decoded value is each group's sum over survivors within the stated error; in the field it is exact."""
    for lost in LOST:
        alive = np.asarray(survivors(NUM_CLIENTS, lost))
        result = run_layer(case.layer, _key(), jnp.asarray(case.updates), case.cohort, jnp.asarray(alive))
        received, x = result["received"], np.where(case.sends(result["sent"]), case.updates, 0)
        for row in range(case.num_groups):
            mine = alive & (case.group == row)
            _require(
                received.count[row] == case.counted(mine.sum()),
                f"row {row} must have the number of its survivors as count",
            )
            got = np.asarray(received.value[row])
            if case.field:
                exact = case.reference(x[mine].astype(object), WEIGHT[mine]) % int(field.Q)
                _require((got == exact).all(), f"row {row} must be the survivors' sum in the field, {lost} lost")
            else:
                away = np.abs(got - case.reference(x[mine].astype(np.float64), WEIGHT[mine])).max()
                bound = mine.sum() * case.error + 1e-6
                _require(away <= bound, f"row {row} must be within {bound:.3g} of the sum, not {away:.3g}, {lost} lost")


def check_unbiased(case: Case) -> None:
    """The mean over draws is within 5 standard errors of the sum, and a coarser grid would break this."""
    _require(case.error > 0, "error must be > 0: it is the scale at which a bias is looked for")
    x, alive = jnp.asarray(case.updates), survivors(NUM_CLIENTS)
    decode = lambda key, x: run_layer(case.layer, key, x, case.cohort, alive)["received"].value[0]
    draws = np.asarray(jax.jit(jax.vmap(decode, (0, None)))(jax.random.split(_key(), DRAWS), x), np.float64)
    error = draws.std(0, ddof=1) / np.sqrt(DRAWS)
    mine = case.group == 0
    away = np.abs(draws.mean(0) - case.reference(case.updates[mine].astype(np.float64), WEIGHT[mine]))
    _require((away <= 5 * error + 1e-7).all(), "the mean over draws must be the sum, within 5 standard errors")
    coarse = np.floor(draws / (4 * case.error)) * 4 * case.error
    seen = (np.abs(coarse.mean(0) - draws.mean(0)) > 5 * error).mean()
    _require(seen > 0.5, "error must be large enough, compared with the spread of draws, to detect a bias of its size")


def check_draws(case: Case) -> None:
    """A client's upload depends on its number, not on its place or on who else takes part.

    The law holds before masking only: a mask depends on all peers.
    """
    send = lambda x, who: run_layer(case.layer, _key(), jnp.asarray(x), who, who.selected)["upload"]
    everybody = send(case.updates, case.cohort)
    for rows in (slice(None, -1), slice(1, None)):
        of = lambda tree, rows=rows: jax.tree.map(lambda a: a[rows], tree)
        same = jax.tree.map(np.array_equal, send(case.updates[rows], of(case.cohort)), of(everybody))
        _require(
            all(jax.tree.leaves(same)),
            "a client must draw by its number (keys.per_client), not by its place",
        )


def check_bits(case: Case) -> None:
    """The bits reported are those of the message."""
    alive = survivors(NUM_CLIENTS)
    result = run_layer(case.layer, _key(), jnp.asarray(case.updates), case.cohort, alive)
    _require(
        result["sent"].status.shape in ((), (NUM_CLIENTS,)), f"status must be one number or have shape ({NUM_CLIENTS},)"
    )
    bits, built = np.broadcast_to(result["sent"].bits, NUM_CLIENTS), case.wire(result["upload"])
    _require((bits == built).all(), f"bits must be the size of the message, {built}, got {bits}")


def _key() -> Key:
    return jax.random.key(7)


def _require(holds: Any, law: str) -> None:
    if not holds:
        raise AssertionError(law)
