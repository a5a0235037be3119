import contextlib
import io
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import pytest
import tyro
from jaxtyping import Array

from fedjax_priv.cli.options import REQUIRED, Choice, Option, form, options_of, pick, values_of


def made_up(
    local: Any,
    size: int,
    *,
    rate: float | Array = 0.5,
    kind: Literal["a", "b"] = "a",
    limit: int | None = None,
    exact: bool = True,
    part: Choice | None = None,
    **rest: Any,
):
    """A function.

    Args:
      local: cannot be given.
      size: how large,
        over two lines.
      rate: how fast.
      kind: which.
      part: cannot be given.
      **rest: more.

    Returns:
      rate: not an argument.
    """


class Fields(NamedTuple):
    """A tuple.

    Args:
      depth: how deep.
    """

    depth: int
    name: str = "x"


def test_options_are_the_parameters_a_command_line_can_give():
    assert options_of(made_up) == {
        "size": Option(int, REQUIRED, "how large, over two lines."),
        "rate": Option(float, 0.5, "how fast."),
        "kind": Option(Literal["a", "b"], "a", "which."),
        "limit": Option(int | None, None, ""),
        "exact": Option(bool, True, ""),
    }
    assert options_of(Fields) == {"depth": Option(int, REQUIRED, "how deep."), "name": Option(str, "x", "")}
    assert options_of(lambda x: x) == {}


def test_options_can_be_left_out_and_have_other_defaults():
    found = options_of(made_up, without=["rate", "kind", "exact"], defaults={"size": 3})
    assert {name: option.default for name, option in found.items()} == {"size": 3, "limit": None}
    assert pick(found, {"size": 1, "limit": 2, "other": 3}) == {"size": 1, "limit": 2}


def dirichlet(*, concentration: float, min_size: int = 1):
    """Dirichlet.

    Args:
      concentration: of the draw.
    """


def shards(*, num_shards: Sequence[int] = (3, 4)):
    """Shards."""


def iid():
    """None."""


CHOICE = Choice("partition", {"iid": iid, "dirichlet": dirichlet, "skew": dirichlet, "shards": shards})


def test_a_choice_has_the_options_of_all_functions_and_says_whose_they_are():
    assert CHOICE.options("iid", "how.") == {
        "partition": Option(Literal["iid", "dirichlet", "skew", "shards"], "iid", "how."),
        "concentration": Option(float | None, None, "dirichlet, skew: of the draw."),
        "min_size": Option(int | None, None, "dirichlet, skew: (default: 1)"),
        "num_shards": Option(tuple[int, ...] | None, None, "shards: (default: 3 4)"),
    }


def test_a_choice_says_once_what_is_the_same_for_several_functions():
    def other(*, min_size: int = 2):
        pass

    said = Choice("kind", {"skew": dirichlet, "other": other, "third": other}).options(None, "which.")["min_size"]
    assert said == Option(int | None, None, "skew: (default: 1) other, third: (default: 2)")


def test_no_function_need_be_chosen_and_a_prefix_keeps_their_options_apart():
    choice = Choice("skew", {"dirichlet": dirichlet, "iid": iid}, prefix="skew_")
    options = choice.options(None, "which.")
    assert options["skew"] == Option(Literal["dirichlet", "iid"] | None, None, "which.")
    assert [*options] == ["skew", "skew_concentration", "skew_min_size"]
    nothing = dict.fromkeys(options)
    assert choice.arguments(nothing) == {}
    assert choice.arguments({**nothing, "skew": "dirichlet", "skew_concentration": 0.5}) == {"concentration": 0.5}
    with pytest.raises(ValueError, match="^skew_min_size is for skew dirichlet, got it without one$"):
        choice.arguments({**nothing, "skew_min_size": 1})


def arguments(chosen, **given):
    return CHOICE.arguments(dict.fromkeys(CHOICE.options("iid", "")) | {"partition": chosen} | given)


def test_a_choice_has_the_arguments_that_were_given():
    assert arguments("iid") == {}
    assert arguments("skew", concentration=0.5) == {"concentration": 0.5}
    assert arguments("dirichlet", concentration=0.5, min_size=0) == {"concentration": 0.5, "min_size": 0}


def test_a_choice_refuses_what_is_missing_and_what_would_be_ignored():
    with pytest.raises(ValueError, match="^concentration must be given with partition dirichlet$"):
        arguments("dirichlet")
    with pytest.raises(ValueError, match="^min_size is for partition dirichlet or skew, got it with iid$"):
        arguments("iid", min_size=1)


GROUPS = {"first": options_of(made_up), "second": options_of(Fields) | {"size": Option(str, "no", "")}, "none": {}}


def fill(*arguments):
    filled = form("thing", "What it is for.", GROUPS)
    return tyro.cli(filled, args=arguments, config=(tyro.conf.OmitArgPrefixes,))


def test_a_form_is_filled_from_the_command_line():
    filled = fill("--size", "3", "--depth", "4", "--no-exact", "--kind", "b")
    assert type(filled).__name__ == "thing"
    assert values_of(filled) == {
        "size": 3, "rate": 0.5, "kind": "b", "limit": None, "exact": False, "depth": 4, "name": "x",
    }  # fmt: skip
    assert values_of(fill("--size", "3", "--depth", "4")) == values_of(fill("--depth", "4", "--size", "3"))


@pytest.mark.parametrize("arguments", [[], ["--size", "3"], ["--size", "x", "--depth", "4"], ["--rest", "3"]])
def test_a_form_that_is_filled_wrongly_is_an_error(arguments):
    with contextlib.redirect_stderr(io.StringIO()) as shown, pytest.raises(SystemExit) as stopped:
        fill(*arguments)
    assert stopped.value.code == 2
    assert shown.getvalue()


def test_the_help_of_a_form_is_that_of_the_functions(capsys):
    with pytest.raises(SystemExit):
        fill("--help")
    shown = capsys.readouterr().out
    for text in ("What it is for.", "first options", "second options", "how large, over two lines.", "--depth INT"):
        assert text in shown
    assert shown.count("--size") == 1
