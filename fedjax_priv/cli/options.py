"""Options of a command from the signatures and docstrings of the functions they are for."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import docstring_parser
import tyro

from fedjax_priv.cli.option_types import command_line_type

REQUIRED = inspect.Parameter.empty


class Option(NamedTuple):
    """One option."""

    type: Any
    default: Any  # or `REQUIRED`
    help: str


Options = Mapping[str, Option]
"""By name of the parameter."""


def options_of(
    function: Callable, *, without: Iterable[str] = (), defaults: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Option]:
    """The parameters of a function that a command line can give, with the help of its Google docstring.

    Args:
      function: annotated; a function or a NamedTuple.
      without: parameters to leave out.
      defaults: other defaults than the function's own.

    Returns:
      Options in the order of the signature, then those it hands on. Parameters of types that have no
      `command_line_type` are left out.
    """
    described = docstring_parser.parse(function.__doc__ or "", docstring_parser.DocstringStyle.GOOGLE).params
    about = {param.arg_name: " ".join((param.description or "").split()) for param in described}
    without, found = {*without}, {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = command_line_type(parameter.annotation)
        if kind is not None and name not in without:
            found[name] = Option(kind, defaults.get(name, parameter.default), about.get(name, ""))
    for name, other in handed_on(function).items():
        if name not in without and name in (others := options_of(other)):
            found[name] = others[name]
    return found


def takes(function: Callable, name: str) -> bool:
    """Whether a function has a parameter of this name, or hands such an argument on."""
    return name in inspect.signature(function).parameters or name in handed_on(function)


def handed_on(function: Callable) -> dict[str, Callable]:
    """Names of arguments that a function takes as `**how` and hands to others, as the annotation of `**how` says."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    rest = [parameter.annotation for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD]
    return {name: to for how in rest for to, names in getattr(how, "__metadata__", ()) for name in names}


def pick(options: Options, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of some options, as arguments of their function."""
    return {name: values[name] for name in options}


class Choice:
    """One of several functions, and the options that only some of them have."""

    def __init__(self, name: str, functions: Mapping[str, Callable], *, without: Iterable[str] = (), prefix: str = ""):
        """`name` is the option that chooses, `functions` are by its values; see `options_of`.

        `prefix` begins the names of the functions' options.
        """
        self.name, self._prefix = name, prefix
        self._options = {
            chosen: {prefix + name: option for name, option in options_of(function, without=without).items()}
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
          ValueError: one of its own is missing, or one was given that only others have.
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
        """What is said of it, once for all functions of which the same is said."""
        said: dict[tuple[str, str], list[str]] = {}
        for chosen in self._owners[name]:
            _, default, about = self._options[chosen][name]
            shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
            words = "" if default in (REQUIRED, None) else f"; {shown} if not given"
            said.setdefault((about, words), []).append(chosen)
        about = [f"{about} [{', '.join(owners)}{words}]".strip() for (about, words), owners in said.items()]
        return Option(self._options[self._owners[name][0]][name].type | None, None, " ".join(about))


def form(name: str, about: str, groups: Mapping[str, Options]) -> type:
    """A dataclass of dataclasses that tyro fills from the command line.

    Args:
      name: of the class.
      about: help of the command.
      groups: options under their heading in the help; one that groups share is in the first of them.
    """
    taken: set[str] = set()
    fields = []
    for heading, options in groups.items():
        mine = {name: option for name, option in options.items() if name not in taken}
        fields.append((heading, _group(heading, mine)))
        taken |= mine.keys()
    return dataclasses.make_dataclass(name, fields, namespace={"__doc__": about})


def values_of(filled: Any) -> dict[str, Any]:
    """Values by name, from a form that was filled."""
    groups = (getattr(filled, field.name) for field in dataclasses.fields(filled))
    return {field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)}


def _group(heading: str, options: Options) -> type:
    fields = []
    for name, (kind, default, about) in options.items():
        default = dataclasses.field() if default is REQUIRED else dataclasses.field(default=default)
        fields.append((name, Annotated[kind, tyro.conf.arg(help=about)], default))
    return dataclasses.make_dataclass(heading, fields, kw_only=True, namespace={"__doc__": ""})
