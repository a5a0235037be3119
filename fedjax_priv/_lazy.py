"""Names of a package that are imported when they are first used, as SPEC 1 of Scientific Python proposes.

The package imports its names under `if TYPE_CHECKING`, where type checkers and the reference read them, and otherwise
gets them from here:

    if TYPE_CHECKING:
        from fedjax_priv.layers.clipping import clip
    else:
        __getattr__, __dir__ = lazy_names(__name__)

`import fedjax_priv` then takes hardly longer than `import jax`, and a program loads only the parts that it uses.
"""

import ast
import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, from the imports under its `if TYPE_CHECKING`."""
    module = sys.modules[package]
    origins = functools.cache(lambda: _origins(pkgutil.get_data(package, "__init__.py") or b""))

    def __getattr__(name: str) -> Any:
        if name not in origins():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        origin = origins()[name]
        whole = f"{package}.{name}"
        found = importlib.import_module(whole) if origin == package else getattr(importlib.import_module(origin), name)
        setattr(module, name, found)
        return found

    return __getattr__, lambda: sorted({*vars(module), *origins()})


def _origins(source: bytes) -> dict[str, str]:
    """The module that each name is imported from."""
    guarded = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in guarded for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}
