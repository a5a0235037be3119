"""Random rounds of secure sums, a thousand side by side: what is accepted is the plain sum, whatever went wrong."""

import json
import pathlib

import pytest

from experiments.benchmarks import random_rounds
from experiments.benchmarks.random_rounds import CHUNK, PROTOCOLS, play

COMMITTED = pathlib.Path(random_rounds.__file__).parents[1] / "results" / "random_rounds" / "random_rounds.json"

PLAYED = [name for name in PROTOCOLS if f"weighed {name}" not in PROTOCOLS and name != "thresholded"]
"""Those of thresholded masks are in test_thresholded_mask.py."""


@pytest.mark.parametrize("name", PLAYED)
def test_what_is_accepted_is_the_plain_sum(name):
    draws, found = play(name)
    taken, right = found.accepted, found.right
    assert right[taken].all(), "0 wrong"
    assert 0.2 * CHUNK < taken.sum() < 0.95 * CHUNK
    if PROTOCOLS[name].factor:  # an upload times 0 hides nobody
        assert ((draws.factor > 0) & draws.alive)[taken].sum(1).min() == PROTOCOLS[name].layer.sums.threshold
    lost = ~found.empty & ~taken & ~draws.touched  # controls: sums that are not accepted are mostly garbage
    assert right[lost].mean() < 0.2
    if draws.garbled:  # and garbled messages are found
        touched = draws.touched
        assert found.wrong_shares[touched].mean() > 0.1 and not found.wrong_shares[~touched].any()
        assert taken[touched].mean() < taken[~touched].mean()


def test_ten_thousand_rounds_of_each_protocol_were_run():
    rows = json.loads(COMMITTED.read_text())
    rows = {name: rows[name] for name in PROTOCOLS}
    for name, row in rows.items():
        assert row["rounds"] >= 10_000 and row["accepted"] > 2_000 and row["accepted and wrong"] == 0
        assert (row["garbled and found"] > 500) == bool(PROTOCOLS[name].words)
