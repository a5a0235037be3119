"""The registry of attacks: every public one, by the name a user chooses it with."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fedjax_priv import attacks

ATTACKS: Mapping[str, Callable[..., attacks.AnyAttack]] = MappingProxyType({each.__name__: each for each in (
    attacks.sign_flip, attacks.foe, attacks.alie, attacks.mimic, attacks.gaussian, attacks.infinite,
    attacks.min_max, attacks.min_sum, attacks.orthogonal_perturbation, attacks.relocated_perturbation,
    attacks.model_replacement, attacks.optimal_foe, attacks.optimal_alie,
)})  # fmt: skip
SEARCHED = frozenset({"optimal_foe", "optimal_alie"})
"""Attacks that try out the server's rule, their first argument, on the clients' updates, so a row must be a client."""
COORDINATE_ATTACKS: Mapping[str, Callable[..., attacks.CoordinateAttack]] = MappingProxyType(
    {each.__name__: each for each in (attacks.same_set, attacks.random_set, attacks.smallest)}
)
FIELD_ATTACKS: Mapping[str, Callable[..., attacks.FieldAttack]] = MappingProxyType(
    {each.__name__: each for each in (attacks.sum_replacement, attacks.random_elements)}
)
