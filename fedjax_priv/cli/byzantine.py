"""Rules and attacks by name, for what is chosen on a command line."""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fedjax_priv import aggregators, attacks
from fedjax_priv.base import Aggregator
from fedjax_priv.cli.options import Choice, Option, takes


def unprotected_mean() -> Aggregator:
    """The mean, which no system refuses: what attacks cost without a robust rule."""
    return aggregators.mean()._replace(most_byzantine=None)


def monna(num_byzantine: int, *, pivot: int | None = None) -> Aggregator:
    """As `aggregators.monna`.

    Args:
      num_byzantine: clients 0 to f - 1 are Byzantine.
      pivot: number of the trusted client; the first honest one if not given.
    """
    return aggregators.monna(num_byzantine, pivot=num_byzantine if pivot is None else pivot)


RULES: Mapping[str, Callable[..., Aggregator]] = {
    "mean": unprotected_mean,
    "coordinate_median": aggregators.coordinate_median,
    "trimmed_mean": aggregators.trimmed_mean,
    "geometric_median": aggregators.geometric_median,
    "krum": aggregators.krum,
    "multi_krum": aggregators.multi_krum,
    "centered_clipping": aggregators.centered_clipping,
    "mda": aggregators.mda,
    "meamed": aggregators.meamed,
    "caf": aggregators.caf,
    "smea": aggregators.smea,
    "norm_trimming": aggregators.norm_trimming,
    "filter_l2": aggregators.filter_l2,
}
RULES_OF_CLIENTS: Mapping[str, Callable[..., Aggregator]] = {**RULES, "monna": monna}
"""Where a row is a client, so that one of them can be trusted."""
STEPS: Mapping[str, Callable[..., aggregators.PreAggregator]] = {
    "nearest_neighbour_mixing": aggregators.nearest_neighbour_mixing,
    "bucketing": aggregators.bucketing,
    "clipping": aggregators.clipping,
    "arc": aggregators.arc,
}
ATTACKS: Mapping[str, Callable[..., attacks.Attack]] = {
    "sign_flip": attacks.sign_flip,
    "foe": attacks.foe,
    "alie": attacks.alie,
    "mimic": attacks.mimic,
    "gaussian": attacks.gaussian,
    "infinite": attacks.infinite,
}
SEARCHED: Mapping[str, Callable[..., attacks.Attack]] = {
    "optimal_foe": attacks.optimal_foe,
    "optimal_alie": attacks.optimal_alie,
}
"""Where a row is a client, which is what the search asks the rule about, from its first state."""
PROPOSALS: Mapping[str, Callable[..., attacks.CoordinateAttack]] = {
    "same_set": attacks.same_set,
    "random_set": attacks.random_set,
    "smallest": attacks.smallest,
}

TOLD = "num_byzantine"
"""What a rule need not be given: it bears as many as there are."""

_RULE = Choice("aggregate", RULES, without=(TOLD,), prefix="aggregate_")
_RULE_OF_CLIENTS = Choice("aggregate", RULES_OF_CLIENTS, without=(TOLD,), prefix="aggregate_")
_STEP = Choice("pre_aggregate", STEPS, without=(TOLD,), prefix="pre_aggregate_")
_ATTACK = Choice("attack", ATTACKS, prefix="attack_")
_ATTACK_OR_SEARCH = Choice("attack", {**ATTACKS, **SEARCHED}, prefix="attack_")
_PROPOSAL = Choice("coordinate_attack", PROPOSALS, prefix="coordinate_attack_")


def byzantine_options(system: Callable) -> dict[str, Option]:
    """Options for those parts of a system that are rules or attacks.

    Args:
      system: a function of `systems`.
    """
    found: dict[str, Option] = {}
    if takes(system, "aggregate"):
        found |= _rules(system).options("centered_clipping", "the server's rule, told num_byzantine.")
        found |= _STEP.options(None, "what is done to the rows before the rule.")
    if takes(system, "attack"):
        found |= _attack(system).options(None, "on what Byzantine clients send; they are honest if not given.")
    if takes(system, "coordinate_attack"):
        found |= _PROPOSAL.options(None, "on the coordinates Byzantine clients propose.")
    return found


def byzantine_parts(system: Callable, values: Mapping[str, Any]) -> dict[str, Any]:
    """These parts, as arguments of the system; None for what was not chosen.

    Args:
      system: a function of `systems`.
      values: of `byzantine_options(system)` and of `num_byzantine`, by name.

    Raises:
      ValueError: a value out of its range, or one that is for another rule or attack.
    """
    parts: dict[str, Any] = {}
    if takes(system, "aggregate"):
        parts["aggregate"] = _rule(_rules(system), values)
    if takes(system, "attack"):
        parts["attack"] = _chosen_attack(_attack(system), values, parts.get("aggregate"))
    if takes(system, "coordinate_attack"):
        arguments = _PROPOSAL.arguments(values)
        parts["coordinate_attack"] = _made("coordinate_attack", PROPOSALS, values, arguments)
    return parts


def check_attackers(values: Mapping[str, Any], axes: Mapping[str, Sequence[Any]] = MappingProxyType({})) -> None:
    """An attack that nobody carries out would pass for one that does no harm.

    Args:
      values: of all options of a system.
      axes: values that replace one of them, in a sweep.

    Raises:
      ValueError: an attack is chosen, and there are no Byzantine clients.
    """
    given = lambda name: axes.get(name, [values.get(name)])
    for name in ("attack", "coordinate_attack"):
        if any(given(name)) and not any(given("num_byzantine")):
            raise ValueError(f"num_byzantine must be at least 1 with {name}, got 0")


def _rule(choice: Choice, values: Mapping[str, Any]) -> Aggregator:
    rule = _made("aggregate", RULES_OF_CLIENTS, values, choice.arguments(values))
    step = _made("pre_aggregate", STEPS, values, _STEP.arguments(values))
    if step is None:
        return rule
    both = aggregators.pre_aggregated(step, rule)
    return both if rule.most_byzantine else both._replace(most_byzantine=None)


def _chosen_attack(choice: Choice, values: Mapping[str, Any], rule: Aggregator | None) -> attacks.Attack | None:
    name = values["attack"]
    if name in SEARCHED and values["pre_aggregate"] == "bucketing":
        raise ValueError(f"pre_aggregate must not be bucketing with attack {name}, which does not know its draws")
    searched = {name: functools.partial(attack, rule) for name, attack in SEARCHED.items()}
    return _made("attack", {**ATTACKS, **searched}, values, choice.arguments(values))


def _made(kind: str, functions: Mapping[str, Callable], values: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    name = values[kind]
    if name is None:
        return None
    told = takes(functions[name], TOLD) and "fraction" not in arguments
    try:
        return functions[name](**arguments, **({TOLD: values[TOLD]} if told else {}))
    except ValueError as error:
        raise ValueError(f"{kind} {name}: {error}") from error


def _rules(system: Callable) -> Choice:
    return _RULE_OF_CLIENTS if _rows_are_clients(system) else _RULE


def _attack(system: Callable) -> Choice:
    return _ATTACK_OR_SEARCH if _rows_are_clients(system) else _ATTACK


def _rows_are_clients(system: Callable) -> bool:
    """What the rule looks at; elsewhere rows are buffers, or the system has a rule of its own."""
    return takes(system, "aggregate") and not takes(system, "buffer_size")
