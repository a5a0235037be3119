"""The loss of one example as a flat list of equations, and the equations in which parameters meet the example."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jaxtyping import Array, Float, PyTree

from fedjax_priv.losses import Loss

Values = dict[Any, Any]  # variable -> its value

CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"} | dict.fromkeys(
    ("remat", "remat2", "checkpoint"), "jaxpr"
)
"""Primitives that only run other equations, and the parameter that holds these."""


class Use(NamedTuple):
    """An equation with inputs that depend only on parameters and inputs that depend on the example."""

    equation: JaxprEqn
    weights: tuple[Var, ...]  # differentiable inputs that depend only on parameters
    others: tuple[Var, ...]  # inputs that depend on the example
    outputs: tuple[Var, ...]  # differentiable outputs


class LossEquations(NamedTuple):
    """Equations in order: `shared` ones do not depend on the example, `own` ones do; `uses` also use parameters."""

    constants: dict[Var, Any]
    params: tuple[Var, ...]
    example: tuple[Var, ...]
    shared: tuple[JaxprEqn, ...]
    own: tuple[JaxprEqn, ...]
    uses: tuple[Use, ...]
    loss: Var

    def shared_values(self, params: Sequence[Array]) -> dict[Var, Any]:
        """All values that depend on no example."""
        values = self.constants | dict(zip(self.params, params, strict=True))
        for equation in self.shared:
            evaluate(equation, values)
        return values

    def shifted_loss(self, shifts: list[list[Array]], known: Values, example: Sequence[Array]) -> tuple[Array, list]:
        """The loss with `shifts` added to the outputs of uses, and the inputs of uses that depend on the example."""
        added = {
            id(use.equation): list(zip(use.outputs, shift, strict=True))
            for use, shift in zip(self.uses, shifts, strict=True)
        }
        values = {**known, **dict(zip(self.example, example, strict=True))}
        for equation in self.own:
            evaluate(equation, values)
            values |= {output: values[output] + shift for output, shift in added.get(id(equation), ())}
        return values[self.loss], [[values[each] for each in use.others] for use in self.uses]

    def zero_shifts(self) -> list[list[Array]]:
        """Shifts of 0."""
        return [[jnp.zeros(shaped(output).shape, shaped(output).dtype) for output in use.outputs] for use in self.uses]


def loss_equations(loss: Loss, params: PyTree, examples: PyTree) -> LossEquations:
    """Traces the loss of a batch with one example; `examples` `[k, ...]` gives its shape and dtype."""

    for leaf in jax.tree.leaves(params):
        if jnp.issubdtype(jnp.result_type(leaf), jnp.complexfloating):
            raise ValueError(f"params must be real, got {jnp.result_type(leaf)}")

    def one(params: PyTree, example: PyTree, zero: Float[Array, ""]) -> Array:
        # The zero makes the loss depend on the example even if nothing else does.
        value = loss(params, jax.tree.map(lambda a: a[None], example))[0]
        return value + zero.astype(value.dtype)

    example = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), examples)
    zero = jax.ShapeDtypeStruct((), jnp.float32)
    closed = _flat(jax.make_jaxpr(one)(params, example, zero))
    jaxpr, count = closed.jaxpr, len(jax.tree.leaves(params))
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    own, shared, uses = _divided(jaxpr, jaxpr.invars[:count], jaxpr.invars[count:])
    return LossEquations(
        constants, tuple(jaxpr.invars[:count]), tuple(jaxpr.invars[count:]), shared, own, uses, jaxpr.outvars[0]
    )


def _divided(jaxpr: Jaxpr, params: Sequence[Var], example: Sequence[Var]) -> tuple[tuple, tuple, tuple]:
    """Equations that depend on the example, those that do not, and uses."""
    from_params, from_example = {param for param in params if differentiable(param)}, set(example)
    own, shared, uses = [], [], []
    for equation in jaxpr.eqns:
        inputs = variables(equation)
        outputs = [output for output in equation.outvars if differentiable(output)]
        others = tuple(each for each in inputs if each in from_example)
        weights = tuple(each for each in inputs if each in from_params)
        (own if others else shared).append(equation)
        if others:
            from_example.update(equation.outvars)
        elif weights:
            from_params.update(outputs)
        if others and weights and outputs:
            uses.append(Use(equation, weights, others, tuple(outputs)))
    return tuple(own), tuple(shared), tuple(uses)


def variables(equation: JaxprEqn) -> list[Var]:
    """The inputs of an equation without literals, each once."""
    return list(dict.fromkeys(atom for atom in equation.invars if not isinstance(atom, Literal)))


def shaped(atom: Any) -> Any:
    """Shape and dtype of a variable or literal."""
    return atom.aval


def differentiable(variable: Var) -> bool:
    """Whether its values have derivatives."""
    return jnp.issubdtype(shaped(variable).dtype, jnp.inexact)


def evaluate(equation: JaxprEqn, values: Values) -> None:
    """Adds the outputs of an equation to `values`."""
    run, inputs = as_function(equation)
    values |= zip(equation.outvars, run(*(values[each] for each in inputs)), strict=True)


def as_function(equation: JaxprEqn) -> tuple[Callable[..., list], list[Var]]:
    """An equation as a function that returns its outputs, and the arguments of this function."""
    inputs = variables(equation)
    origin = DebugInfo("equation", equation.primitive.name, None, None)
    jaxpr = Jaxpr((), inputs, equation.outvars, [equation], equation.effects, origin)
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, ())), inputs


def _flat(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same function with calls of other functions inlined, except those with hand-written derivatives."""
    return jax.make_jaxpr(lambda *args: _run_flat(closed, args))(*(shaped(v) for v in closed.jaxpr.invars))


def _run_flat(closed: ClosedJaxpr, args: Sequence[Any]) -> list:
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))
    for equation in jaxpr.eqns:
        inside = equation.params.get(CALLS.get(equation.primitive.name, ""))
        if inside is None:
            evaluate(equation, values)
            continue
        inside = inside if isinstance(inside, ClosedJaxpr) else ClosedJaxpr(inside, ())
        outputs = _run_flat(inside, [_read(atom, values) for atom in equation.invars])
        values |= zip(equation.outvars, outputs, strict=True)
    return [_read(atom, values) for atom in jaxpr.outvars]


def _read(atom: Any, values: Values) -> Any:
    return atom.val if isinstance(atom, Literal) else values[atom]
