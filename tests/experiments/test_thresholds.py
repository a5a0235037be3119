"""The card on h_th: closed forms, that runs are what their lines say, and that every claim can fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments.wireless import threshold_claims, thresholds
from experiments.wireless.figures import FIGURES
from fedjax_priv import data

CONFIG = FIGURES["thresholds"].scales["paper"]
AWARE = [f"h_th = {h:g}" for h in CONFIG.thresholds]
SHARDS = ["channel-aware", "channel-aware, frozen", "uniform p = 0.48"]


def test_moments_of_the_number_of_participants():
    """K = 200: to the digits of figures computed by hand; fewer users have less."""
    found = np.array(thresholds.moments(CONFIG.thresholds, 200))
    np.testing.assert_allclose(found.T, list(threshold_claims.PAGE.values()), atol=6e-4)
    np.testing.assert_allclose(thresholds.moments((2.0,), 40), found[:, [3]] / 5)
    gain = np.abs(np.sqrt(5 / 6) + np.random.default_rng(0).normal(size=(2, 200_000)).T @ [1, 1j] / np.sqrt(12))
    p = np.minimum(1, gain / 1.5)
    np.testing.assert_allclose(found[:, 2], [200 * p.mean(), 200 * (p * (1 - p)).mean()], rtol=4e-3)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"threshold": 1.0}, lambda gain: np.minimum(1, gain)),
        ({"correlation": 1.0}, lambda gain: np.minimum(1, gain / 2)),
        ({"participation": 0.48}, lambda gain: np.full(gain.shape, 0.48)),
    ],
)
def test_a_line_samples_users_as_it_says(how, expected):
    key, n = jax.random.key(0), CONFIG.setting.num_users
    system = thresholds.algorithm(CONFIG, **how)
    gains = []
    kept = jnp.asarray(np.random.default_rng(0).normal(size=(n, 2)), jnp.float32)
    for round in range(2):
        who, kept = system.draw(key, kept, jnp.int32(round), jnp.ones(n, int))
        np.testing.assert_allclose(who.participation, expected(np.asarray(who.gain)), rtol=1e-6)
        gains.append(np.asarray(who.gain))
    assert np.array_equal(*gains) == (how.get("correlation") == 1.0)


def test_held_out_samples_belong_to_no_user_and_not_to_the_test_set():
    whole = data.Dataset(np.arange(10.0), np.arange(10), np.arange(100.0, 104.0), np.arange(4), 10)
    own, x, y = thresholds.split(whole, 3)
    assert own.x_train.tolist() == list(range(7)) == own.y_train.tolist()
    assert x.tolist() == [7, 8, 9] == y.tolist() and own.x_test is whole.x_test
    assert thresholds._of_channel(thresholds.FROZEN).endswith("frozen") and thresholds.MOVING < 1


def result(ends, uniform, shards, **changes):
    """As of a run with two seeds, from accuracies at the end."""
    lines, each = [*AWARE, "uniform p = 0.48"], ("line", "seed")
    at_end = lambda values: np.array(values)[:, None, None] + np.array([0.0, 1e-3])[:, None] + np.zeros((1, 2, 1))
    m, v = np.array(list(threshold_claims.PAGE.values())).T
    rows = lambda values: np.array([*values, values[-1]])[:, None] * np.ones((1, 2))
    values = {
        "accuracy": ((*each, "evaluation"), at_end([*ends, uniform])),
        "validation": ((*each, "evaluation"), at_end([*ends, uniform])),
        "participants": (each, rows([*m[:5], m[5]])), "m": ("threshold", m), "v": ("threshold", v),
        "local": (each, rows(np.arange(1.0, 7))), "local_delta": (each, rows([1e-5] * 6)),
        "central": (each, rows([3.0] * 6)), "rigorous": (each, rows([2.0] * 6)),
        "central_delta": (each, rows([2e-5] * 6)), "certain": (each, rows([0.3, 1e-3, 1e-9, 0.0, 0.0, 0.0])),
        "shards_accuracy": (("shards_line", "seed", "evaluation"), at_end(shards)),
        "shards_least_weight": (("shards_line", "seed"), np.array([[0.95] * 2, [0.3] * 2, [1.0] * 2])),
        "shards_most_weight": (("shards_line", "seed"), np.array([[1.05] * 2, [1.6] * 2, [1.0] * 2])),
    }  # fmt: skip
    where = {"line": lines, "threshold": list(CONFIG.thresholds), "shards_line": SHARDS, "evaluation": [400]}
    return xr.Dataset(values | changes, where)


def said(*of, **changes):
    return {claim.id: claim.said for claim in threshold_claims.claims(CONFIG, result(*of, **changes))}


def test_claims_can_hold_and_fail():
    falling = [0.9, 0.89, 0.889, 0.888, 0.87, 0.85]
    good = said(falling, 0.87, [0.7, 0.6, 0.7])
    assert set(good.values()) == {"holds"}
    bad = said([0.9, 0.8, 0.9, 0.7, 0.68, 0.6], 0.75, [0.6, 0.7, 0.7])
    for id in ("lower-helps", "few-suffice", "equal-m", "shards-moving", "shards-frozen"):
        assert bad[id] == "does not hold", id
    pooled = threshold_claims.claims(FIGURES["thresholds"].scales["cpu"], result(falling, 0.87, [0.7, 0.6, 0.7]))
    assert {claim.said for claim in pooled} == {"holds", "agrees in trend"}
    flat = said([0.8] * 6, 0.8, [0.7, 0.6, 0.7])
    assert (flat["few-suffice"], flat["equal-m"], flat["chosen"]) == ("not testable here",) * 3
    one_seed = result(falling, 0.87, [0.7, 0.6, 0.7]).isel(seed=[0])  # a control that is not decided shows nothing
    words = {claim.id: claim.said for claim in threshold_claims.claims(CONFIG, one_seed)}
    assert (words["few-suffice"], words["equal-m"]) == ("not decided",) * 2
    falls = result(falling, 0.87, [0.7, 0.6, 0.7])
    swing = xr.DataArray([-0.2, 0.2], dims="seed").where(falls.line == falls.line[1], 0.0)
    (open_,) = (claim for claim in threshold_claims.claims(CONFIG, falls.assign(accuracy=falls.accuracy + swing))
                if claim.id == "chosen")  # fmt: skip
    assert open_.said == "not decided"


@pytest.mark.parametrize(
    ("id", "name", "values"),
    [
        ("m", "participants", lambda found: 0.97 * found), ("v", "v", lambda found: found + 0.001),
        ("eps-l-falls", "local", lambda found: -found), ("eps-c-bounds", "rigorous", lambda found: 2 * found),
        ("removal", "certain", lambda found: 0 * found), ("removal", "certain", lambda found: 0 * found + 0.1),
        ("chosen", "validation", lambda found: 1 - found),
        ("shards-moving", "shards_most_weight", lambda found: found * np.array([[3.0], [1.0], [1.0]])),
    ],
)  # fmt: skip
def test_each_number_decides_its_claim(id, name, values):
    found = result([0.9, 0.89, 0.889, 0.888, 0.87, 0.85], 0.87, [0.7, 0.6, 0.7])
    claims = {claim.id: claim for claim in threshold_claims.claims(CONFIG, found.assign({name: values(found[name])}))}
    assert claims[id].said in ("does not hold", "not testable here")


def test_the_picture_has_what_it_names():
    found = result([0.9, 0.89, 0.889, 0.888, 0.87, 0.85], 0.87, [0.7, 0.6, 0.7])
    picture = threshold_claims.figure(CONFIG, found)
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in picture.axes]
    assert "uniform p = 0.48, test" in legends[0] and len(legends[1]) == 3 and legends[3] == SHARDS
