"""The card on privacy for free: its designs have the eps they are said to have, and verdicts follow from data."""

import importlib

import numpy as np
import xarray as xr

from fedjax_priv.theory import gaussian

card = importlib.import_module("experiments.wireless.privacy_for_free")
CONFIG = card.Config(num_users=50, rounds=20, repeats=3)


def test_designs_share_eps_and_the_last_one_the_energy():
    """The first three by receiver noise alone, the fourth with noise of users; the last is quieter than all."""
    q, own = card.designs(CONFIG)
    assert q.shape == (5, 20) and (own[:3] == 0).all() and own[3] == own[4] > 0
    noise = 1 / q + 50 * own[:, None]
    eps = gaussian.epsilon(CONFIG.delta, np.sqrt((4 / noise).sum(1)))
    np.testing.assert_allclose(eps[:4], CONFIG.epsilon, rtol=1e-6)
    assert eps[4] < 5 and (np.diff(q[0]) > 0).all() and (q[2] == q[0][::-1]).all()
    np.testing.assert_allclose((q[4] * (1 + 650 * own[4])).sum(), q[1].sum())


def result_of(objectives, own=0.9, off=0.0):
    """`off`: how far accuracies of seeds are apart where users add noise."""
    seeds = np.array([-0.01, 0.0, 0.01])
    values = np.array(objectives)[:, None, None] + seeds[None, :, None]
    accuracy = np.array([0.9, 0.9, 0.8, own, 0.2])[:, None, None] + 0 * seeds[None, :, None]
    accuracy[3] += off * np.array([[-1.0], [0.0], [1.0]])
    each = ("design", "seed", "evaluation")
    return xr.Dataset({
        "objective": (each, values), "accuracy": (each, accuracy), "failed": ("design", np.zeros(5)),
        "energy": (each[:2], np.array([1.0, 1.0, 1.0, 100.0, 1.0])[:, None] * np.ones(3)),
        "level": (("design", "round"), np.ones((5, 20))), "eps": ("design", [10.0, 10, 10, 10, 0.6]),
    }, {"design": list(card.NAMES), "evaluation": [20]})  # fmt: skip


def verdicts(*of):
    return {claim.id: claim.verdict for claim in card.claims(CONFIG, result_of(*of))}


def test_a_control_that_is_not_decided_is_not_one_that_fails():
    """Falling levels are as good as constant ones, worse or better by 0.3 with seeds; one seed says nothing."""
    said = lambda data: card.claims(CONFIG, data)[0].said
    found = result_of([1.0, 1.2, 1.2, 1.2, 9.0])
    swing = 0.3 * xr.DataArray([-1.0, 0.0, 1.0], dims="seed") * (found.design == "falling")
    assert (said(found), said(found.assign(objective=found.objective + swing))) == ("not testable here", "not decided")
    assert said(found.isel(seed=[0])) == "not decided"


def test_verdicts_follow_from_objectives():
    rises = dict.fromkeys(("allocated", "equal-eps", "own-noise", "same-energy", "budget", "orthogonal"), True)
    assert verdicts([1.0, 1.2, 1.5, 1.2, 9.0]) == rises
    assert verdicts([1.3, 1.2, 1.5, 1.2, 9.0])["allocated"] is False
    assert verdicts([1.0, 1.2, 1.2, 1.2, 9.0])["allocated"] is None  # falling levels are no worse: not testable
    assert verdicts([1.0, 1.2, 1.5, 1.2, 1.0])["same-energy"] is False
    assert verdicts([1.0, 1.2, 1.5, 1.2, 9.0], 0.8)["own-noise"] is False
    assert verdicts([1.0, 1.2, 1.5, 1.2, 9.0], 0.9, 0.1)["own-noise"] is None


def test_users_that_send_one_after_another():
    """With little power the ratio is of sums at full power; the claim fails if levels are not those of one eps."""
    square = np.random.default_rng(3).exponential(size=(20, 50))
    weights = 0.9 ** np.arange(19.0, -1, -1)
    short = (weights[:, None] / square).sum() / (weights / square.min(1)).sum()
    np.testing.assert_allclose(card.noise_apart(CONFIG, square, 1e-6), short, rtol=1e-9)
    np.testing.assert_allclose(card.noise_apart(CONFIG, np.ones((20, 50)), 1e6), 50, rtol=1e-9)
    claim = card.claims(CONFIG, result_of([1.0, 1.2, 1.5, 1.2, 9.0]))[-1]
    assert claim.expected == "50; from 1 to 50" and claim.found.startswith("50; ") and claim.verdict


def test_the_claim_on_users_apart_can_fail(monkeypatch):
    for wrong in (lambda config, gains, power: 49.0, lambda config, gains, power: 50.0 if power == np.inf else 0.9):
        monkeypatch.setattr(card, "noise_apart", wrong)
        assert card.claims(CONFIG, result_of([1.0, 1.2, 1.5, 1.2, 9.0]))[-1].verdict is False
