"""How the norm and the sum of sample gradients are found for each parameter."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from jax.extend.core import JaxprEqn, Var

from fedjax_priv.clients.ghost_norms.by_primitive import rule_of
from fedjax_priv.clients.ghost_norms.loss_equations import (
    LossEquations,
    Use,
    differentiable,
    shaped,
    variables,
)  # fmt: skip
from fedjax_priv.clients.ghost_norms.rule import Rule

_REARRANGING = ("broadcast_in_dim", "convert_element_type", "copy", "neg", "reshape", "rev", "squeeze", "transpose")
"""Primitives that do not change the norm of a derivative if they do not change the number of values."""
_BY_ENTRY = ("add", "add_any", "div", "max", "min", "mul", "pow", "select_n", "sub")
"""Primitives in which each output value depends on one value of each input."""


Method = Literal["ghost norm", "instantiated", "by sample", "unused"]
"""How the gradients of samples by a parameter are handled.

- "ghost norm": only their norms are computed; the clipped sum is one product over the batch.
- "instantiated": each gradient is computed, by one product for all samples or, if parameters are added or multiplied,
  by a sum.
- "by sample": each gradient is computed, by differentiating an equation without a rule sample by sample.
- "unused": the loss does not depend on the parameter.
"""


class Ghost(NamedTuple):
    """A parameter with a ghost norm: one equation uses it, once."""

    param: int
    use: int
    rule: Rule


class Plan(NamedTuple):
    """The method of each parameter, by its number, and the rule of each use."""

    methods: tuple[Method, ...]
    ghosts: tuple[Ghost, ...]
    rules: tuple[Rule | None, ...]

    @property
    def instantiated(self) -> tuple[int, ...]:
        """The parameters for which a gradient per sample is computed."""
        return tuple(i for i, method in enumerate(self.methods) if method in ("instantiated", "by sample"))


def plan(equations: LossEquations) -> Plan:
    """The plan of a loss."""
    rules = tuple(rule_of(use) for use in equations.uses)
    readers: dict[Var, list[JaxprEqn]] = {}
    for equation in (*equations.shared, *equations.own):
        for variable in variables(equation):
            readers.setdefault(variable, []).append(equation)
    ghosts = [_ghost(equations, number, readers, rules) for number in range(len(equations.params))]
    used = _sources(equations, equations.uses)
    unruled = [use for use, rule in zip(equations.uses, rules, strict=True) if not rule]
    slow = _sources(equations, [use for use in unruled if use.equation.primitive.name not in _BY_ENTRY])
    methods: list[Method] = [
        "ghost norm" if ghost else "by sample" if param in slow else "instantiated" if param in used else "unused"
        for param, ghost in zip(equations.params, ghosts, strict=True)
    ]
    return Plan(tuple(methods), tuple(ghost for ghost in ghosts if ghost), rules)


def _ghost(equations: LossEquations, param: int, readers: dict, rules: Sequence[Rule | None]) -> Ghost | None:
    """The only use of a parameter, perhaps after rearrangements, if a ghost norm is cheap there; else None."""
    numbers = {id(use.equation): number for number, use in enumerate(equations.uses)}
    at = equations.params[param]
    while len(readers.get(at, ())) == 1:
        (equation,) = readers[at]
        number = numbers.get(id(equation))
        if number is not None:
            rule = rules[number]
            return Ghost(param, number, rule) if rule and rule.cheap else None
        source, (at, *more) = at, equation.outvars
        alike = equation.primitive.name in _REARRANGING and shaped(at).size == shaped(source).size
        if more or not alike or not differentiable(at):
            return None
    return None


def _sources(equations: LossEquations, uses: Iterable[Use]) -> set[Var]:
    """The variables on which these uses depend, without those that depend on the example."""
    found = {weight for use in uses for weight in use.weights}
    for equation in reversed(equations.shared):
        if not found.isdisjoint(equation.outvars):
            found.update(variables(equation))
    return found
