"""Subsets of rows, for rules that try all of them."""

import itertools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fedjax_priv.engine.batches import in_batches

MOST_SUBSETS = 50_000


def best_subset(score: Callable[[Array], Array], num_left_out: int, ok: Bool[Array, " g"]) -> Bool[Array, " g"]:
    """The subset of present rows that leaves out `num_left_out` and has the least `score(mask [g])`; ties go to the
    first.

    Raises:
      ValueError: there are more than 50,000 subsets of `g` rows.
    """
    kept = jnp.asarray(all_but(min(num_left_out, ok.size), ok.size))
    scores = in_batches(lambda mask: score(mask & ok), kept, 256)
    complete = (kept | ok[None, :]).all(1)  # every row left out is present
    return kept[jnp.argmin(jnp.where(complete, scores, jnp.inf))] & ok


def all_but(num_left_out: int, num_rows: int) -> np.ndarray:
    """Masks `[subsets, num_rows]` that leave out `num_left_out` rows, ordered as `itertools.combinations` of the
    others.

    Raises:
      ValueError: there are more than 50,000.
    """
    subsets = math.comb(num_rows, num_left_out)
    if subsets > MOST_SUBSETS:
        raise ValueError(
            f"num_byzantine must give at most {MOST_SUBSETS} subsets of the {num_rows} rows to try, "
            f"got {num_left_out}, which gives {subsets}"
        )
    left_out = np.array(list(itertools.combinations(range(num_rows), num_left_out)), int).reshape(subsets, -1)
    masks = np.ones((subsets, num_rows), bool)
    np.put_along_axis(masks, left_out, False, axis=1)
    return masks[::-1]
