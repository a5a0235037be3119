"""Theory stands apart: neither JAX nor the simulation in it, and none of it in the simulation."""

import ast
import pathlib

import pytest

import fedjax_priv

ROOT = pathlib.Path(fedjax_priv.__file__).parent
ALLOWED = (
    "numpy", "scipy", "dp_accounting", "collections", "functools", "math", "typing", "fedjax_priv.theory",
    "fedjax_priv._lazy",
)  # fmt: skip
FRONT_DOOR = pathlib.Path("__init__.py")
FILES = sorted(file.relative_to(ROOT) for file in ROOT.rglob("*.py"))


def imported(text):
    """Full names of all modules, and of names imported from `fedjax_priv`, that a file imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def within(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("file", [f for f in FILES if "theory" in f.parts], ids=str)
def test_theory_imports_numpy_scipy_dp_accounting_and_itself(file):
    assert [name for name in imported((ROOT / file).read_text()) if not within(name, ALLOWED)] == []


def test_the_simulation_imports_no_theory():
    """The ledger and the audit put theory to a run; the simulation imports neither (tests/test_imports.py).

    The package's front door names every room, `theory` too, and loads none of them before it is used.
    """
    for file in FILES:
        if file != FRONT_DOOR and not {"theory", "ledger", "audit"} & set(file.parts):
            assert not any(within(name, ["fedjax_priv.theory"]) for name in imported((ROOT / file).read_text())), file


def test_imports_are_seen_however_they_are_written():
    text = "import fedjax_priv.theory.x\nfrom fedjax_priv import theory\ndef f():\n    from jax import numpy"
    assert list(imported(text)) == ["fedjax_priv.theory.x", "fedjax_priv.theory", "jax.numpy"]
