"""An aggregation rule of another library, called on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedjax_priv import _validate
from fedjax_priv.aggregators.rule_parts import rows_of
from fedjax_priv.base import Aggregator, Key, Received
from fedjax_priv.status import keep_error


def from_host(function: Callable[[np.ndarray], Any]) -> Aggregator:
    """Turns a NumPy function, or anything else that runs on the host, into a rule: `from_host(byzfl.TrMean(3))`.

    Use it for comparisons. Each round waits for the host, and `vmap`, as in a sweep, calls the function once per
    member. A direction that is not finite fails the round, as with any rule. If no row is present, the direction is
    zero and `function` is not called. The rule does not know how many Byzantine rows it tolerates, so no system refuses
    it; to state it, write `from_host(f)._replace(most_byzantine=lambda num_rows: 3)`. Functions are not compared: a run
    that is resumed with another function continues with this one.

    Args:
      function: from the rows present, a float32 array `[m, d]` that it may change, m >= 1, to `[d]`. It must be
        deterministic, because it may be called any number of times, and it must not call JAX.

    Raises:
      ValueError: `function` is no function of one argument.
      RuntimeError: after the round, if `function` raises (its error is the cause) or returns another shape. The round
        has failed then. `simulate` and `sweep` raise a `SimulationError` with this cause after the chunk under way; a
        call of the rule on an array raises it. In a loop over `step` it is logged.

    Examples:
      >>> print(from_host(lambda rows: np.median(rows, axis=0))([[1.0], [2.0], [99.0]]))
      [2.]
    """

    _validate.function(1, "byzfl.TrMean(3)", function=function)

    def call(value: Array, count: Array) -> np.ndarray:
        rows = np.asarray(value)[np.asarray(count) > 0]
        shape = rows.shape[1:]
        try:
            direction = np.asarray(function(rows) if len(rows) else np.zeros(shape), np.float32)
        except BaseException as error:  # not even SystemExit may leave a callback
            keep_error(f"function of from_host raised {type(error).__name__}: {error}", error)
            return np.full(shape, np.nan, np.float32)
        if direction.shape != shape:
            keep_error(f"function of from_host must return an array of shape {shape}, got {direction.shape}")
            return np.full(shape, np.nan, np.float32)
        return direction

    def apply(key: Key, state: tuple, received: Received) -> tuple[Array, tuple]:
        del key
        rows = rows_of(received)
        shape = jax.ShapeDtypeStruct(rows.shape[1:], jnp.float32)
        return jax.pure_callback(call, shape, rows, received.count, vmap_method="sequential"), state

    return Aggregator(lambda d: (), apply)
