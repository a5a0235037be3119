"""Whether the loss of an example depends on other examples of the batch, found from the equations of the loss.

The gradient of a sample is computed from a batch of one, so no other sample can change it. But a loss that combines
examples, such as one with batch normalisation, would then be another loss than its author means, so it is refused.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import PyTree

from fedjax_priv.clients.ghost_norms import dependence as follow
from fedjax_priv.clients.ghost_norms.dependence import Combined, Dependence, Rows, Unknown
from fedjax_priv.clients.ghost_norms.loss_equations import CALLS, shaped

_INSIDE = CALLS | {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vmap_call": "call"}


def check_separate(traced: ClosedJaxpr, params: PyTree) -> None:
    """Raises ValueError if a loss of an example depends on several, as far as the equations can be followed.

    Args:
      traced: a loss `(params, examples [k, ...]) -> [k]`.
      params: arrays or their shapes.
    """
    inputs = traced.jaxpr.invars
    count = len(jax.tree.leaves(params))
    if count == len(inputs) or shaped(inputs[-1]).shape[0] < 2:
        return
    (found,) = _followed(traced, [None] * count + [Rows(0)] * (len(inputs) - count))
    if isinstance(found, Combined):
        raise ValueError(f"loss must not combine examples, but {found.by} does: each example must have its own loss")


def _followed(jaxpr: Jaxpr | ClosedJaxpr, inputs: Sequence[Dependence]) -> list[Dependence]:
    """The dependence of the outputs, given that of the inputs."""
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    of: dict[Any, Dependence] = dict(zip(jaxpr.invars, inputs, strict=True))
    read = lambda atom: None if isinstance(atom, Literal) else of.get(atom)
    for equation in jaxpr.eqns:
        of |= zip(equation.outvars, _outputs(equation, [read(atom) for atom in equation.invars]), strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _outputs(equation: JaxprEqn, given: Sequence[Dependence]) -> Sequence[Dependence]:
    name, params = equation.primitive.name, equation.params
    worst = next((each for each in given if isinstance(each, Combined)), None)
    if worst is not None or all(each is None for each in given):
        return [worst] * len(equation.outvars)
    if name in _INSIDE:
        return _followed(params[_INSIDE[name]], given)
    if name == "cond" and given[0] is None:
        branches = [_followed(branch, given[1:]) for branch in params["branches"]]
        return [one[0] if len(set(one)) == 1 else Unknown() for one in zip(*branches, strict=True)]
    unknown = any(isinstance(each, Unknown) for each in given)
    found = Unknown() if unknown else follow.RULES.get(name, follow.by_entry)(equation, given)
    return [found] * len(equation.outvars)
