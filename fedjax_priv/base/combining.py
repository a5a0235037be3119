"""How uploads become the rows that the server holds."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Array, PyTree

from fedjax_priv.base.cohorts import Cohort
from fedjax_priv.base.messages import Received
from fedjax_priv.base.optional_fields import absent
from fedjax_priv.base.stated import without_rows


class Combine(NamedTuple):
    """How uploads become rows; lifted values add by `+` over clients, blocks and devices."""

    lift: Callable[..., PyTree]  # (y [b, ...], alive [b], group [b]) -> summand
    lower: Callable[[PyTree], Received]
    num_groups: int = 1  # rows of `Received`
    max_uploads: int | None = None  # most uploads in a sum; None: any number
    modulus: int | None = None  # uploads are integers that add up modulo this; None: they are not
    times: Callable[..., PyTree] | None = None  # (y [b, ...], factor [b]) -> y; None: there is no such product

    def lifted(self, y: PyTree, alive: Array, cohort: Cohort) -> PyTree:
        """The summand of a block's uploads, each times its factor."""
        if absent(cohort.factor):
            return self.lift(y, alive, cohort.group)
        assert self.times is not None  # else `engine.parts.check_drawn` has refused the cohort
        return self.lift(self.times(y, cohort.factor), alive, cohort.group)

    @property
    def lift_sum(self) -> Callable[..., PyTree] | None:
        """`(sum of some uploads [d], how many) -> summand`, of a single group; None: uploads are lifted one by one."""
        return without_rows(self.lift)
