"""How the gradient of a sample by each parameter is measured and summed."""

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
"""Primitives that leave the norm of a derivative as it is, where they leave the number of values."""
_BY_ENTRY = ("add", "add_any", "div", "max", "min", "mul", "pow", "select_n", "sub")
"""Primitives each of whose values depends on one value of each input."""


Method = Literal["ghost norm", "instantiated", "by sample", "unused"]
"""How gradients of samples by a parameter are found.

- "ghost norm": only their norms are; the clipped sum is one product over the batch.
- "instantiated": each is, by one product for all samples or, where parameters are added or multiply, by a sum.
- "by sample": each is, by differentiating an equation without a rule sample by sample.
- "unused": the loss does not depend on the parameter.
"""


class Ghost(NamedTuple):
    """A parameter that one equation uses, once."""

    param: int
    use: int
    rule: Rule


class Plan(NamedTuple):
    """What is done for each parameter, by its number, and for each use."""

    methods: tuple[Method, ...]
    ghosts: tuple[Ghost, ...]
    rules: tuple[Rule | None, ...]

    @property
    def instantiated(self) -> tuple[int, ...]:
        """The parameters with a gradient for each sample."""
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
    """The use of a parameter with a single reader, after rearrangements, if a ghost norm is cheap there."""
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
    """The variables that these uses depend on, but for the example."""
    found = {weight for use in uses for weight in use.weights}
    for equation in reversed(equations.shared):
        if not found.isdisjoint(equation.outvars):
            found.update(variables(equation))
    return found
