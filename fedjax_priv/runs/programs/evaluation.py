"""Measures the parameters between chunks of rounds."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from fedjax_priv.engine.calls import calling
from fedjax_priv.runs.programs import lowering
from fedjax_priv.runs.programs.layout import Layout
from fedjax_priv.runs.records import result_dataset

Evaluate = Callable[[PyTree], Mapping[str, Any]]
"""`params -> {name: scalar}`"""


class Evaluation(NamedTuple):
    """A compiled evaluation of ravelled parameters: `[p, d]` of `p` runs, or `[d]` of a single run."""

    ravel: Callable[[PyTree], jax.Array]  # params -> [p, d]
    measure: Callable[[jax.Array], dict[str, np.ndarray]]  # [p, d] -> metrics [p], on the host
    names: tuple[str, ...]
    digest: str


def compile_evaluation(
    evaluate: Evaluate | None, params: PyTree, layout: Layout, named: Iterable[str] = ()
) -> Evaluation:
    """Compiles an evaluation for parameters of these shapes; if every device holds them, only one device evaluates.

    A metric must not have a name in `named`, or a name that results or logs use.

    Raises:
      ValueError: `evaluate` does not return a dict of scalars, or a metric has such a name, an empty one, or one with
        a slash.
    """
    one = jax.tree.map(lambda a: jnp.zeros(a.shape[1:] if layout.runs else a.shape, a.dtype), params)
    _, unravel = ravel_pytree(one)
    ravel = jax.jit(layout.each(lambda params: ravel_pytree(params)[0], 0), out_shardings=layout.out)
    one_copy = (lambda flat: flat) if layout.by_runs else (lambda flat: flat.addressable_data(0))
    flat = ravel(params)

    def metrics_of(flat: jax.Array) -> PyTree:
        params = unravel(flat)
        with calling("evaluate", params=params):
            return evaluate(params) if evaluate else {}

    measure = jax.jit(layout.each(metrics_of, 0))
    lowered = lowering.lower(measure, one_copy(flat))
    metrics = lowered.out_info
    is_key = lambda metric: jnp.issubdtype(metric.dtype, jax.dtypes.extended)
    scalar = lambda metric: getattr(metric, "shape", None) == flat.shape[:-1] and not is_key(metric)
    if not isinstance(metrics, dict) or not all(map(scalar, metrics.values())):
        raise ValueError(f"evaluate must return a dict of scalars, got {metrics}")
    if numbered := [name for name in metrics if not isinstance(name, str)]:
        raise ValueError(f"evaluate must name its metrics by strings, got {numbered}")
    if taken := [name for name in metrics if name in result_dataset.TAKEN | {*named} or not name or "/" in name]:
        raise ValueError(
            "evaluate must name its metrics without a slash and unlike any axis, variable of the result or entry of "
            f"the log, got {taken}"
        )
    program = lowered.compile()

    def on_host(flat: jax.Array) -> dict[str, np.ndarray]:
        values = jax.device_get(program(one_copy(flat)))
        return {name: np.array(np.reshape(values[name], -1).tolist()) for name in metrics}

    return Evaluation(ravel, on_host, tuple(metrics), lowered.digest)
