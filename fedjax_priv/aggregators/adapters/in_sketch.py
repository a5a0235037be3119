"""Rules on random projections of rows."""

import jax
from jaxtyping import Array, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.crypto.sketch import Sketched, projection


def in_sketch(rule: Aggregator, num_params: int, k: int, *, dense: bool = False) -> Aggregator:
    """`P' rule(rows)`, where the rows are projections `P x`: `layers.jl` with the same arguments makes P and the rows.

    Quote the rule's robustness for the direction, not for the sketch: an error of the rule is longer by sqrt(d/k) after
    P', on average. If the rule has state per coordinate, arrays `[d]`, this state is projected before each call and
    projected back after it, times k / (k + d - 1). Without this factor its norm would grow from round to round.

    Args:
      rule: on rows `[g, k]`.
      num_params: d.
      k: numbers of a row.
      dense: as in `layers.jl`.

    Raises:
      ValueError: a size is not an integer >= 1, or k is above `num_params`; or, when a round is traced, rows are no
        sketch of this size. Rows whose coordinates depend on data, such as those of `top_k`, are none.

    Examples:
      >>> layers = fedjax_priv.layers
      >>> send = layers.stack(sketch=layers.jl(1000, 100), send=layers.plain())
      >>> rule = in_sketch(krum(1), num_params=1000, k=100)  # of what `send` uploads
      >>> print(rule.most_byzantine(5))
      1
    """
    _validate.part(Aggregator, "aggregators.mean()", rule=rule)
    by = projection(num_params, k, dense=dense)

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        rows = received.value
        if not isinstance(rows, Sketched) or rows.value.shape[1] != k:
            got = f"{rows.value.shape[1]} numbers" if isinstance(rows, Sketched) else type(rows).__name__
            raise ValueError(f"rows must be sketches of {k} numbers by a public seed, as layers.jl has them, got {got}")
        seed = rows.seed[0]
        kept = lambda a: a.shape == (num_params,)
        into = lambda a: by.project(seed, a) if kept(a) else a
        out = lambda new, old: by.shrinking * by.back(seed, new) if kept(old) else new
        direction, new = rule.apply(key, jax.tree.map(into, state), received._replace(value=rows.value))
        return by.back(seed, direction), jax.tree.map(out, new, state)

    return rule._replace(apply=apply, equivariant=False, in_two=None)
