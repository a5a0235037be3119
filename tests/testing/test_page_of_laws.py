"""The page of laws says what is checked: each law by number and name, and by which checks."""

import ast
import inspect
import pathlib
import re

import pytest

from fedjax_priv import testing
from fedjax_priv.testing import LAWS, aggregator_laws, attack_laws, channel_laws, layer_laws, system_laws

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "laws.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
MODULES = (aggregator_laws, attack_laws, channel_laws, layer_laws, system_laws)


def called(function, functions):
    """The function, and those of its module that it names, and so on."""
    found, left = set(), [function]
    while left:
        name = left.pop()
        found.add(name)
        named = {node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
        left += named & set(functions) - found
    return found


def numbers(function):
    """Of the laws that a function checks itself."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) in ("law", "require")}


def checked():
    """Check -> the laws that it checks, itself or by others; without the checks that `check_layer` is made of."""
    laws, within = {}, set()
    for module in MODULES:
        body = ast.parse(inspect.getsource(module)).body
        functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
        for name in [name for name in functions if name.startswith("check_")]:
            needed = called(name, functions)
            laws[name] = set().union(*(numbers(functions[other]) for other in needed))
            within |= needed - {name}
    return {name: found for name, found in laws.items() if name not in within}


CHECKED = checked()


def test_the_page_has_each_law_by_number_and_name():
    assert {int(number): name for number, name, _ in ROWS} == LAWS and list(LAWS) == list(range(1, len(LAWS) + 1))


@pytest.mark.parametrize(("number", "name", "by"), ROWS)
def test_the_page_says_which_checks_look_at_a_law(number, name, by):
    said = set(re.findall(r"check_\w+", by))
    said = set(CHECKED) - said if by.startswith("all") else said
    assert said == {check for check, found in CHECKED.items() if int(number) in found}


@pytest.mark.parametrize("check", sorted(set(CHECKED) - {"check_layer"}))
def test_a_check_says_its_laws(check):
    said = re.match(r"Laws? ([\d, and]+)", inspect.getdoc(getattr(testing, check)) or "")
    assert said and {int(number) for number in re.findall(r"\d+", said[1])} == CHECKED[check]
