"""Parts against exact decimals: 0.29 of 100 are 29, which floats alone make 28."""

import math
from fractions import Fraction

import pytest

from fedjax_priv.engine.rounded_fractions import part_of


@pytest.mark.parametrize("number", [1, 3, 10, 100, 6_000, 4_902_090])
def test_parts_are_those_of_the_decimal_that_was_written(number):
    written = [f"0.{hundredths:02d}" for hundredths in range(100)] + ["1", "0.005", "0.0005"]
    assert [part_of(float(one), number) for one in written] == [math.floor(Fraction(one) * number) for one in written]


def test_floats_alone_lose_one():
    assert [math.floor(float(f"0.{n:02d}") * 100) for n in range(100)] != list(range(100))
