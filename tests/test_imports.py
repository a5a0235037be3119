"""The rooms of the house: a file imports from its own room and from rooms above it, and no module is hidden."""

import ast
import importlib
import os
import pathlib
import pkgutil
import re
import types
from collections import Counter

import pytest

import fedjax_priv
from children import Child, count_devices, import_again

ROOT = pathlib.Path(fedjax_priv.__file__).parent
PICTURE = [line.split("  ")[2] for line in fedjax_priv.__doc__.splitlines() if line.startswith("    ")]
"""The rooms of each line of the package's docstring."""
BASE = {*PICTURE[0].split(), "_devices", "_interrupt", "_lazy", "_validate"}
LEVEL = dict.fromkeys(BASE, 0) | {room: level for level, line in enumerate(PICTURE) for room in line.split()}
PACKAGES = [
    fedjax_priv.__name__,
    *(module.name for module in pkgutil.walk_packages(fedjax_priv.__path__, "fedjax_priv.") if module.ispkg),
]


def imports_of(file):
    for node in ast.walk(ast.parse(file.read_text())):
        assert not getattr(node, "level", 0), f"{file} has a relative import, which names no room"
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedjax_priv":
            names = [node.module.split(".")[1]] if "." in node.module else [alias.name for alias in node.names]
            yield from names
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("fedjax_priv."))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_pages_show_the_same_picture(page):
    picture = [line for line in fedjax_priv.__doc__.splitlines() if line.startswith("    ")]
    assert "\n".join(picture) in (ROOT.parent / page).read_text()


def test_the_page_of_rooms_has_a_line_for_each():
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    private = {name for name in BASE if name.startswith("_")}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == LEVEL.keys() - private


@pytest.mark.parametrize("package", PACKAGES)
def test_a_list_of_modules_names_all_and_no_other(package):
    module = importlib.import_module(package)
    if re.search("^- `", module.__doc__, re.MULTILINE):
        inside = {name for _, name, _ in pkgutil.iter_modules(module.__path__)}
        assert {name for name in inside if not name.startswith("_")} <= set(
            re.findall(r"`(\w+)(?:/|\.\w+)*`", module.__doc__)
        )
        heads = " ".join(re.findall(r"^- ((?:`\w+/?`, )*`\w+/?`):", module.__doc__, re.MULTILINE))
        assert set(re.findall(r"`(\w+)/?`", heads)) <= inside


def test_rooms_import_from_rooms_above_them():
    assert len(BASE) <= 8 and max(Counter(" ".join(PICTURE).split()).values()) == 1
    files = [file for file in ROOT.rglob("*.py") if file not in (ROOT / "__init__.py", ROOT / "__main__.py")]
    room_of = {file: file.relative_to(ROOT).parts[0].removesuffix(".py") for file in files}
    assert set(room_of.values()) == LEVEL.keys()
    for file, room in room_of.items():
        for imported in imports_of(file):
            fine = imported == room or LEVEL[imported] < LEVEL[room] or {imported, room} <= BASE
            assert fine, f"{file.relative_to(ROOT)} imports {imported}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_hidden_by_a_name_of_its_package(package):
    """`import fedjax_priv.aggregators.x` gives the module x, not a function."""
    package = importlib.import_module(package)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
        assert isinstance(getattr(package, module.name), types.ModuleType), f"{package.__name__}.{module.name}"


def test_importing_starts_no_backend_and_leaves_a_choice_of_devices_alone():
    """One CPU device a core, unless the program has chosen."""
    assert Child(import_again, jax_num_cpu_devices=3).ended()[0] == "3\n"
    assert int(Child(count_devices).ended()[0]) == len(os.sched_getaffinity(0))
