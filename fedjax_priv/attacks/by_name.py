"""The registry of attacks: every public one, by the name a user chooses it with."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fedjax_priv import attacks

ATTACKS: Mapping[str, Callable[..., attacks.Attack]] = MappingProxyType(
    {
        "sign_flip": attacks.sign_flip,
        "foe": attacks.foe,
        "alie": attacks.alie,
        "mimic": attacks.mimic,
        "gaussian": attacks.gaussian,
        "infinite": attacks.infinite,
        "optimal_foe": attacks.optimal_foe,
        "optimal_alie": attacks.optimal_alie,
    }
)
SEARCHED = frozenset({"optimal_foe", "optimal_alie"})
"""Attacks that try out the server's rule, their first argument, on the clients' updates, so a row must be a client."""
COORDINATE_ATTACKS: Mapping[str, Callable[..., attacks.CoordinateAttack]] = MappingProxyType(
    {
        "same_set": attacks.same_set,
        "random_set": attacks.random_set,
        "smallest": attacks.smallest,
    }
)
