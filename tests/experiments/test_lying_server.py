"""The card of a server that lies: its claims follow from the data, and each fails where the data break it."""

import numpy as np
import pytest
import xarray as xr

from experiments.lying_server import three_lies as card
from experiments.lying_server.detectors import SERVERS
from experiments.lying_server.setting import Config

CONFIG = Config(num_clients=8, threshold=6, colluding=(0, 2), populations=(40,), attempts=15, runs=12)


def made_up():
    """What theory says of eight clients, and numbers as runs had them."""
    runs = np.random.default_rng(0).normal(size=(1, 2, 12))
    law = np.array([[10.0, 4.0]])
    flags = {"bound": [False, True], "refuse": [False, True], "server": [*SERVERS], "population": [40]}
    return xr.Dataset(
        {
            "truth": ("colluding", [8, 6]), "unchecked": ("colluding", [6, 3]), "one_list": ("colluding", [6, 4]),
            "opened": ("colluding", [0, 0]), "wrong_sums": ("colluding", [0, 0]), "lied": ("bound", [1e-3, 1e6]),
            "honest": ("bound", [18.0, 18.0]), "same_honest_sum": True, "replay_error": 2.0, "replay_size": 800.0,
            "replay_moved": 1300.0, "refused_size": 0, "refused_error": 18.0, "nudged_size": 7, "nudged_error": 5e-3,
            "advantage": (("bound", "server"), [[0.0, 1.0, 0.8, 0.0], [0.0, 0.0, 0.8, 0.0]]),
            "successes": (("population", "refuse", "run"), law[..., None] + runs),
            "expected_successes": (("population", "refuse"), law),
        },
        flags,
    )  # fmt: skip


DATA = made_up()
OTHER = xr.DataArray([0.0, 3.0], dims="refuse")
BREAKS = {
    "few": lambda data: data.assign(unchecked=data.unchecked + 1),
    "check": lambda data: data.assign(one_list=0 * data.one_list),  # nothing is ever opened
    "floor": lambda data: data.assign(one_list=data.unchecked),
    "stripped": lambda data: data.assign(honest=data.lied),  # the sum is the target's update anyway
    "bound": lambda data: data.assign(lied=data.lied.isel(bound=[0, 0]).assign_coords(bound=data.bound)),
    "replay": lambda data: data.assign(replay_error=9.0),  # of eight clients
    "refuse": lambda data: data.assign(nudged_size=0),  # nobody answers a second time, whatever comes
    "nudge": lambda data: data.assign(refused_error=data.nudged_error),
    "price": lambda data: data.assign(successes=data.successes + OTHER),
    "detector": lambda data: data.assign(advantage=data.advantage.where(data.server != "honest", 1.0)),
    "detector-bound": lambda data: data.assign(advantage=data.advantage.where(data.server != "to the target", 1.0)),
    "detector-all": lambda data: data.assign(
        advantage=data.advantage.where(data.server != "to all, another has it", 0.8)
    ),
}


def verdicts(data):
    return {claim.id: claim.verdict for claim in card.claims(CONFIG, data)}


def test_all_claims_hold_of_what_is_predicted():
    assert verdicts(DATA) == dict.fromkeys(BREAKS, True)


@pytest.mark.parametrize("claim", BREAKS)
def test_a_claim_fails_where_the_data_break_it(claim):
    assert verdicts(BREAKS[claim](DATA))[claim] is False


def test_updates_that_are_others_must_be_far_from_what_a_replay_gives_away():
    assert verdicts(DATA.assign(replay_moved=7.0))["replay"] is False


def test_a_price_is_open_where_runs_are_too_few_to_tell_refusals_from_none():
    swing = xr.DataArray([-6.0, 6.0], dims="run")
    assert verdicts(DATA.isel(run=[0, 1]).assign(successes=DATA.expected_successes + swing))["price"] is None
