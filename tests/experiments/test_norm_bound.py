"""What proofs of norms keep: its claim says yes, no, and nothing where seeds or the control do not decide."""

import numpy as np
import pytest
import xarray as xr

from experiments.input_validation import norm_bound as card

CONFIG = card.Config(norms=(0.0, 0.5, 1.0, 2.0))
EVEN = np.array([0.0, 0.001, -0.001])


def keeps(without, proved):
    """The claim, of losses `[seed]` without proofs and with them above the bound."""
    ends = lambda lost: [0.9 - np.zeros_like(lost)] * 3 + [0.9 - np.asarray(lost)]
    axes = {"proofs": [False, True], "norm": list(CONFIG.norms), "seed": range(len(without))}
    accuracy = xr.DataArray([ends(without), ends(proved)], axes)
    rejected = xr.zeros_like(accuracy)
    result = xr.Dataset({"accuracy": accuracy, "attackers_rejected": rejected, "honest_rejected": rejected})
    return card.claims(CONFIG, result)[0].said


@pytest.mark.parametrize(
    ("without", "proved", "word"),
    [
        (0.4 + EVEN, 0.01 + EVEN, "holds"),
        (0.4 + EVEN, 0 * EVEN, "holds"),
        (0.4 + EVEN, 0.06 + EVEN, "does not hold"),
        (0.4 + EVEN, 0.01 + 40 * EVEN, "not decided"),
        ([0.4], [0.0], "not decided"),
        ([0.4], [0.4], "not decided"),
        (0.05 + EVEN, 0.01 + EVEN, "not testable here"),
        (0.4 + 400 * EVEN, 0.01 + EVEN, "not decided"),  # the attack costs 40 +- 99 points
    ],
)
def test_what_proofs_keep(without, proved, word):
    assert keeps(without, proved) == word
