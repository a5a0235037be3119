"""Student's interval, against printed quantiles and by coverage."""

import inspect

import numpy as np
import pytest

from fedjax_priv.analysis import half_width

PRINTED = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 7: 2.447, 10: 2.262}  # t at 95% for n runs


@pytest.mark.parametrize("number", PRINTED)
def test_half_widths_are_those_of_printed_quantiles(number):
    values = np.random.default_rng(number).normal(size=(number, 3))
    sd = np.sqrt(((values - values.mean(0)) ** 2).sum(0) / (number - 1))
    np.testing.assert_allclose(half_width(values), PRINTED[number] * sd / number**0.5, rtol=2e-4)
    np.testing.assert_allclose(half_width(values.T, 1), half_width(values))


def test_intervals_of_three_runs_hold_the_mean_as_often_as_they_say():
    """Two standard errors would hold it in 81.6% of cases."""
    values = np.random.default_rng(0).normal(3.0, 2.0, (3, 20_000))
    missed = np.mean(abs(values.mean(0) - 3.0) > half_width(values))
    assert abs(missed - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 20_000)
    assert abs(np.mean(abs(values.mean(0) - 3.0) > half_width(values, confidence=0.8)) - 0.2) < 0.015


def test_a_confidence_of_float32_costs_no_digits():
    """0.75 is the same number in both."""
    unchecked = inspect.unwrap(half_width)
    assert unchecked([0.1, 0.4], confidence=np.float32(0.75)) == half_width([0.1, 0.4], confidence=0.75)  # pyright: ignore[reportArgumentType]


def test_one_run_says_nothing_about_noise():
    assert half_width([0.5]) == np.inf and (half_width(np.zeros((1, 2))) == np.inf).all()
    with pytest.raises(ValueError, match="values must not be empty"):
        half_width([])
    with pytest.raises(ValueError, match="values must have an axis of runs, got the number 0.5"):
        half_width(0.5)
    for axis in (2, -3, None, 0.5):
        with pytest.raises(ValueError, match=rf"axis must be one of values, in \[-2, 2\), got {axis}"):
            inspect.unwrap(half_width)(np.zeros((2, 3)), axis)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="confidence must be > 0 and < 1, got 95"):
        half_width([0.0, 1.0], confidence=95)
    with pytest.raises(ValueError, match="confidence must be > 0 and < 1, got '0.9'"):
        inspect.unwrap(half_width)([0.0, 1.0], confidence="0.9")  # pyright: ignore[reportArgumentType]
