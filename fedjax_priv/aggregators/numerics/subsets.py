"""Subsets of rows, for the rules that look at all of them."""

import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

MOST_SUBSETS = 50_000


def best_subset(score: Callable[[Array], Array], num_left_out: int, ok: Bool[Array, " g"]) -> Bool[Array, " g"]:
    """Of the subsets of all rows that are there but `num_left_out`, the first with the least `score(mask [g])`.

    Raises:
      ValueError: there are more than 50,000 subsets of `g` rows.
    """
    kept = jnp.asarray(all_but(num_left_out, ok.size))
    scores = jax.lax.map(lambda mask: score(mask & ok), kept, batch_size=256)
    complete = (kept | ok[None, :]).all(1)  # none of those left out was missing
    return kept[jnp.argmin(jnp.where(complete, scores, jnp.inf))] & ok


def all_but(num_left_out: int, num_rows: int) -> np.ndarray:
    """Masks `[subsets, num_rows]` of all rows but `num_left_out`, in the order of `itertools.combinations` of the rest.

    Raises:
      ValueError: there are more than 50,000.
    """
    subsets = math.comb(num_rows, num_left_out)
    if subsets > MOST_SUBSETS:
        raise ValueError(
            f"num_byzantine must leave at most {MOST_SUBSETS} subsets of the {num_rows} rows to look at, "
            f"got {num_left_out}: {subsets} subsets"
        )
    left_out = np.array(list(itertools.combinations(range(num_rows), num_left_out)), int).reshape(subsets, -1)
    masks = np.ones((subsets, num_rows), bool)
    np.put_along_axis(masks, left_out, False, axis=1)
    return masks[::-1]
