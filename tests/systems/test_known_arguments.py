"""An argument that a system does not have is named, with what was meant or where to go."""

import inspect
import re

import pytest

from fedjax_priv import systems
from fedjax_priv.systems._known_arguments import ELSEWHERE


@pytest.mark.parametrize("name", systems.__all__)
def test_every_system_names_what_it_does_not_have(name):
    with pytest.raises(TypeError, match=f"^{name} has no argument xyzzy; it takes "):
        getattr(systems, name)(None, xyzzy=1)


@pytest.mark.parametrize(
    ("system", "argument", "words"),
    [
        (
            "fedavg",
            "aggregate",
            "has no argument aggregate (systems.robust_fedavg and systems.compose take a rule); it",
        ),
        ("fedavg", "aggregator", "has no argument aggregator (systems.robust_fedavg and systems.compose take a rule)"),
        ("secagg", "thresold", "has no argument thresold (did you mean threshold?); it takes local, num_clients, "),
        ("fedavg", "neighbours", "has no argument neighbours; it takes local, cohort_size, dropout, exact, server, "),
    ],
)
def test_what_was_meant_and_where_to_go(system, argument, words):
    with pytest.raises(TypeError, match=re.escape(f"{system} {words}")):
        getattr(systems, system)(None, **{argument: 1})


def test_the_systems_it_sends_to_have_the_argument():
    for name, where in ELSEWHERE.items():
        for system in re.findall(r"systems\.(\w+)", where):
            parameters = inspect.signature(getattr(systems, system)).parameters
            assert name in parameters or name in ("layers", "channel"), (name, system)
