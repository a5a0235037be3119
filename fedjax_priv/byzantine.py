"""Rules and attacks by name, for what is chosen on a command line."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fedjax_priv import aggregators, attacks
from fedjax_priv.base import Aggregator
from fedjax_priv.options import Choice, Option


def unprotected_mean() -> Aggregator:
    """The mean, which no system refuses: what attacks cost without a robust rule."""
    return aggregators.mean()._replace(most_byzantine=None)


RULES: Mapping[str, Callable[..., Aggregator]] = {
    "mean": unprotected_mean,
    "coordinate_median": aggregators.coordinate_median,
    "trimmed_mean": aggregators.trimmed_mean,
    "geometric_median": aggregators.geometric_median,
    "krum": aggregators.krum,
    "multi_krum": aggregators.multi_krum,
    "centered_clipping": aggregators.centered_clipping,
    "mda": aggregators.mda,
    "monna": aggregators.monna,
    "meamed": aggregators.meamed,
    "caf": aggregators.caf,
    "smea": aggregators.smea,
    "norm_trimming": aggregators.norm_trimming,
    "filter_l2": aggregators.filter_l2,
}
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
PROPOSALS: Mapping[str, Callable[..., attacks.CoordinateAttack]] = {
    "same_set": attacks.same_set,
    "random_set": attacks.random_set,
    "smallest": attacks.smallest,
}

_RULE = Choice("aggregate", RULES, without=("num_byzantine", "block"), prefix="aggregate_")
_STEP = Choice("pre_aggregate", STEPS, without=("num_byzantine",), prefix="pre_aggregate_")
_ATTACK = Choice("attack", ATTACKS, prefix="attack_")
_ATTACK_OR_SEARCH = Choice("attack", {**ATTACKS, **SEARCHED}, prefix="attack_")
_PROPOSAL = Choice("coordinate_attack", PROPOSALS, prefix="coordinate_attack_")


def byzantine_options(system: Callable) -> dict[str, Option]:
    """Options for those parts of a system that are rules or attacks.

    Args:
      system: a function of `systems`.
    """
    found: dict[str, Option] = {}
    if _takes(system, "aggregate"):
        found |= _RULE.options("centered_clipping", "the server's rule, told num_byzantine.")
        found |= _STEP.options(None, "what is done to the rows before the rule.")
    if _takes(system, "attack"):
        found |= _attack(system).options(None, "on what Byzantine clients send; they are honest if not given.")
    if _takes(system, "coordinate_attack"):
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
    if _takes(system, "aggregate"):
        parts["aggregate"] = _rule(values)
    if _takes(system, "attack"):
        parts["attack"] = _chosen_attack(_attack(system), values, parts.get("aggregate"))
    if _takes(system, "coordinate_attack"):
        arguments = _PROPOSAL.arguments(values)
        parts["coordinate_attack"] = _made(PROPOSALS, values["coordinate_attack"], arguments)
    return parts


def _rule(values: Mapping[str, Any]) -> Aggregator:
    rule = _made(RULES, values["aggregate"], _RULE.arguments(values), values["num_byzantine"])
    step = _made(STEPS, values["pre_aggregate"], _STEP.arguments(values), values["num_byzantine"])
    return rule if step is None else aggregators.pre_aggregated(step, rule)


def _chosen_attack(choice: Choice, values: Mapping[str, Any], rule: Aggregator | None) -> attacks.Attack | None:
    name, arguments = values["attack"], choice.arguments(values)
    if name in SEARCHED:
        if values["pre_aggregate"] == "bucketing":
            raise ValueError(f"pre_aggregate must not be bucketing with attack {name}, which does not know its draws")
        return SEARCHED[name](rule, **arguments)
    return _made(ATTACKS, name, arguments)


def _made(
    functions: Mapping[str, Callable], name: str | None, arguments: Mapping[str, Any], num_byzantine: int = 0
) -> Any:
    if name is None:
        return None
    told = _takes(functions[name], "num_byzantine") and "fraction" not in arguments
    return functions[name](**arguments, **({"num_byzantine": num_byzantine} if told else {}))


def _attack(system: Callable) -> Choice:
    """The search asks the rule about one row a client, which is not what a server of buffers has."""
    one_row_each = _takes(system, "aggregate") and not _takes(system, "buffer_size")
    return _ATTACK_OR_SEARCH if one_row_each else _ATTACK


def _takes(function: Callable, name: str) -> bool:
    return name in inspect.signature(function).parameters
