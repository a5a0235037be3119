"""The card by concurrency: its claims follow from the data, and each fails where the data break it."""

import numpy as np
import pytest
import xarray as xr

from experiments.asynchronous import concurrency as card
from experiments.asynchronous.figures import BY_CONCURRENCY

CONFIG = BY_CONCURRENCY._replace(flushes=60, rounds=40, repeats=2)
SIZES = len(CONFIG.concurrencies), len(CONFIG.spreads), CONFIG.repeats


def made_up():
    """FedBuff's clock as in closed form and its accuracy by jobs, less for stale ones; FedAvg's rounds get longer."""
    by = "concurrency", "spread", "seed"
    ones = np.ones((*SIZES, 1))
    many = np.array(CONFIG.concurrencies)[:, None, None, None]
    wide = np.array(CONFIG.spreads)[None, :, None, None]
    flush, round = np.arange(1, CONFIG.flushes + 1), np.arange(1, CONFIG.rounds + 1)
    return xr.Dataset(
        {
            "buffered_accuracy": ((*by, "flush"), ones * (1 - np.exp(-flush / (5 + many / 10)))),
            "buffered_time": ((*by, "flush"), ones * flush * 10 / many),
            "staleness": ((*by, "flush"), ones * (many - 1) / 10 + 0 * flush),
            "accuracy": ((*by, "round"), ones * (1 - np.exp(-round / 5.0))),
            "time": ((*by, "round"), ones * (2 + 3 * wide) * round),
        },
        {"spread": list(CONFIG.spreads), "concurrency": list(CONFIG.concurrencies)},
    )  # fmt: skip


DATA = made_up()
BROKEN = {
    "staleness": lambda data: data.assign(staleness=data.staleness + 0.1),  # M / K
    "earlier": lambda data: data.assign(time=data.time / 20),
    "wider": lambda data: data.assign(
        time=data.time.isel(spread=slice(None, None, -1)).assign_coords(spread=data.spread)
    ),
    "more": lambda data: data.assign(buffered_time=data.buffered_time.isel(concurrency=0, drop=True)),
    "cost": lambda data: data.assign(buffered_accuracy=data.buffered_accuracy.isel(concurrency=0, drop=True)),
}


def spread_out(data):
    """Every variable by concurrency again."""
    return data.map(lambda a: a if "concurrency" in a.dims else a.expand_dims(concurrency=data.concurrency))


def verdicts(data):
    return {claim.id: claim.verdict for claim in card.judge(CONFIG, spread_out(data)).claims}


def test_all_claims_hold_of_what_is_predicted():
    assert verdicts(DATA) == dict.fromkeys(BROKEN, True)


@pytest.mark.parametrize("claim", BROKEN)
def test_a_claim_fails_where_the_data_break_it(claim):
    assert verdicts(BROKEN[claim](DATA))[claim] is False


def test_a_run_that_never_reaches_the_target_is_behind_where_it_lasts_longer():
    never = DATA.assign(buffered_accuracy=0 * DATA.buffered_accuracy)
    short = never.assign(buffered_time=never.buffered_time / 9)
    assert verdicts(never)["earlier"] is False and verdicts(short)["earlier"] is None
    assert verdicts(DATA.assign(accuracy=0 * DATA.accuracy))["earlier"] is True


FEWEST, MOST = min(CONFIG.concurrencies), max(CONFIG.concurrencies)
NARROWEST, WIDEST = min(CONFIG.spreads), max(CONFIG.spreads)
NEVER = {  # whose runs never reach the target, and what follows from how long they last
    "FedBuff with most clients": (
        lambda data: data.assign(buffered_accuracy=data.buffered_accuracy.where(data.concurrency < MOST, 0.0)),
        {"cost": True, "more": False, "wider": None},
    ),
    "FedBuff with fewest clients": (
        lambda data: data.assign(buffered_accuracy=data.buffered_accuracy.where(data.concurrency > FEWEST, 0.0)),
        {"cost": False, "more": True, "wider": None},
    ),
    "FedAvg with fewest clients, and runs as long as others": (
        lambda data: data.assign(accuracy=data.accuracy.where(data.concurrency > FEWEST, 0.0)), {"more": False},
    ),
    "FedAvg with most clients": (
        lambda data: data.assign(accuracy=data.accuracy.where(data.concurrency < MOST, 0.0)), {"more": True},
    ),
    "FedAvg at the widest spread": (
        lambda data: data.assign(accuracy=data.accuracy.where(data.spread < WIDEST, 0.0)), {"wider": True},
    ),
    "FedAvg at the narrowest spread": (
        lambda data: data.assign(accuracy=data.accuracy.where(data.spread > NARROWEST, 0.0)), {"wider": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("who", NEVER)
def test_a_run_that_never_reaches_the_target_decides_a_claim_where_it_lasts_longer(who):
    data, expected = NEVER[who]
    found = verdicts(spread_out(data(spread_out(DATA))))
    assert {claim: found[claim] for claim in expected} == expected
    claims = {claim.id: claim for claim in card.judge(CONFIG, spread_out(data(spread_out(DATA)))).claims}
    assert all("runs never reach the target" in claims[name].note for name in expected)


SWING = xr.DataArray([0.05, 20.0], dims="seed")
LEFT_OPEN = {  # claims, where seeds do not agree or a run never reaches the target
    ("earlier",): lambda data: data.assign(time=data.time * SWING),
    ("wider",): lambda data: data.assign(time=data.time * SWING ** xr.DataArray([0, 1, 2], dims="spread")),
    ("more",): lambda data: data.assign(buffered_time=data.buffered_time * SWING ** (data.concurrency / 70)),
    ("earlier", "wider", "more", "cost"): lambda data: data.assign(
        buffered_accuracy=0 * data.buffered_accuracy, accuracy=0 * data.accuracy
    ),
    ("cost", "earlier", "wider", "more"): lambda data: data.isel(seed=[0]),  # one seed
}


@pytest.mark.parametrize("claims", LEFT_OPEN)
def test_a_claim_is_left_open_where_the_data_do_not_decide(claims):
    found = verdicts(LEFT_OPEN[claims](DATA))
    assert [found[claim] for claim in claims] == [None] * len(claims)
