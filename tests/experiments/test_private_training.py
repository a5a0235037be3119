"""Printed rows of private training: their eps, the network, what a round computes, and the verdicts on accuracy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments.cards import Card, result
from experiments.claims import Open
from experiments.private_training import accuracy, equal_epsilon, printed, privacy, scattering
from experiments.private_training.accuracy import Config
from experiments.private_training.figures import FIGURES
from experiments.private_training.problem import Problem, Setting, model_of
from experiments.problem import Task, load, num_samples
from experiments.table import RESULTS
from fedjax_priv import data, models
from fedjax_priv.base import ClientData

LAYOUT = ("NHWC", "HWIO", "NHWC")
EPSILONS = {  # classic RDP as it is printed, and privacy-loss distributions by dp-accounting, pessimistic, step 1e-4
    "opacus_eps_1": (1.1915, 0.864), "opacus_eps_3": (3.0059, 2.380), "tf_privacy_eps_1": (1.1982, 0.792),
    "scattering_eps_3": (2.9968, 2.376),
}  # fmt: skip


@pytest.mark.parametrize("name", EPSILONS)
def test_eps_by_three_accountants(name):
    found = privacy.epsilons(FIGURES[name].scales["cpu"].printed)
    classic, ours = EPSILONS[name]
    assert found[privacy.CLASSIC] == pytest.approx(classic, abs=2e-4)
    assert found[privacy.OURS] == pytest.approx(ours, abs=1e-3)
    assert found[privacy.OURS] < found[privacy.TIGHT] < found[privacy.CLASSIC]


def test_rows_are_those_that_are_printed():
    """From the two READMEs: eps, accuracy, z, C, rate, epochs; an epoch is 234 steps, or 60000/256 in all."""
    rows = {
        "1.19": (94.63, 1.3, 1.5, 0.25, 15), "3.01": (96.78, 1.1, 1.0, 0.15, 60), "7.10": (97.09, 0.7, 1.5, 0.25, 45),
        "1.20": (95.0, 1.2, 1.0, 0.32, 10), "2.92": (96.6, 1.12, 1.0, 0.08, 60), "9.74": (97.3, 0.6, 1.0, 0.4, 30),
    }  # fmt: skip
    for row in (*printed.OPACUS.values(), *printed.TF_PRIVACY.values()):
        *others, epochs = rows.pop(row.epsilon)
        assert (row.accuracy, row.noise_multiplier, row.clip, row.rate) == tuple(others)
        assert row.steps == (int(epochs * 60000 / 256) if row.shuffled else 234 * epochs)
    assert not rows
    assert printed.TRAMER_BONEH[:8] == ("3", 98.7, None, 1, 3.04, 0.1, 8.0, 40 * 14)  # 14 batches of 4096 an epoch


def test_the_network():
    """26,010 parameters; logits by convolutions and windows of XLA."""
    model = model_of(Setting())
    params = model.init(jax.random.key(0))
    assert models.num_params(params) == 26_010
    bounds = {"Conv_0": 1 / 8, "Conv_1": 1 / 16, "Dense_0": 512**-0.5, "Dense_1": 32**-0.5}
    for name, layer in params.items():
        largest = max(np.abs(leaf).max() for leaf in layer.values())
        assert 0.9 * bounds[name] < largest <= bounds[name]
    x = jnp.asarray(np.random.default_rng(1).normal(size=(3, 28, 28, 1)), jnp.float32)
    ours, by_windows = jax.jit(lambda: (model.apply(params, x), logits(params, x)))()
    np.testing.assert_allclose(ours, by_windows, rtol=1e-4, atol=1e-5)


def logits(params, x):
    y, window = x, lambda y: jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")
    for name, pad in (("Conv_0", 3), ("Conv_1", 0)):
        kernel, bias = params[name]["kernel"], params[name]["bias"]
        y = jax.lax.conv_general_dilated(
            y, kernel, (2, 2), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        y = window(jax.nn.relu(y + bias[None, None, None]))
    y = jax.nn.relu(y.reshape(3, -1) @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"][None])
    return y @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"][None]


def tiny():
    """40 clients of one 8x8 image."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 1, 8, 8, 1)).astype(np.float32), rng.integers(0, 10, (40, 1))
    return ClientData((x, y), jnp.ones(40, jnp.int32))


