"""How many runs a wave has."""

import itertools

from fedjax_priv.runs.waves import _even


def test_waves_are_even():
    assert _even(64, 64, 2) == 64 and _even(10, 8, 1) == 5 and _even(10, 8, 4) == 8 and _even(3, 1, 8) == 8


def test_waves_are_no_larger_than_asked_and_as_few_as_then_possible():
    """Against all multiples of the devices up to that size; a device has at least one run."""
    for most, size, devices in itertools.product(range(1, 13), range(1, 20), range(1, 5)):
        allowed = range(devices, max(size, devices) + 1, devices)
        fewest = min(-(-most // wave) for wave in allowed)
        assert _even(most, size, devices) == min(wave for wave in allowed if -(-most // wave) == fewest)
