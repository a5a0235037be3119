"""Every public function has an example in its docstring, the examples print what they say, and errors are announced.

An example sees `jax`, `jnp`, `np`, `fedjax_priv` and all public names of the function's own package.
"""

import doctest
import importlib
import inspect
import pathlib
import re
import types
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_priv

ROOT = pathlib.Path(fedjax_priv.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for pattern in ("**/__init__.py", "theory/[!_]*.py", "keys.py", "losses.py", "metrics.py")
    for path in ROOT.glob(pattern)
    if path.name != "__init__.py" or "__all__ = [" in path.read_text()
)
# Packages in which some functions still have none. Nobody adds to this list.
WITHOUT = {
    "fedjax_priv",
    "fedjax_priv.analysis",
    "fedjax_priv.audit",
    "fedjax_priv.leakage",
    "fedjax_priv.ledger",
    "fedjax_priv.testing",
}
NOT_RUN = {
    "adult", "cifar10", "mnist",  # read files that are not here
    "curves", "epsilon_of_sweep", "heat_map", "live_curve",  # go on from a run
    "from_torch",  # needs PyTorch
}  # fmt: skip
TELLS_FOR_ALL = "fedjax_priv.theory"
"""The docstring of this package says when its functions raise."""


def functions(module: types.ModuleType) -> dict[str, Callable]:
    """What `__all__` names; without it, what the module defines."""
    chosen = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    found = {name: getattr(module, name) for name in chosen}
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(inspect.unwrap(value))
        and (hasattr(module, "__all__") or value.__module__ == module.__name__)
    }


def without(module: types.ModuleType) -> set[str]:
    return {
        name for name, of in functions(module).items() if not doctest.DocTestParser().get_examples(of.__doc__ or "")
    }


def wrong(module: types.ModuleType) -> str:
    """What examples print that differs from what they say; empty if nothing does."""
    names = {"jax": jax, "jnp": jnp, "np": np, "fedjax_priv": fedjax_priv}
    names |= {name: getattr(module, name) for name in [*functions(module), *getattr(module, "__all__", vars(module))]}
    reports: list[str] = []
    for name, function in functions(module).items():
        example = doctest.DocTestParser().get_doctest(function.__doc__ or "", names, name, None, 0)
        doctest.DocTestRunner(verbose=False).run(example, out=reports.append)
    return "".join(reports)


def skipped(module: types.ModuleType) -> set[str]:
    return {name for name, of in functions(module).items() if "doctest: +SKIP" in (of.__doc__ or "")}


def silent(module: types.ModuleType) -> set[str]:
    """Functions that check their arguments, or raise, and whose docstring says nothing of errors."""
    checks = re.compile(r"\b_validate\.|\braise \w+Error\b")
    found = {name: inspect.unwrap(of) for name, of in functions(module).items()}
    return {
        name
        for name, of in found.items()
        if checks.search(inspect.getsource(of)) and not re.search("raises|errors", of.__doc__ or "", re.IGNORECASE)
    }


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith(TELLS_FOR_ALL)])
def test_errors_are_announced(name):
    assert not silent(importlib.import_module(name))


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    assert not wrong(module)
    assert skipped(module) <= NOT_RUN
    assert bool(without(module)) == (name in WITHOUT), without(module)


def test_a_wrong_result_an_error_and_a_missing_example_are_found():
    def right(x):
        """Examples:
        >>> right(double)
        4
        """
        return 2 * x

    def bare(x):
        """Nothing."""
        if x is None:
            raise ValueError("x must be a number, got None")

    module = types.ModuleType("example")
    vars(module).update(__all__=["right", "bare", "double"], right=right, bare=bare, double=2)
    assert not wrong(module) and without(module) == {"bare"}
    assert silent(module) == {"bare"}
    vars(module).update(double=3)
    assert "Expected:\n    4\nGot:\n    6" in wrong(module)
    vars(module).update(double=None)
    assert "TypeError" in wrong(module)
