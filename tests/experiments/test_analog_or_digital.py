"""The card of analog, one-bit and digital uploads: verdicts follow from data, and other data turn them."""

import numpy as np
import pytest
import xarray as xr

from experiments.wireless import analog_or_digital as card
from experiments.wireless.quantized_mean import D, Measured, digital_parts

CONFIG = card.Config(users=20, energy=10.0)
LINES = [card.ANALOG, card.VOTE, card.DIGITAL, card.PATIENT]
ANALOG, BOUND = Measured(np.zeros(2), np.zeros(2), 20, 10.0).closed


def result(ends=(0.9, 0.88, 0.6, 0.9), uses=(1, 1, 1, 70), white=ANALOG, energy=70_000.0, swing=0.01):
    """Two seeds, two evaluations, and measured errors around `white`."""
    accuracy = np.array(ends)[:, None, None] + np.array([0.0, 1e-3])[:, None] - np.array([0.3, 0.0])
    draws = white * (1 + swing * np.tile([-1.0, 1.0], 50)), np.tile([3.0, 3.5], 50)
    variables = {
        "accuracy": (("line", "seed", "iteration"), accuracy), "uses": ("line", 7850.0 * np.array(uses)),
        "energy": ("line", np.full(4, energy)), "joules": ("line", np.full(4, 1e-6)),
        "seconds": ("line", np.ones(4)), "failed": ("line", np.zeros(4)),
        **Measured(*draws, 20, 10.0).to_variables(),
    }  # fmt: skip
    attrs = {"num_params": 7850, "white_users": 20, "white_energy": 10.0}
    return xr.Dataset(variables, {"line": LINES, "iteration": [1, 2]}, attrs)


def verdicts(**other):
    found = card.claims(CONFIG, result(**other))
    return {claim.id: None if claim.verdict is None else bool(claim.verdict) for claim in found}


def test_verdicts_and_their_controls():
    assert set(verdicts().values()) == {True}
    assert verdicts(ends=(0.5, 0.88, 0.6, 0.5))["analog-ahead"] is False
    assert verdicts(ends=(0.9, 0.5, 0.6, 0.9))["vote-ahead"] is False
    assert verdicts(ends=(0.9, 0.88, 0.6, 0.8))["patience"] is False
    assert verdicts(uses=(1, 1, 1.1, 70))["equal"] is False and verdicts(energy=80_000.0)["equal"] is False
    assert verdicts(white=1.1 * ANALOG)["distortions"] is False
    assert verdicts(swing=0.5)["distortions"] is None, "19 users would be as near"


def test_digital_uploads_use_the_bits_there_are():
    """1,501 bits of a user of 20 are 734 signs and zeros; 91 times the uses carry seven levels of all."""
    few, many = digital_parts(7850, 20, 10.0), digital_parts(7850, 20, 10.0, card.LEVEL)
    assert (few["k"], few["levels"]) == (734, 1) and few["snr_db"] == pytest.approx(10 * np.log10(200))
    assert "k" not in many and many["levels"] == 3
    assert card.crossing(20, 10.0) == pytest.approx(card.LEVEL, abs=5e-4)
    assert (ANALOG, round(BOUND, 7)) == (0.00025, 0.0383540) and D > 100


def test_a_picture_has_three_panels():
    figure = card.judge(CONFIG, result()).figure
    assert len(figure.axes) == 3
