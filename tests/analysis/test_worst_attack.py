"""The selection of hyperparameters, against loops over arrays."""

import itertools

import numpy as np
import pytest
import xarray as xr

from fedjax_priv.analysis import worst_case

RATES, DECAYS = (0.1, 1.0), (0.0, 1e-4, 1e-3)
DIMS = {"rule": 3, "attack": 4, "learning_rate": 2, "weight_decay": 3, "seed": 2, "evaluation": 5}


def runs(seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda: (tuple(DIMS), rng.random(tuple(DIMS.values())))
    coords = {"learning_rate": list(RATES), "weight_decay": list(DECAYS), "rule": ["a", "b", "c"]}
    return xr.Dataset({"validation": draw(), "test": draw()}, coords)


def by_loops(validation, test):
    """ByzFL's `find_best_hyperparameters` and `test_heatmap`, for one rule: [attack, rate, decay, seed, evaluation]."""
    largest = -1
    for i, j in itertools.product(range(2), range(3)):
        means = validation[:, i, j].mean(1)
        if means.max(1).min() > largest:
            largest, chosen, when = means.max(1).min(), (i, j), means.argmax(1)
    accuracy = test[:, chosen[0], chosen[1]].mean(1)
    return RATES[chosen[0]], DECAYS[chosen[1]], accuracy.max(1), accuracy[np.arange(4), when]


def test_the_selection_is_that_of_loops():
    given = runs()
    found = worst_case(given, ["learning_rate", "weight_decay"])
    for k in range(3):
        rate, decay, accuracy, validated = by_loops(given.validation.values[k], given.test.values[k])
        one = found.isel(rule=k)
        assert (one.chosen_learning_rate, one.chosen_weight_decay) == (rate, decay)
        np.testing.assert_allclose(one.accuracy, accuracy)
        np.testing.assert_allclose(one.validated, validated)
        assert one.worst == pytest.approx(accuracy.min()) and one.worst_validated == pytest.approx(validated.min())
    assert list(found.rule.values) == ["a", "b", "c"] and set(found.accuracy.dims) == {"rule", "attack"}


def test_the_order_of_axes_and_other_names_do_not_matter():
    given = runs(3).transpose("evaluation", "seed", "weight_decay", "attack", "rule", "learning_rate")
    found = worst_case(given.rename(attack="malice"), ["learning_rate", "weight_decay"], attack="malice")
    np.testing.assert_allclose(found.worst, worst_case(runs(3), ["learning_rate", "weight_decay"]).worst)


def test_a_run_that_is_not_finite_is_the_worst():
    given = runs()
    spoilt = given.copy(deep=True)
    chosen = worst_case(given, ["learning_rate", "weight_decay"]).isel(rule=0)
    place = {"rule": 0, "learning_rate": RATES.index(chosen.chosen_learning_rate), "attack": 0}
    spoilt.validation[place] = np.nan
    assert worst_case(spoilt, ["learning_rate", "weight_decay"]).chosen_learning_rate[0] != chosen.chosen_learning_rate


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="'test' with the dimensions"):
        worst_case(runs().drop_vars("test"), ["learning_rate", "weight_decay"])
    with pytest.raises(ValueError, match="'validation' with the dimensions.*momentum"):
        worst_case(runs(), ["momentum"])


@pytest.mark.parametrize("axes", [[], "learning_rate", ["attack"], ["learning_rate", "seed"], ["learning_rate"] * 2])
def test_hyperparameters_are_axes_to_choose_on(axes):
    with pytest.raises(ValueError, match="^hyperparameters must be a list of different axes, none of .*'seed'"):
        worst_case(runs(), axes)


def test_what_is_best_under_the_worst_attack_is_not_what_is_best_on_average():
    """Accuracies 0.9 and 0.1 under two attacks lose against 0.4 and 0.4."""
    values = (("learning_rate", "attack", "seed", "evaluation"), np.array([[[[0.9]], [[0.1]]], [[[0.4]], [[0.4]]]]))
    given = xr.Dataset({"validation": values, "test": values}, {"learning_rate": [1.0, 2.0]})
    found = worst_case(given, ["learning_rate"])
    assert found.chosen_learning_rate == 2.0 and found.worst == found.worst_validated == 0.4
