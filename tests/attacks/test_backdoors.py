"""Backdoors: the trigger, the poisoned samples, model replacement, and their success."""

import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import fedjax_priv
from fedjax_priv import clients, data, losses, metrics, models, simulate, systems
from fedjax_priv.aggregators import coordinate_median, mean, trimmed_mean
from fedjax_priv.analysis import uncovered_rounds
from fedjax_priv.attacks import PixelTrigger, model_replacement, plant_backdoor
from fedjax_priv.base import ClientData, Model
from helpers import refuses, targets, towards_target

KEY = jax.random.key(5)
PLAIN_MEAN = mean()._replace(most_byzantine=None)
IMAGES = np.random.default_rng(0).uniform(0, 0.5, (3, 10, 6, 5, 2)).astype(np.float32)
BYTES = np.zeros((2, 4, 4, 1), np.uint8)
LABELS = np.random.default_rng(1).integers(1, 4, (3, 10)).astype(np.int32)
DATA = ClientData((IMAGES, LABELS), jnp.full(3, 10, jnp.int32))


def test_the_trigger_is_the_last_corner():
    expected = IMAGES.copy()
    expected[..., 4:, 3:, :] = 0.9
    for x in (IMAGES, jnp.asarray(IMAGES)):
        stamped = PixelTrigger(2, 0.9)(x)
        assert isinstance(stamped, np.ndarray) == isinstance(x, np.ndarray)
        np.testing.assert_array_equal(stamped, expected)


@pytest.mark.parametrize(("dtype", "brightest"), [(np.float32, 1), (np.uint8, 255), (np.uint16, 65535), (bool, True)])
def test_the_trigger_is_as_bright_as_a_pixel_can_be(dtype, brightest):
    x = np.zeros((2, 4, 4, 1), dtype)
    for images in (x, jnp.asarray(x)):
        stamped = PixelTrigger(1)(images)
        assert stamped.dtype == dtype and stamped[0, 3, 3, 0] == brightest and np.count_nonzero(stamped) == 2
    grey = PixelTrigger(1, 17)(np.zeros((1, 1, 1), np.int32))
    assert grey.item() == 17 and grey.dtype == np.int32


@pytest.mark.parametrize("fraction", [0.3, 0.5, 1.0, 0.05])
def test_a_fraction_of_the_samples_of_the_attackers_is_changed(fraction):
    byzantine = np.array([False, True, False])
    (x, y), _ = poisoned = plant_backdoor(DATA, byzantine, target=0, fraction=fraction)
    changed = y != LABELS
    assert changed.sum(1).tolist() == [0, int(10 * fraction + 1e-9), 0] and (y[changed] == 0).all()
    assert (y[1][:5] == 0).sum() == int(5 * fraction + 1e-9), "in any run of them"
    np.testing.assert_array_equal(x[changed], PixelTrigger()(IMAGES)[changed])
    np.testing.assert_array_equal(x[~changed], IMAGES[~changed])
    assert x.dtype == IMAGES.dtype and y.dtype == LABELS.dtype and poisoned.count is DATA.count


