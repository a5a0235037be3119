"""From the server's rows to one direction."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv.base.given_rows import check_enough, given_rows
from fedjax_priv.base.messages import Received
from fedjax_priv.keys import Key, keyless
from fedjax_priv.status import errors_raised


class InTwo(NamedTuple):
    """A rule as steps that turn with their rows, as an `equivariant` rule does, and a `steady` rule behind them."""

    turning: Callable[..., tuple]  # (key, rows [g, d], ok [g]) -> (rows [g', d], ok [g'])
    rest: Callable[..., tuple]  # (key, state, rows [g', d], ok [g'], ok [g] before the steps) -> (direction [d], state)


class Aggregator(NamedTuple):
    """From the server's rows to one direction; rows with `count == 0` are left out.

    `most_byzantine(M)` is how many Byzantine rows of `M` the rule tolerates, according to its authors;
    `aggregators.weiszfeld` and `dnc` describe Byzantine rows that take these rules anywhere nevertheless. If the number
    is less than the rule was made for, the rule returns a direction without that guarantee. -1 means that the rule has
    no direction for so few rows: the direction is NaN and the round fails, or, if the rule is called on an array, it
    raises ValueError. None means unknown. A rule can also be called on an array: `mean()(rows)`.

    A round without rows fails, unless `needs_rows` is False: then noise of the server hides that nobody came. With
    `tells`, a part of its state is sent to the clients with the model, and `Local.apply` gets both as `Told`: numbers
    such as a norm, which runs also record, or vectors such as a control variate. A rule that trusts a row by its number
    needs rows that are the same clients in every round, and an honest client in that row; systems refuse anything else.

    `equivariant`, `steady` and `in_two` let searched attacks try the rule on few coordinates: if you replace `apply`,
    replace them too.
    """

    init: Callable[..., PyTree]  # (d) -> state
    apply: Callable[..., tuple]  # (key, state, Received) -> (direction [d], state, or `Kept` in its place)
    most_byzantine: Callable[[int], int] | None = None
    needs_rows: bool = True
    tells: Callable[[PyTree], Mapping[str, PyTree]] | None = None  # (state) -> name -> float32 of any shape, or a tree
    trusted_row: int | None = None  # number of the row that it trusts, from 0; None: it trusts none
    equivariant: bool = (
        False  # whether turning the rows turns the direction: rule(rows @ Q) = rule(rows) @ Q, Q orthogonal
    )
    steady: bool = False  # whether roundings of rows only round the direction, ties aside; not if it counts zeros
    in_two: InTwo | None = None  # `apply` in two parts; None: it is not of this kind

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
          ValueError: `rows` or `present` has another shape, too few rows are present, or a rule that draws gets no key.
          RuntimeError: the function of a rule `from_host` failed.
        """
        rows, there = given_rows(rows, present)
        check_enough(there, self.most_byzantine)
        received = Received(rows, there.astype(jnp.int32))
        with errors_raised():
            found = jax.jit(self.apply)(keyless() if key is None else key, self.init(rows.shape[1]), received)[0]
            found = jax.block_until_ready(found)  # rows may lie in the caller's memory
        return found
