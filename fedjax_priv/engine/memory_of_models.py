"""Clients that remember the model they trained last, whatever became of the round, and train it no second time."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fedjax_priv.base import Cohort, Local
from fedjax_priv.engine.client_rows import put_rows, rows_of
from fedjax_priv.engine.versions import with_digests

NOTHING = np.uint32(2**32 - 1)
"""In place of the words of a digest, which are field elements: no model has it."""


def nothing_trained(local: Local, n: int) -> PyTree:
    """`RoundState.trained` before the first round."""
    return jnp.full((n, 2), NOTHING) if local.digest else ()


def who_trains(
    local: Local, who: Cohort, models: PyTree, trained: PyTree
) -> tuple[Cohort, PyTree, Mapping[str, Array]]:
    """The cohort without clients that trained this model last, what clients remember next, and who sat out.

    A client that refuses takes no part in the round, as if it had not been drawn. Byzantine clients never refuse.
    """
    if local.digest is None:
        return who, trained, {}
    digest = with_digests(local.digest, who, models).digest
    again = who.selected & ~who.byzantine & (digest == rows_of(who, trained)).all(1)
    who = who._replace(selected=who.selected & ~again)
    return who, put_rows(who, who.selected, digest, trained), {"sat_out": again}
