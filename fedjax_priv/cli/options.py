"""Options of a command from the signatures and docstrings of the functions they are for."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from fedjax_priv.cli.help_from_docstrings import parameter_help, with_flags
from fedjax_priv.cli.option_types import command_line_type, placeholder

REQUIRED = inspect.Parameter.empty


class Option(NamedTuple):
    """One option."""

    type: Any
    default: Any  # or `REQUIRED`
    help: str


Options = Mapping[str, Option]
"""By name of the parameter."""


def options_of(
    function: Callable,
    *,
    without: Iterable[str] = (),
    defaults: Mapping[str, Any] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Option]:
    """The parameters of a function that a command line can give, with the help of its Google docstring.

    Args:
      function: annotated; a function or a NamedTuple.
      without: parameters to leave out.
      defaults: other defaults than the function's own.
      about: other help than that of the docstring.

    Returns:
      Options in the order of the signature, then those it hands on. Parameters of types that have no
      `command_line_type` are left out.
    """
    without, own, found = {*without}, _own_options(function), {}
    for name, option in own.items():
        if name not in without:
            found[name] = Option(option.type, defaults.get(name, option.default), about.get(name, option.help))
    for name, other in handed_on(function).items():
        if name not in without and name in (others := _all_options(other)):
            found[name] = others[name]
    return found


def takes(function: Callable, name: str) -> bool:
    """Whether a function has a parameter of this name, or hands such an argument on."""
    return name in inspect.signature(function).parameters or name in handed_on(function)


@functools.cache
def handed_on(function: Callable) -> Mapping[str, Callable]:
    """Names of arguments that a function takes as `**how` and hands to others, as the annotation of `**how` says."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    rest = [parameter.annotation for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD]
    to_whom = {name: to for how in rest for to, names in getattr(how, "__metadata__", ()) for name in names}
    return MappingProxyType(to_whom)


@functools.cache
def _own_options(function: Callable) -> Options:
    """Those of its signature alone."""
    help_of, found = parameter_help(function), {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = command_line_type(parameter.annotation)
        if kind is not None:
            found[name] = Option(kind, parameter.default, help_of.get(name, ""))
    return MappingProxyType(found)


@functools.cache
def _all_options(function: Callable) -> Options:
    return MappingProxyType(options_of(function))


def pick(options: Options, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of some options, as arguments of their function."""
    return {name: values[name] for name in options}


class Choice:
    """One of several functions, and the options that only some of them have."""

    def __init__(
        self,
        name: str,
        functions: Mapping[str, Callable],
        *,
        without: Iterable[str] = (),
        prefix: str = "",
        about: Mapping[str, str] = MappingProxyType({}),
    ):
        """`name` is the option that chooses, `functions` are by its values; `without` and `about` as of `options_of`.

        `prefix` begins the names of the functions' options.
        """
        self.name, self._prefix = name, prefix
        self._options = {
            chosen: _with_prefix(prefix, options_of(function, without=without, about=about))
            for chosen, function in functions.items()
        }
        self._owners = {
            name: [chosen for chosen, options in self._options.items() if name in options]
            for name in dict.fromkeys(name for options in self._options.values() for name in options)
        }

    def options(self, default: str | None, about: str) -> dict[str, Option]:
        """The option that chooses, then those of all functions, which are None if not given.

        With None for `default`, none of the functions need be chosen.
        """
        names: Any = Literal[tuple(self._options)]
        chooser = Option(names | None if default is None else names, default, about)
        return {self.name: chooser} | {name: self._optional(name) for name in self._owners}

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those arguments of the chosen function that were given.

        Raises:
          ValueError: a required argument is missing, or one was given that only other functions have.
        """
        chosen = values[self.name]
        own = self._options[chosen] if chosen is not None else {}
        given = {name: values[name] for name in self._owners if values[name] is not None}
        if foreign := given.keys() - own.keys():
            name = min(foreign)
            got = "without one" if chosen is None else f"with {chosen}"
            raise ValueError(f"{name} is for {self.name} {' or '.join(self._owners[name])}, got it {got}")
        for name, option in own.items():
            if option.default is REQUIRED and name not in given:
                raise ValueError(f"{name} must be given with {self.name} {chosen}")
        return {name.removeprefix(self._prefix): value for name, value in given.items()}

    def _optional(self, name: str) -> Option:
        """Its help names the functions it is for; those of which the same is said stand together."""
        said: dict[str, list[str]] = {}
        for chosen in self._owners[name]:
            _, default, about = self._options[chosen][name]
            shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
            words = "" if default in (REQUIRED, None) else f" (default: {shown})"
            said.setdefault(about + words, []).append(chosen)
        about = [f"{', '.join(owners)}: {words.strip()}" for words, owners in said.items()]
        return Option(self._options[self._owners[name][0]][name].type | None, None, " ".join(about))


def _with_prefix(prefix: str, options: Options) -> dict[str, Option]:
    own = lambda quoted: f"`{prefix}{quoted[1]}`" if quoted[1] in options else quoted[0]
    return {prefix + name: each._replace(help=re.sub(r"`(\w+)`", own, each.help)) for name, each in options.items()}


def form(name: str, about: str, parts: Mapping[str, Options]) -> type:
    """A dataclass of dataclasses that tyro fills from the command line.

    Args:
      name: of the class.
      about: help of the command.
      parts: options under their heading in the help; one that several parts have is in the first of them.
    """
    names = {name for options in parts.values() for name in options}
    taken: set[str] = set()
    fields = []
    for heading, options in parts.items():
        mine = {name: option for name, option in options.items() if name not in taken}
        fields.append((heading, _part(heading, mine, names)))
        taken |= mine.keys()
    return dataclasses.make_dataclass(name, fields, namespace={"__doc__": about})


def values_of(filled: Any) -> dict[str, Any]:
    """Values by name, from a form that was filled."""
    parts = (getattr(filled, field.name) for field in dataclasses.fields(filled))
    return {field.name: getattr(part, field.name) for part in parts for field in dataclasses.fields(part)}


def _part(heading: str, options: Options, names: Collection[str]) -> type:
    fields = []
    for name, (kind, default, about) in options.items():
        flag = ("--" if default else "--no-") + name.replace("_", "-")
        hint = "" if default is None else f"(default: {flag})" if kind is bool else None  # not as Python writes it
        shown = tyro.conf.arg(help=with_flags(about, names), metavar=placeholder(kind), help_behavior_hint=hint)
        default = dataclasses.field() if default is REQUIRED else dataclasses.field(default=default)
        fields.append((name, Annotated[kind, shown], default))
    return dataclasses.make_dataclass(heading, fields, kw_only=True, namespace={"__doc__": ""})