def test_a_round_is_a_step_of_dp_sgd():
    """Without noise: the sum of clipped gradients of those who came over the expected number, in float64."""
    row = printed.OPACUS["3"]._replace(noise_multiplier=0.0, batch=20, clip=0.7, rate=0.5)
    of, setting = tiny(), Setting("digits", "softmax", "keras")
    params = jax.tree.map(lambda p: p + 0.01, model_of(setting).init(jax.random.key(0)))
    system = accuracy.algorithm(row, setting, 40)
    state, info = jax.jit(system.step)(jax.random.key(1), system.init(jax.random.key(1), params, of), of)
    came = np.asarray(info.client)[np.asarray(info.counted)]
    assert 10 < came.size < 30 and came.size != 20
    x, y = np.asarray(of.examples[0], float)[came, 0].reshape(-1, 64), np.asarray(of.examples[1])[came, 0]
    (layer,) = params.values()
    scores = x @ np.asarray(layer["kernel"], float) + np.asarray(layer["bias"], float)
    slope = np.exp(scores) / np.exp(scores).sum(1, keepdims=True) - np.eye(10)[y]
    norm = np.sqrt(((x**2).sum(1) + 1) * (slope**2).sum(1))
    slope = slope * np.minimum(1, 0.7 / norm)[:, None]
    (after,) = state.params.values()
    np.testing.assert_allclose(after["kernel"], layer["kernel"] - 0.5 * x.T @ slope / 20, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after["bias"], layer["bias"] - 0.5 * slope.sum(0) / 20, rtol=1e-4, atol=1e-6)


def verdict(values, **row):
    config = FIGURES["opacus_eps_3"].scales["cpu"]
    config = config._replace(printed=config.printed._replace(**row))
    data = xr.Dataset({"accuracy": (("seed", "step"), np.array(values)[:, None])})
    claim = accuracy.same_accuracy(config, data)
    return claim.verdict if claim.verdict is not None else claim.why


def test_verdicts_on_accuracy():
    assert verdict([96.6, 96.7, 96.9]) is True
    assert verdict([96.0, 96.1, 96.2]) is False
    assert verdict([95.0, 96.7, 98.5]) is Open.UNDECIDED
    assert verdict([96.8]) is Open.UNDECIDED
    assert verdict([96.6, 96.7, 96.9], deviation=None) is True
    quick = FIGURES["opacus_eps_3"].scales["quick"]
    claim = accuracy.same_accuracy(quick, xr.Dataset({"accuracy": (("seed", "step"), [[96.8], [96.9]])}))
    assert (claim.verdict, claim.why) == (None, Open.NOT_RUN)


def test_a_run_over_a_pool_is_evaluated_before_training_and_at_its_end(monkeypatch):
    of = tiny()
    whole = Problem(data.pool_of(of), np.asarray(of.examples[0])[:, 0], np.asarray(of.examples[1])[:, 0])
    monkeypatch.setattr(accuracy, "problem", lambda setting: whole)
    row = printed.OPACUS["3"]._replace(noise_multiplier=0.1, batch=20, rate=1.0, steps=6, momentum=0.5)
    config = Config(printed.OPACUS["3"], row, Setting("digits", "softmax", "keras"), 1, 3)
    found = accuracy.runs(config)
    assert found.accuracy.shape == (1, 4) and found.step.values.tolist() == [0, 2, 4, 6]
    assert not found.failed.any()
    outcome = accuracy.judge(config, found)
    assert [claim.id for claim in outcome.claims] == ["printed-epsilon", "our-epsilon", "accuracy", "learns"]
    assert "eps = " in outcome.caveats[0]


