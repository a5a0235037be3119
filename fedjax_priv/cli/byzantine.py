"""Options of a system's robust rule and of its attacks."""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fedjax_priv import aggregators, attacks
from fedjax_priv.aggregators.by_name import PRE_AGGREGATORS, RULES, TRUSTING, told
from fedjax_priv.attacks.by_name import ATTACKS, COORDINATE_ATTACKS, FIELD_ATTACKS, SEARCHED
from fedjax_priv.base import Aggregator
from fedjax_priv.cli.options import Choice, Option, takes


def _choice(name: str, functions: Mapping[str, Callable], without: frozenset[str] = frozenset()) -> Choice:
    kept = {each: function for each, function in functions.items() if each not in without}
    return Choice(name, kept, without=("num_byzantine",), prefix=f"{name}_")


_RULE, _RULE_OF_CLIENTS = _choice("aggregate", RULES, TRUSTING), _choice("aggregate", RULES)
_PRE_AGGREGATOR = _choice("pre_aggregate", PRE_AGGREGATORS)
_ATTACK, _ATTACK_OR_SEARCH = _choice("attack", ATTACKS, SEARCHED), _choice("attack", ATTACKS)
_GROUP_ATTACK = _choice("group_attack", ATTACKS, SEARCHED)
_GROUP_ATTACK_OR_SEARCH = _choice("group_attack", ATTACKS)
_COORDINATE_ATTACK = _choice("coordinate_attack", COORDINATE_ATTACKS)
_FIELD_ATTACK = _choice("field_attack", FIELD_ATTACKS)
_DRAWS = 16
"""Random buckets on which a search tries each factor."""
ATTACK_OPTIONS = ("attack", "group_attack", "field_attack", "coordinate_attack")

_DEFAULT_RULE = {"compose": "mean"}
"""By system; centered clipping for all others."""


def byzantine_options(system: Callable) -> dict[str, Option]:
    """The options for the rule, the step before it and the attacks that a system takes.

    Args:
      system: a function of `systems`.
    """
    found: dict[str, Option] = {}
    if takes(system, "aggregate"):
        found |= _rules(system).options(
            _DEFAULT_RULE.get(system.__name__, "centered_clipping"), "rule by which the server combines rows."
        )
        found |= _PRE_AGGREGATOR.options(None, "step on the rows before the rule; none if not given.")
    if takes(system, "attack"):
        found |= _attack(system).options(None, "what Byzantine clients send; they act honestly if not given.")
    if takes(system, "group_attack"):
        found |= _group_attack(system).options(
            None, "mean that Byzantine clients give their groups; instead of attack."
        )
    if takes(system, "field_attack"):
        found |= _FIELD_ATTACK.options(None, "what Byzantine clients put into the secure sum, before the masks.")
    if takes(system, "coordinate_attack"):
        found |= _COORDINATE_ATTACK.options(None, "what Byzantine clients propose; honest proposals if not given.")
    return found


def byzantine_parts(system: Callable, values: Mapping[str, Any]) -> dict[str, Any]:
    """The rule and the attacks, as arguments of the system; None for an attack that was not chosen or is of nobody.

    Args:
      system: a function of `systems`.
      values: of `byzantine_options(system)` and of `num_byzantine`, by name.

    Raises:
      ValueError: a value out of its range, or an option of another rule or attack.
    """
    parts: dict[str, Any] = {}
    if takes(system, "aggregate"):
        parts["aggregate"] = _rule(_rules(system), values)
    if takes(system, "attack"):
        parts["attack"] = _chosen_attack(_attack(system), values, parts.get("aggregate"))
    if takes(system, "group_attack"):
        parts["group_attack"] = _chosen_attack(_group_attack(system), values, parts.get("aggregate"))
    if takes(system, "field_attack"):
        parts["field_attack"] = _made("field_attack", FIELD_ATTACKS, values, _FIELD_ATTACK.arguments(values))
    if takes(system, "coordinate_attack"):
        arguments = _COORDINATE_ATTACK.arguments(values)
        parts["coordinate_attack"] = _made("coordinate_attack", COORDINATE_ATTACKS, values, arguments)
    if values.get("num_byzantine"):
        return parts
    return parts | dict.fromkeys(parts.keys() & set(ATTACK_OPTIONS))


def check_attackers(values: Mapping[str, Any], axes: Mapping[str, Sequence[Any]] = MappingProxyType({})) -> None:
    """Refuse an attack without Byzantine clients; a grid may have points without them, which go without the attack.

    Args:
      values: of all options of a system.
      axes: values that replace one of them, in a sweep.

    Raises:
      ValueError: an attack is chosen, and there are no Byzantine clients.
    """
    given = lambda name: axes.get(name, [values.get(name)])
    for name in ATTACK_OPTIONS:
        if any(given(name)) and not any(given("num_byzantine")):
            raise ValueError(f"num_byzantine must be at least 1 with {name}, got 0")


def _rule(choice: Choice, values: Mapping[str, Any]) -> Aggregator:
    rule = _made("aggregate", RULES, values, choice.arguments(values))
    step = _made("pre_aggregate", PRE_AGGREGATORS, values, _PRE_AGGREGATOR.arguments(values))
    return rule if step is None else aggregators.pre_aggregated(step, rule)


def _chosen_attack(choice: Choice, values: Mapping[str, Any], rule: Aggregator | None) -> attacks.AnyAttack | None:
    draws = _DRAWS if values.get("pre_aggregate") == "bucketing" else 1
    searched = {name: functools.partial(ATTACKS[name], rule, draws=draws) for name in SEARCHED}
    return _made(choice.name, {**ATTACKS, **searched}, values, choice.arguments(values))


def _made(kind: str, functions: Mapping[str, Callable], values: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    name = values[kind]
    if name is None:
        return None
    try:
        return told(functions[name], values["num_byzantine"], **arguments)
    except ValueError as error:
        raise ValueError(f"{kind} {name}: {error}") from error


def _rules(system: Callable) -> Choice:
    return _RULE_OF_CLIENTS if _rows_are_clients(system) else _RULE


def _attack(system: Callable) -> Choice:
    return _ATTACK_OR_SEARCH if _rows_are_clients(system) else _ATTACK


def _group_attack(system: Callable) -> Choice:
    return _GROUP_ATTACK_OR_SEARCH if takes(system, "aggregate") else _GROUP_ATTACK


def _rows_are_clients(system: Callable) -> bool:
    """Otherwise rows are sums of buffers, or the system has its own rule."""
    return takes(system, "aggregate") and not takes(system, "buffer_size")
