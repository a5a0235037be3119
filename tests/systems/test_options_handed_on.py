"""Docstrings name every option that a system hands on."""

import inspect
import re
from typing import Annotated, get_args, get_origin

import pytest

from fedjax_priv import systems
from fedjax_priv.systems._arguments import HandsOn

OF_ANOTHER_SYSTEM = {"dp_sgd", "f2ed"}
"""They take the arguments of a system whose docstring names them."""
REFUSED = {"scaffold": {"bind_model"}}
"""What a system cannot be given, though what it hands on to has it."""


def handed_on(system):
    """What `**how` is called, and all names that it takes."""
    (how,) = (one for one in inspect.signature(system).parameters.values() if one.kind is one.VAR_KEYWORD)
    assert get_origin(how.annotation) is Annotated
    taken = [one for one in get_args(how.annotation)[1:] if isinstance(one, HandsOn)]
    return how.name, {name for one in taken for name in one.names}


@pytest.mark.parametrize("name", sorted({*systems.__all__} - OF_ANOTHER_SYSTEM))
def test_every_option_is_named(name):
    called, names = handed_on(getattr(systems, name))
    entry = re.search(rf"^ *\*\*{called}:(.*?)\n\s*\n", getattr(systems, name).__doc__, re.DOTALL | re.MULTILINE)
    assert entry and {*re.findall(r"`(\w+)`", entry[1])} & names == names - REFUSED.get(name, set())