# Model replacement


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_the_mean_lands_on_the_attackers_model(rate):
    """Honest updates cancel; two of six attack and want the model `w - u`; by NumPy."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6, 5)).astype(np.float32)
    x[2:] -= x[2:].mean(0)
    byzantine = jnp.arange(6) < 2
    sent = model_replacement(rate)(KEY, jnp.asarray(x), ~byzantine, byzantine)
    rows = np.where(np.arange(6)[:, None] < 2, sent, x)
    np.testing.assert_allclose(rate * rows.mean(0), x[:2].mean(0), atol=1e-5)


def test_clients_that_take_no_part_are_no_clients_of_the_mean():
    """Three of five take part, one of them Byzantine: three times its own update."""
    there, byzantine = jnp.array([True, True, False, True, False]), jnp.array([False, True, False, False, False])
    sent = model_replacement()(KEY, jnp.ones((5, 2)), there & ~byzantine, byzantine)
    np.testing.assert_array_equal(sent[1], [3.0, 3.0])


def test_a_norm_bound_keeps_the_direction():
    x = np.random.default_rng(4).normal(size=(6, 5)).astype(np.float32)
    byzantine = jnp.arange(6) < 2
    sent = model_replacement(largest_norm=0.5)(KEY, jnp.asarray(x), ~byzantine, byzantine)
    free = model_replacement()(KEY, jnp.asarray(x), ~byzantine, byzantine)
    np.testing.assert_allclose(np.linalg.norm(sent, axis=1), 0.5, rtol=1e-5)
    np.testing.assert_allclose(sent / 0.5, free / np.linalg.norm(free, axis=1)[:, None], rtol=1e-5)
    loose = model_replacement(largest_norm=1e3)(KEY, jnp.asarray(x), ~byzantine, byzantine)
    np.testing.assert_array_equal(loose, free)


# Success


def test_success_leaves_out_samples_of_the_target_label():
    """A model that looks at one pixel of the trigger: without it nothing is class 2, with it everything."""
    logits = lambda params, x: jax.nn.one_hot(jnp.where(x[:, -1, -1, 0] > params, 2, 0), 3)
    model = Model(lambda key: jnp.float32(0.8), logits)
    x, y = IMAGES[0], np.array([2] * 4 + [0, 1] * 3, np.int32)
    success = functools.partial(metrics.attack_success, model, x, y, trigger=PixelTrigger(2))
    measured = jax.jit(metrics.together(success(target=2), metrics.accuracy(model, x, y)))(jnp.float32(0.8))
    assert measured["attack_success"] == 1 and measured["accuracy"] == pytest.approx(0.3)
    assert jax.jit(success(target=2))(jnp.float32(1.0))["attack_success"] == 0
    assert jax.jit(success(target=1))(jnp.float32(0.8))["attack_success"] == 0
    mixed = np.where(np.arange(10)[:, None, None, None] % 2, x, -x)  # half of the trigger's effect is undone below
    half = lambda x: np.where(x.sum((1, 2, 3), keepdims=True) > 0, PixelTrigger(2)(x), x)
    halved = lambda x: jax.jit(metrics.attack_success(model, x, y, target=2, trigger=half))(jnp.float32(0.8))
    assert halved(mixed)["attack_success"] == 0.5
    others = np.where(np.arange(10)[:, None, None, None] >= 4, x, -x)  # no trigger on those of the label itself
    assert halved(others)["attack_success"] == 1
    with pytest.raises(
        ValueError, match="^evaluations must measure under different names, got ..attack_success.. twic"
    ):
        metrics.together(success(target=2), success(target=1))(jnp.float32(0.8))


LINEAR = models.softmax_regression((6, 5, 2), 4)
DIGITS = data.digits()
N, F, TARGET = 12, 2, 7


@pytest.fixture(scope="module")
def outcomes():
    """The last metrics of a run by name: without attack, under the mean, and under the trimmed mean."""
    model = models.softmax_regression((8, 8, 1), 10)
    train = data.federate(DIGITS, num_clients=N, partition="iid")
    trigger = PixelTrigger(2)
    bad = plant_backdoor(train, F, target=TARGET, trigger=trigger)
    evaluate = metrics.together(
        metrics.accuracy(model, DIGITS.x_test, DIGITS.y_test),
        metrics.attack_success(model, DIGITS.x_test, DIGITS.y_test, target=TARGET, trigger=trigger),
    )
    local = clients.local_sgd(losses.softmax_cross_entropy(model), learning_rate=0.3, batch_size=20, num_steps=5)
    attack = {"num_byzantine": F, "attack": model_replacement()}
    cases = {"none": (train, {}), "mean": (bad, attack), "trimmed": (bad, attack | {"aggregate": trimmed_mean(F)})}
    found = {}
    for name, (samples, how) in cases.items():
        system = systems.robust_fedavg(local, num_clients=N, **{"aggregate": PLAIN_MEAN, **how})
        run = simulate(system, KEY, model.init(KEY), samples, rounds=25, evaluate=evaluate, progress=False)
        found[name] = {metric: float(run[metric][-1]) for metric in ("accuracy", "attack_success")}
    return found


def test_a_backdoor_succeeds_under_the_mean_and_not_under_a_robust_rule(outcomes):
    base = outcomes["none"]["attack_success"]
    assert outcomes["mean"]["attack_success"] >= base + 0.5, "the control: the attack bites"
    assert outcomes["trimmed"]["attack_success"] < base + 0.2
    assert outcomes["trimmed"]["accuracy"] > outcomes["none"]["accuracy"] - 0.05 > 0.8


# Byzantine clients anywhere in a population of which rounds draw cohorts


def test_a_rule_is_covered_in_rounds_to_which_few_byzantine_clients_come():
    """Three of ten clients send 100; a trimmed mean that was told of one leaves one out, and not two."""
    byzantine = np.isin(np.arange(10), [1, 4, 8])  # a list is a mask, too
    sent = lambda key, updates, honest, byzantine: jnp.full_like(updates[:1], 100.0)
    system = systems.robust_fedavg(
        towards_target(), num_clients=10, cohort_size=5, aggregate=trimmed_mean(1), num_byzantine=1,
        byzantine=byzantine.tolist(), attack=sent, server=optax.sgd(0.0), mesh=None,
    )  # fmt: skip
    samples, step = targets(10, 3), jax.jit(system.step)
    state, infos = system.init(KEY, jnp.zeros(3), samples), []
    for _ in range(30):
        state, info = step(KEY, state, samples)
        infos.append(info)
    client, counted = (np.stack([getattr(info, name) for info in infos]) for name in ("client", "counted"))
    run = xr.Dataset({"client_id": (("round", "client"), client), "counted": (("round", "client"), counted)})
    came = byzantine[client].sum(1)
    assert set(came.tolist()) >= {0, 1, 2}, "covered rounds, and others"
    uncovered = uncovered_rounds(run, byzantine, 1)
    np.testing.assert_array_equal(uncovered, came > 1)
    np.testing.assert_array_equal([np.abs(info.direction).max() > 10 for info in infos], uncovered)
    lost = run.assign(counted=run.counted & ~byzantine[client])
    assert not uncovered_rounds(lost, byzantine, 0).any(), "they sent, and nothing arrived"
    np.testing.assert_array_equal(uncovered_rounds(run, byzantine, trimmed_mean(1)), uncovered)
    with pytest.raises(ValueError, match="^tolerated must be an integer >= 0, got -1"):
        uncovered_rounds(run, byzantine, -1)
    with pytest.raises(ValueError, match="^tolerated must be an integer >= 0 or a rule with most_byzantine"):
        uncovered_rounds(run, byzantine, mean()._replace(most_byzantine=None))
    with pytest.raises(ValueError, match="^byzantine must be a bool mask of all clients, more than 9, got bool"):
        uncovered_rounds(run, byzantine[:9], 1)


def test_fewer_are_tolerated_where_honest_uploads_are_lost():
    """The median of ten rows tolerates four, and of seven three; of one or two rows, or of none, no attacker."""
    byzantine, client = np.arange(10) < 4, np.tile(np.arange(10), (5, 1))
    counted = np.stack([np.arange(10) < number for number in (10, 7, 2, 0)] + [np.arange(10) >= 9])
    run = xr.Dataset({"client_id": (("round", "client"), client), "counted": (("round", "client"), counted)})
    assert uncovered_rounds(run, byzantine, 4).tolist() == [False] * 5
    found = uncovered_rounds(run, byzantine, coordinate_median())
    assert found.tolist() == [False, True, True, False, False]
    found = uncovered_rounds(run, byzantine, trimmed_mean(1))  # two rows are too few for it
    assert found.tolist() == [True, True, True, False, False]


def test_behind_a_secure_sum_a_rule_tolerates_a_minority_of_groups_and_not_of_clients():
    """The median of four groups of four clients tolerates one, of three groups one, and of two none.

    In the last round three groups have no members, which is no failure of theirs.
    """
    client, byzantine = np.tile(np.arange(16), (5, 1)), np.arange(16) < 2
    lost = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]])
    counted = np.repeat(lost == 0, 4, axis=1)
    counted[0, 1] = counted[2, 1] = False  # one attacker alone in the first round and the third
    counted[4] = client[4] == 0
    rows = {"client_id": client, "counted": counted}
    run = xr.Dataset({name: (("round", "client"), values) for name, values in rows.items()})
    run["group_status"] = ("round", "group"), lost
    assert uncovered_rounds(run, byzantine, coordinate_median()).tolist() == [False, True, True, False, True]
    assert uncovered_rounds(run, byzantine, 2).tolist() == [False] * 5


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_uncovered_rounds_of_a_run_of_secure_sums(dropout):
    """Against the rows that the rule was given, as the server sees them."""
    system = systems.share(
        towards_target(), num_clients=8, buffer_size=2, aggregate=coordinate_median(), num_byzantine=1, dropout=dropout,
        mesh=None, observe=lambda view: {"rows": (view.rows.count > 0).sum()},
    )  # fmt: skip
    run = simulate(system, KEY, jnp.zeros(9), targets(8, 9), rounds=30, progress=False)
    attacker = run.counted.values[run.client_id.values == 0] == 1
    expected = attacker & ((run.rows.values - 1) // 2 < 1)
    np.testing.assert_array_equal(uncovered_rounds(run, np.arange(8) < 1, coordinate_median()), expected)
    assert expected.any() == (dropout > 0)


def test_uncovered_rounds_of_cohorts_of_several_sizes():
    """As of each run alone; a list is a mask, too."""
    byzantine = [True, False, True, False, False, False]
    make = lambda cohort_size: systems.fedavg(towards_target(), cohort_size=cohort_size, dropout=0.3, mesh=None)
    how: Any = dict(key=KEY, params=jnp.zeros(9), data=targets(6, 9), rounds=6, progress=False)
    alone = [uncovered_rounds(simulate(make(size), **how), np.array(byzantine), 0) for size in (2, 4)]
    found = uncovered_rounds(fedjax_priv.sweep(make, {"cohort_size": [2, 4]}, **how), byzantine, 0)
    np.testing.assert_array_equal(found, alone)
    assert found.any(1).all() and not found.all(1).any()


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: PixelTrigger(7)(IMAGES), "x must be images .* of 7 pixels or more each way, got"),
    (lambda: PixelTrigger(0)(IMAGES), "size must be an integer >= 1, got 0"),
    (lambda: PixelTrigger(1, np.nan)(IMAGES), "value must be a finite number, got nan"),
    (lambda: PixelTrigger(1, 0.5)(BYTES), "value must be an integer from 0 to 255 for uint8 images, got 0.5"),
    (lambda: PixelTrigger(1, 256)(BYTES), "value must be an integer from 0 to 255 for uint8 images, got 256"),
    (lambda: PixelTrigger(1, float("nan"))(BYTES), "value must be an integer from 0 to 255 for uint8 images, got nan"),
    (lambda: PixelTrigger(1)(BYTES.astype(np.int32)), "value must be an integer from .* for int32 images, got None"),
    (
        lambda: inspect.unwrap(plant_backdoor)(DATA, 1, target=1, trigger=1),
        "trigger must be a function of .images., got",
    ),
    (lambda: plant_backdoor(DATA, 1, target=-1), "target must be an integer >= 0, got -1"),
    (lambda: plant_backdoor(DATA, 1, target=1, fraction=0.0), "fraction must be a number in .0, 1., got 0.0"),
    (
        lambda: plant_backdoor(DATA, np.ones(2, bool), target=1),
        "byzantine must be .* bool mask of shape .3,., got bool",
    ),
    (lambda: plant_backdoor(DATA, 4, target=1), "byzantine must be an integer from 0 to 3, got 4"),
    (
        lambda: plant_backdoor(ClientData((IMAGES, LABELS.astype(np.uint8)), DATA.count), 1, target=300),
        "target must be at most 255 for uint8 labels, got 300",
    ),
    (
        lambda: plant_backdoor(ClientData((IMAGES.reshape(3, 10, -1), LABELS), DATA.count), 1, target=1),
        r"data.examples must be images .n, m, h, w, c. and labels .n, m., got \(3, 10, 60\) and \(3, 10\)",
    ),
    (
        lambda: plant_backdoor(ClientData((IMAGES[..., 0], LABELS), DATA.count), 1, target=1),
        r"data.examples must be images .* got \(3, 10, 6, 5\) and \(3, 10\)",
    ),
    (
        lambda: plant_backdoor(ClientData((IMAGES, LABELS[..., None]), DATA.count), 1, target=1),
        "data.examples must be images",
    ),
    (
        lambda: plant_backdoor(ClientData((IMAGES, LABELS[:, :5]), DATA.count), 1, target=1),
        "data.examples must be images",
    ),
    (lambda: plant_backdoor(DATA._replace(examples=IMAGES), 1, target=1), "data.examples must be a pair "),
    (lambda: model_replacement(0.0), "server_rate must be a finite number > 0, got 0.0"),
    (lambda: model_replacement(largest_norm=-1.0), "largest_norm must be a finite number > 0, got -1.0"),
    (
        lambda: metrics.attack_success(LINEAR, IMAGES[0], np.full(10, 3), target=3, trigger=PixelTrigger()),
        "y must have labels other than target = 3, got no other",
    ),
    (
        lambda: systems.robust_fedavg(towards_target(), num_clients=4, byzantine=np.ones(3, bool)),
        "byzantine must be a bool mask of shape .4,., got bool .3,.",
    ),
    (
        lambda: systems.robust_fedavg(towards_target(), num_clients=4, byzantine=[1, 0, 0, 0]),
        "byzantine must be a bool mask of shape .4,., got int64 .4,.",
    ),
    (
        lambda: systems.robust_fedavg(towards_target(), num_clients=9, byzantine=np.arange(9) < 3, num_byzantine=2),
        "num_byzantine must be at least 3, those in byzantine, got 2",
    ),
)
