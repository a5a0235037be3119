import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

import jax
import numpy as np
import pytest
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from fedjax_priv.base import Layer
from fedjax_priv.cli.option_types import command_line_type, parse
from helpers import refuses


@pytest.mark.parametrize(
    "kind",
    [int, float, bool, str, pathlib.Path, int | None, Literal["a", "b"], Literal[1, 2] | None, int | Literal["auto"]],
)
def test_what_a_command_line_can_give_stays_as_it_is(kind):
    assert command_line_type(kind) == kind


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (float | Array, float),
        (Union[Array, float, None], float | None),  # noqa: UP007
        (Optional[float | jax.Array], float | None),  # noqa: UP045
        (ArrayLike, float),
        (float | Float[Array, " n"], float),
        (float | np.ndarray, float),
        (int | np.ndarray | Array, int),
        (int | Array | None, int | None),
        (Sequence[int], tuple[int, ...]),
    ],
)
def test_a_number_that_can_be_an_array_is_a_number(annotation, kind):
    assert command_line_type(annotation) == kind


@pytest.mark.parametrize(
    "annotation",
    [
        Any, None, type(None), Array, Layer | None, Callable[[int], int], Sequence[Layer],
        Mapping[str, int], jax.sharding.Mesh | Literal["auto"] | None, str | os.PathLike, complex, object,
    ],
)  # fmt: skip
def test_what_a_command_line_cannot_give_is_no_option(annotation):
    assert command_line_type(annotation) is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "-3", -3),
        (float, "3", 3.0),
        (float | None, "1e-3", 0.001),
        (float | None, "None", None),
        (int | None, "none", None),
        (bool, "true", True),
        (bool, "False", False),
        (str, "3", "3"),
        (Literal["1", "b"], "1", "1"),
        (Literal[1, 2], "2", 2),
        (int | Literal["auto"], "auto", "auto"),
        (int | Literal["auto"], "4", 4),
        (int | float, "4", 4),
        (int | float, "4.5", 4.5),
    ],
)
def test_a_value_is_read_as_its_type(kind, text, value):
    found = parse("name", kind, text)
    assert found == value and type(found) is type(value)


test_a_text_that_is_no_value_is_refused = refuses(
    lambda kind, text: parse("name", kind, text),
    (int, "1.5", "name must be an integer, got '1.5'"),
    (float, "", "name must be a number, got ''"),
    (float | None, "x", "name must be none or a number, got 'x'"),
    (bool, "1", "name must be true or false, got '1'"),
    (Literal["a", "b"], "c", "name must be one of 'a', 'b', got 'c'"),
    (int | Literal["auto"], "car", "name must be an integer or one of 'auto', got 'car'"),
    whole=True,
)
