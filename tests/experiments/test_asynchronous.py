"""The card of asynchronous rounds: its claims follow from the data, and each fails where the data break it."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from experiments.asynchronous import virtual_time as card
from experiments.asynchronous.figures import PAPER
from experiments.comparison import from_law

CONFIG = PAPER._replace(rounds=40, repeats=4)
FLUSHES, SEEDS, SPREADS = CONFIG.flushes, CONFIG.repeats, len(CONFIG.spreads)


def made_up(seed=0):
    """Accuracy by jobs alone; FedBuff's clock as in closed form for equal speeds, then faster, FedAvg's slower."""
    rng = np.random.default_rng(seed)
    by = "spread", "seed"
    curve = lambda jobs: 1 - np.exp(-jobs / 200)
    ones = np.ones((SPREADS, SEEDS, 1))
    flush, round = np.arange(1, FLUSHES + 1), np.arange(1, CONFIG.rounds + 1)
    waits = np.array([3.0, 4.0, 6.0])[:, None, None] * np.ones((1, SEEDS, 1))
    ours = np.array([1.0, 0.9, 0.7])[:, None, None] * rng.normal(1, 0.01, (SPREADS, SEEDS, 1))
    return xr.Dataset(
        {
            "buffered_accuracy": ((*by, "flush"), ones * curve(10.0 * flush)),
            "buffered_time": ((*by, "flush"), ours * flush * 10 / 32),
            "staleness": ((*by, "flush"), 3.1 + 0.1 * rng.normal(size=(SPREADS, SEEDS, FLUSHES))),
            "accuracy": ((*by, "round"), ones * curve(32.0 * round)), "time": ((*by, "round"), waits * round),
        },
        {"spread": list(CONFIG.spreads)},
    )  # fmt: skip


DATA = made_up()
OF_SEEDS = xr.DataArray([0.0, 1.0, -1.0, 0.0], dims="seed")
BROKEN = {
    "staleness": lambda data: data.assign(staleness=data.staleness + 0.1),  # M / K
    "flushes": lambda data: data.assign(buffered_time=data.buffered_time * 1.1),
    "faster": lambda data: data.assign(time=data.time / 10),
    "spread": lambda data: data.assign(
        time=data.time.isel(spread=slice(None, None, -1)).assign_coords(spread=data.spread)
    ),
    "jobs": lambda data: data.assign(accuracy=data.accuracy.isel(round=slice(None, None, -1))),
}


def verdicts(data):
    return {claim.id: claim.verdict for claim in card.judge(CONFIG, data).claims}


def test_all_claims_hold_of_what_is_predicted():
    assert verdicts(DATA) == dict.fromkeys(BROKEN, True)


@pytest.mark.parametrize("claim", BROKEN)
def test_a_claim_fails_where_the_data_break_it(claim):
    assert verdicts(BROKEN[claim](DATA))[claim] is False


def test_speeds_spread_around_a_mean_of_one():
    for spread in CONFIG.spreads:
        times = card.mean_times(CONFIG, spread)
        assert times.mean() == pytest.approx(1, rel=1e-5)
        assert np.log(times).std() == pytest.approx(spread, abs=0.03)


def test_a_target_that_is_never_reached_takes_forever():
    late = card.time_to(CONFIG._replace(target=2.0), DATA.accuracy, DATA.time, "round")
    assert np.isinf(late).all()


NOISY = np.array([0.3, 3.0, 0.4, 2.5])
LEFT_OPEN = {  # claims, where seeds do not agree or a run never reaches the target
    ("faster",): lambda data: data.assign(time=data.time * xr.DataArray(NOISY, dims="seed") / 5),
    ("spread",): lambda data: data.assign(
        time=data.time * xr.DataArray([NOISY, 1 / NOISY, NOISY[::-1]], dims=("spread", "seed"))
    ),
    ("staleness",): lambda data: data.assign(staleness=data.staleness + 0.05 * OF_SEEDS),  # M / K, or (M - 1) / K
    ("flushes",): lambda data: data.assign(  # as if speeds changed nothing
        buffered_time=data.buffered_time.isel(spread=[0, 0, 0]).assign_coords(spread=data.spread)
    ),
    ("jobs", "faster"): lambda data: data.assign(buffered_accuracy=data.buffered_accuracy.where(data.seed > 0, 0.0)),
    ("jobs", "faster", "spread", "staleness", "flushes"): lambda data: data.isel(seed=[0]),  # one seed
}


@pytest.mark.parametrize("claims", LEFT_OPEN)
def test_a_claim_is_left_open_where_the_data_do_not_decide(claims):
    found = verdicts(LEFT_OPEN[claims](DATA.assign_coords(seed=range(SEEDS))))
    assert [found[claim] for claim in claims] == [None] * len(claims)


NEVER = {  # who never reaches the target, and whether the other has won
    "FedBuff": (lambda data: data.assign(buffered_accuracy=0 * data.buffered_accuracy), {"jobs": False}),
    "FedBuff, and lasts longer": (
        lambda data: data.assign(buffered_accuracy=0 * data.buffered_accuracy, buffered_time=9 * data.buffered_time),
        {"jobs": False, "faster": False},
    ),
    "FedAvg": (lambda data: data.assign(accuracy=0 * data.accuracy), {"jobs": True, "faster": True}),
    "both": (
        lambda data: data.assign(accuracy=0 * data.accuracy, buffered_accuracy=0 * data.buffered_accuracy),
        {"jobs": None, "faster": None, "spread": None},
    ),
    "FedAvg at the widest spread": (
        lambda data: data.assign(accuracy=data.accuracy.where(data.spread < data.spread.max(), 0.0)),
        {"faster": True, "spread": True},
    ),
    "FedAvg at the narrowest spread": (
        lambda data: data.assign(accuracy=data.accuracy.where(data.spread > data.spread.min(), 0.0)), {"spread": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("who", NEVER)
def test_a_run_that_never_reaches_the_target_may_be_behind_all_the_same(who):
    data, expected = NEVER[who]
    found = verdicts(data(DATA))
    assert {claim: found[claim] for claim in expected} == expected


def test_equal_speeds_are_no_lead():
    """As early as FedAvg at every spread, but for noise of a tenth; the claim must not hold."""
    equal = DATA.drop_vars(["accuracy", "time"]).assign(accuracy=DATA.buffered_accuracy.rename(flush="round"))
    for seed in range(20):
        noise = np.exp(0.1 * np.random.default_rng(seed).normal(size=(SPREADS, SEEDS, 1)))
        time = DATA.buffered_time.rename(flush="round") * noise
        assert verdicts(equal.assign(time=time))["faster"] is not True


def test_jobs_to_a_target_that_is_never_reached_are_infinite():
    jobs = card.jobs_to(CONFIG, DATA.buffered_accuracy.where(DATA.spread > 0, 0.0), "flush", 10)
    assert np.isinf(jobs.isel(spread=0)).all() and float(jobs.isel(spread=1, seed=0)) == 380  # 1 - e^(-j / 200) > 0.85


def test_a_true_law_of_few_seeds_fails_in_one_of_a_hundred():
    """Four standard errors of three seeds would fail in 6% at each of three spreads."""
    values = np.random.default_rng(0).normal(size=(3, 3))
    gap = from_law(xr.DataArray(values, dims=("spread", "seed")), 0.0)
    error = values.std(1, ddof=1) / 3**0.5
    np.testing.assert_allclose(gap.noise, stats.t.ppf(1 - 0.01 / 3 / 2, df=2) * error, rtol=1e-6)
    assert 2 * stats.t.sf(4, df=2) > 0.05