def test_runs_at_equal_eps_are_judged_without_the_data_set(monkeypatch):
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    monkeypatch.setattr(equal_epsilon, "load", lambda task: pytest.fail("read"))
    equal_epsilon.dataset.cache_clear()
    made = result(Card("private_training", "equal_epsilon", "", ""), "cpu", RESULTS)
    assert made is not None
    with xr.open_dataset(made.folder / "equal_epsilon.nc", engine="h5netcdf") as runs:
        outcome = equal_epsilon.judge(FIGURES["equal_epsilon"].scales["cpu"], runs.load())
    assert outcome.caveats[0].startswith("300 clients of 200 samples, mnist")


def test_training_samples_that_are_used():
    for task in (Task("digits"), Task("digits", samples=100), Task("digits", samples=10_000)):
        assert num_samples(task) == len(load(task).y_train)
    assert [num_samples(Task(name)) for name in ("mnist", "cifar10")] == [60_000, 50_000]


def test_their_shuffled_batches_are_another_setting():
    for name, experiment in FIGURES.items():
        if name == "equal_epsilon":  # a result of ours
            continue
        said = experiment.differs(experiment.scales["cpu"], experiment.scales["paper"])
        others = {"tf": accuracy.BATCHES, "scattering": f"{accuracy.BATCHES}, {accuracy.GROUPS}"}
        assert said == others.get(name.partition("_")[0], "")
        assert "dataset digits" in experiment.differs(experiment.scales["quick"], experiment.scales["paper"])


def test_features_have_mean_0_and_deviation_1_in_each_group_of_three_maps():
    maps = np.random.default_rng(0).gamma(2.0, size=(5, 81, 7, 7)).astype(np.float32)
    rows = scattering.grouped(maps).reshape(5, 27, 3 * 49)
    np.testing.assert_allclose(rows.mean(2), 0, atol=1e-5)
    np.testing.assert_allclose(rows.std(2), 1, atol=1e-4)
    second = maps[2, 3:6].astype(float)
    np.testing.assert_allclose(rows[2, 1], ((second - second.mean()) / second.std()).ravel(), atol=1e-4)


def test_features_are_read_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("SCATTERING_DIR", str(tmp_path))
    calls = []
    monkeypatch.setattr(
        scattering, "_computed", lambda images: calls.append(1) or np.ones((len(images), 2), np.float32)
    )
    images = np.zeros((4, 28, 28, 1), np.float32)
    found = [scattering.features(images, "some") for _ in range(2)]
    assert (
        calls == [1] and (found[0] == found[1]).all() and [file.name for file in tmp_path.iterdir()] == ["some-4.npy"]
    )


def test_scattering_of_a_constant_image():
    pytest.importorskip("kymatio")
    from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D  # pyright: ignore

    maps = ScatteringNumPy2D(J=2, shape=(28, 28))(np.ones((1, 28, 28), np.float32))
    assert maps.shape == (1, 81, 7, 7)
    np.testing.assert_allclose(maps[0, 0], 1, atol=1e-4)
    assert np.abs(maps[0, 1:]).max() < 1e-6


EVEN = np.array([0.0, 0.002, -0.002])


@pytest.mark.parametrize(
    ("sums", "alone", "word"),
    [
        ([0.90 + EVEN, 0.90 + EVEN], [0.80 + EVEN, 0.90 + EVEN], "holds"),  # where noise costs nothing it is not asked
        ([0.80 + EVEN, 0.90 + EVEN], [0.80 + EVEN, 0.90 + EVEN], "does not hold"),
        ([0.84 + 20 * EVEN, 0.90 + EVEN], [0.80 + EVEN, 0.90 + EVEN], "not decided"),
        ([0.84 + EVEN, 0.90 + EVEN], [0.80 + 40 * EVEN, 0.90 + EVEN], "not decided"),  # the control costs 10 +- 20
        ([0.90 + EVEN, 0.90 + EVEN], [0.90 + EVEN, 0.90 + EVEN], "not testable here"),
        ([[0.90], [0.90]], [[0.80], [0.90]], "not decided"),
    ],
)
def test_a_secure_sum_is_judged_where_noise_costs_something(sums, alone, word):
    of = lambda rows: xr.DataArray(np.array(rows), {"epsilon": [1.0, 16.0]}, ("epsilon", "seed"))
    assert equal_epsilon.summed(of(sums), of(alone)).said == word
