"""What a system says to an argument that it does not have."""

import difflib
import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, ParamSpec

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from fedjax_priv.base import Algorithm

P = ParamSpec("P")

ELSEWHERE = {
    "aggregate": "systems.robust_fedavg and systems.compose take a rule",
    "attack": "systems.robust_fedavg and systems.compose take an attack",
    "channel": "systems.compose takes a channel, systems.wireless a fading",
    "layers": "systems.compose and engine.federated_round take layers",
}
"""Where to go with an argument that most systems set themselves."""


def of_known_arguments(system: Callable[P, Algorithm]) -> Callable[P, Algorithm]:
    """The same system, which names an argument that it does not have and those that it has.

    It gets Python's numbers for known scalars of NumPy and JAX, some of which count as no integer, are not equal to a
    truth value or cannot be hashed.

    Raises:
      TypeError: by the system, for an argument that neither it nor a function that it hands arguments to lists.
    """
    known = _keywords(system)

    @functools.wraps(system)
    def checked(*args: Any, **kwargs: Any) -> Algorithm:
        for name in kwargs:
            if name not in known:
                raise TypeError(_unknown(system.__name__, name, known))
        return system(*args, **{name: _plain(value) for name, value in kwargs.items()})

    return checked


def _plain(value: Any) -> Any:
    """A known scalar, or array of one number without axes, as Python's own; a key is no number."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tracer) or not isinstance(value, np.ndarray | Array) or value.ndim:
        return value
    return value.item() if jnp.issubdtype(value.dtype, jnp.number) or value.dtype == bool else value


def _keywords(system: Callable) -> list[str]:
    parameters = inspect.signature(system).parameters.values()
    own = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    handed = [p.annotation.__metadata__ for p in parameters if p.kind is p.VAR_KEYWORD]
    return own + [name for on in itertools.chain(*handed) for name in on.names]


def _unknown(system: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, [*known, *ELSEWHERE], n=1)
    meant = f" (did you mean {near[0]}?)" if near and near[0] in known else ""
    where = f" ({ELSEWHERE[near[0]]})" if near and not meant else ""
    return f"{system} has no argument {name}{meant}{where}; it takes {', '.join(known)}"
