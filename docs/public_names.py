"""What a package exports is documented under the package's name, also where a module of it has the same name."""

from collections.abc import Iterator
from typing import Any

import griffe


class PublicNames(griffe.Extension):
    """`fedjax_priv.aggregators.krum` is the function, as it is in Python, and not the module it is written in."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Put exported objects where they are imported to, once all are found."""
        for package, name, target in list(exported(pkg, loader.modules_collection)):
            package.members[name] = griffe.Alias(name, target, parent=package)


def exported(package: griffe.Module, known: griffe.ModulesCollection) -> Iterator[tuple]:
    """Package, name and object of what it and the packages inside export and do not define themselves."""
    for name in map(str, package.exports or ()):
        if name in package.imports and not (target := known[package.imports[name]]).is_module:
            yield package, name, target
    for inside in package.modules.values():
        if not inside.is_alias:
            yield from exported(inside, known)
