"""The robustness grid: a cell is robust distributed SGD, and verdicts follow from the data."""

import functools

import jax
import numpy as np
import pytest
import xarray as xr
from papers import verdicts

from experiments.fedrep import cells, grid
from experiments.problem import Task
from fedjax_priv import aggregators
from fedjax_priv.runs.sweep import sweep

STEPS, RATE = 6, 0.7
RULES = {"median": aggregators.coordinate_median(), "mean": aggregators.mean()._replace(most_byzantine=None)}
NAMES = (cells.HONEST, "FoE", cells.FLIPPED)


@pytest.fixture(scope="module")
def whole():
    """Batches are all that a client holds, so that the order of its samples is of no account."""
    setting = cells.Setting(Task("digits"), num_honest=6, num_byzantine=2, gammas=(1.0, 0.0))
    size = cells.problem(setting, 0).clients.examples[0].shape[1]
    return setting._replace(batch_size=size)


def by_numpy(setting, shared, rule, attack, gamma):
    """Softmax regression in float64; parameters in the order (bias [10], kernel [64, 10])."""
    sample, label = (rows[:, :, gamma] for rows in shared.clients.examples)
    x = np.asarray(shared.x, np.float64).reshape(len(shared.x), -1)[sample]
    f, velocity = setting.num_byzantine, 0.0
    if attack == cells.FLIPPED:
        label = np.concatenate([9 - label[:f], label[f:]])
    params = jax.tree.map(lambda a: np.asarray(a, np.float64), shared.model.init(jax.random.key(1)))
    (bias, kernel), tree = jax.tree.flatten(params)
    for _ in range(STEPS):
        logits = x @ kernel + bias
        error = np.exp(logits - logits.max(-1, keepdims=True))
        error = error / error.sum(-1, keepdims=True) - np.eye(10)[label]
        gradient = [error.mean(1), np.einsum("nmi,nmk->nik", x, error) / x.shape[1]]
        flat = np.concatenate([a.reshape(len(x), -1) for a in gradient], axis=1)
        velocity = setting.momentum * velocity + (1 - setting.momentum) * flat
        sent = velocity.copy()
        if attack == "FoE":
            sent[:f] = -2 * velocity[f:].mean(0)
        direction = np.median(sent, axis=0) if rule == "median" else sent.mean(0)
        weights = np.concatenate([bias, kernel.ravel()])
        weights = weights - RATE * (direction + setting.weight_decay * weights)
        bias, kernel = weights[:10], weights[10:].reshape(kernel.shape)
    return jax.tree.unflatten(tree, [bias, kernel])


def test_every_cell_is_robust_distributed_sgd(whole):
    shared = cells.problem(whole, 0)
    start = shared.model.init(jax.random.key(1))
    weights = lambda params: {f"w{i}": a for i, a in enumerate(jax.numpy.concatenate(
        [leaf.ravel() for leaf in jax.tree.leaves(params)])[::37])}  # fmt: skip
    axes = {"rule": {"median": 0.0, "mean": 1.0}, "attack": dict(zip(NAMES, (0.0, 1.0, 2.0), strict=True)),
            "gamma": {"1.0": 0.0, "0.0": 1.0}, "learning_rate": [RATE]}  # fmt: skip
    runs = sweep(
        functools.partial(cells.cell, whole, shared, RULES, NAMES), axes, jax.random.key(0), start, shared.clients,
        rounds=STEPS, every=STEPS, evaluate=weights, progress=False,
    )  # fmt: skip
    assert runs.attrs["programs"] == 1
    for rule in RULES:
        for attack in NAMES:
            for gamma in (0, 1):
                got = runs.isel(gamma=gamma, learning_rate=0, evaluation=-1).sel(rule=rule, attack=attack)
                expected = weights(by_numpy(whole, shared, rule, attack, gamma))
                for name, value in expected.items():
                    np.testing.assert_allclose(got[name], value, atol=2e-5, err_msg=f"{rule} {attack} {gamma} {name}")


def test_data_is_dealt_as_the_setting_says(whole):
    shared = cells.problem(whole, 0)
    sample, label = shared.clients.examples
    assert sample.shape == label.shape == (8, whole.batch_size, 2) and (shared.clients.count == whole.batch_size).all()
    np.testing.assert_array_equal(sample[:2], sample[2:4])  # Byzantine clients hold what the first honest ones do
    for gamma in (0, 1):
        honest = sample[2:, :, gamma].ravel()
        assert len(np.unique(honest)) == len(honest)
    assert [len(np.unique(label[i, :, 1])) for i in range(2, 8)] < [10] * 6


def planted(**worst):
    """Accuracies under every attack; `honest` without one."""
    rules = ["mean", "median", "NNM, mean", "NNM, median"]
    values = [[worst["mean"], 0.1], [worst["median"], worst["apart"]], [0.8, 0.1], [0.8, worst["mixed"]]]
    array = xr.DataArray(values, {"rule": rules, "gamma": ["1.0", "0.0"]}, ("rule", "gamma"))
    return xr.Dataset({"worst": array, "honest": xr.full_like(array, 0.9)}, attrs={"repeats": 3})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mean": 0.2, "median": 0.88, "apart": 0.5, "mixed": 0.7}, [True, True, True, True]),
        ({"mean": 0.89, "median": 0.7, "apart": 0.69, "mixed": 0.6}, [None, False, False, False]),
        ({"mean": 0.2, "median": 0.7, "apart": 0.69, "mixed": 0.6}, [False, True, False, False]),
    ],
)
def test_verdicts_follow_from_the_data(values, said):
    config = grid.SCALES["quick"]._replace(rules=("mean", "median"))
    found = planted(**values)
    assert verdicts(grid.claims(config, found)) == said
    few = grid.claims(config, found.assign_attrs(repeats=2))
    assert verdicts(few) == [None] * len(said) and {claim.said for claim in few} == {"not decided"}


def test_the_papers_grid_can_be_built():
    config = grid.SCALES["paper"]
    rules = grid.rules_of(config)
    assert len(rules) == 24 and set(config.attacks) == cells.ATTACKS.keys()
    assert all(rule.most_byzantine is None or rule.most_byzantine(13) >= 3 for rule in rules.values())
