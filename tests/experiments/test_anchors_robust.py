"""Cards of bucketing and of ByzFL's heat map: their settings, and which verdict which accuracies lead to."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments.anchors import bucketing, bucketing_claims, heat_map, heat_map_claims, heat_map_printed, networks
from experiments.anchors.bucketing_claims import Config
from experiments.anchors.bucketing_printed import ORDER, PRINTED, margin
from experiments.anchors.figures import FIGURES
from experiments.anchors.heat_map_claims import MEAN, NONE, worst
from experiments.claims import Open
from fedjax_priv import aggregators, data, models, testing
from fedjax_priv.base import Received

KEY = jax.random.key(0)


def test_networks_are_those_of_the_sources():
    sizes = [jax.eval_shape(of("mnist").init, KEY) for of in (networks.bucketing, networks.byzfl)]
    assert [models.num_params(params) for params in sizes] == [1_199_882, 431_080]
    layer = networks.byzfl("digits").init(KEY)["Dense_0"]
    assert abs(layer["kernel"]).max() <= 50**-0.5 and abs(layer["bias"]).max() > 0.9 * 50**-0.5


LOSS = jax.jit(networks.bucketing_loss())
SHAPES = jax.eval_shape(networks.bucketing("digits").init, KEY)
BATCH = np.ones((8, 8, 8, 1), np.float32), np.zeros(8, np.int32)


def test_dropout_is_frozen_by_place_in_the_batch():
    params = jax.tree.map(lambda a: np.random.default_rng(0).standard_normal(a.shape).astype(np.float32), SHAPES)
    one = LOSS(params, BATCH)
    assert (one == LOSS(params, BATCH)).all() and len({*one.tolist()}) == 8


def test_training_sees_pixels_as_evaluation_does():
    """An image of the mean pixel is 0, so without biases all logits are; another image is not."""
    draw = lambda path, a: np.random.default_rng(0).standard_normal(a.shape) * (path[-1].key == "kernel")
    params = jax.tree.map_with_path(lambda path, a: draw(path, a).astype(np.float32), SHAPES)
    x, y = np.full_like(BATCH[0], networks.MEAN), BATCH[1]
    np.testing.assert_allclose(LOSS(params, (x, y)), np.log(10), rtol=1e-5)
    assert not (abs(LOSS(params, BATCH) - np.log(10)) < 1e-2).any()
    assert abs(jax.jit(networks.bucketing("digits").apply)(params, x)).max() < 1e-4


def test_channels_are_dropped_whole():
    """Channels are constant over the image, and units compare two of its places: 0 unless one place was dropped."""
    params = jax.tree.map(lambda a: np.zeros(a.shape, np.float32), SHAPES)
    params["Conv_1"]["bias"][:] = 1
    kernel = params["Dense_0"]["kernel"].reshape(4, 64, 128)
    kernel[0, :, ::2] = kernel[1, :, 1::2] = 1
    kernel[1, :, ::2] = kernel[0, :, 1::2] = -1
    params["Dense_1"]["kernel"][:, 0] = 1
    np.testing.assert_allclose(LOSS(params, BATCH), np.log(10), rtol=1e-3)
    kernel[1] *= 2
    assert not np.allclose(LOSS(params, BATCH), np.log(10), rtol=1e-3), "the control"


def test_krum_of_fourth_powers():
    """As in NumPy, and in some cases another row than Krum's."""
    rows = np.random.default_rng(3).standard_normal((40, 11, 2)).astype(np.float32)
    squared = ((rows[:, :, None] - rows[:, None]) ** 2).sum(-1)
    scores = np.sort(squared**2, 2)[:, :, 1 : 11 - 3 - 2 + 1].sum(2)
    expected = rows[np.arange(40), scores.argmin(1)]
    several = jax.jit(
        lambda x: [
            jax.vmap(functools.partial(direction, rule))(x)
            for rule in (bucketing.krum_of_fourth_powers(3), aggregators.krum(3))
        ]
    )
    found, plain = several(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (abs(plain - expected).max(1) > 1e-3).any()


def direction(rule, rows):
    return rule.apply(KEY, rule.init(rows.shape[1]), Received(rows, jnp.ones(len(rows), jnp.int32)))[0]


def test_the_worker_of_the_first_round_is_copied_for_good():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 6, 5)).astype(np.float32)
    byzantine = np.arange(6) < 2
    cohort = testing.cohort_of(6)._replace(byzantine=jnp.asarray(byzantine))
    apart = first[2:] - first[2:].mean(0)
    z = (apart @ np.asarray(jax.random.normal(KEY, (5,)))) @ apart
    target = 2 + int((first[2:] @ z).argmax())
    layer = bucketing.mimic_after_a_step()
    state = layer.init(KEY, 6)
    for rows in (first, second):
        sent, state, _ = layer.encode(KEY, state, (), jnp.asarray(rows), cohort)
        np.testing.assert_array_equal(sent[:2], np.stack([rows[target]] * 2))
        np.testing.assert_array_equal(sent[2:], rows[2:])
    again, _, _ = layer.encode(KEY, layer.init(KEY, 6), (), jnp.asarray(second), cohort)
    assert (again[0] != second[target]).any(), "the second round alone would choose another"


def test_workers_hold_what_the_authors_give_them():
    y = np.random.default_rng(0).integers(0, 10, 400)
    x = np.arange(400, dtype=np.float32)[:, None]
    held = bucketing.federated(Config(), x, y)
    numbers, labels = held.examples
    assert (held.count == 20).all() and len(held.count) == 25
    honest = labels[5:].ravel()
    assert (np.diff(honest) >= 0).all() and len(np.unique(numbers[5:])) == 400
    assert len(np.unique(labels[:5])) == 10 and all(len(np.unique(row)) == 20 for row in numbers[:5])
    images, counted = bucketing.counted(data.Dataset(x, y, x[:300], y[:300], 10))
    assert len(images) == 256 and (np.diff(counted) >= 0).all()


def of_table(shift=0.0, alone=99.0, seeds=3, spread=0.1, alone_spread=0.1):
    """The outcome of runs that end `shift` above the printed table, without attack at `alone`."""
    noise = spread * np.linspace(-1, 1, seeds)
    names = list(PRINTED)
    printed = np.array([[PRINTED[name][size].mean for size in (1, 2)] for name in names])
    last = printed[:, :, None, None] + shift + noise[:, None] + np.zeros(5)
    values = np.concatenate([np.zeros((5, 2, seeds, 15)), last], -1)
    free = np.full((5, seeds, 20), float(alone)) + alone_spread * np.linspace(-1, 1, seeds)[:, None]
    result = xr.Dataset(
        {"accuracy": (("name", "size", "seed", "evaluation"), values), "alone": (("name", "seed", "evaluation"), free)},
        {"name": names, "size": [1, 2], "seed": range(seeds)},
    )
    made = bucketing.judge(Config(), result)
    return {claim.id: claim._replace(differs="").said for claim in made.claims}, made


def test_controls_of_one_seed_decide_nothing_and_leave_values_decided():
    _, made = of_table()
    few = made.data.seed < 1
    few = made.data.assign(
        alone=made.data.alone.where(few), accuracy=made.data.accuracy.where(few | (made.data.name != "Avg"))
    )
    judged = bucketing.judge(Config(controls=1), few).claims
    said = {claim.id: claim._replace(differs="").said for claim in judged}
    assert all("(one seed)" in claim.found for claim in judged if claim.id in ("Avg s = 1", "mean-loses"))
    assert said["joint"] == "holds" and said["CClip s = 1"] == said["RFA s = 2"] == "reproduced"
    assert {said[name] for name in ("Avg s = 1", "mean-loses", "order RFA, CM", "buckets Krum")} == {"not decided"}
    said = {claim.id: claim.said for claim in bucketing.judge(Config(), few).claims}
    assert said["Avg s = 1"] == "not decided" and said["joint"] == "holds"


def test_intervals_hold_most_printed_values_or_not():
    """Theirs spread little for RFA and CClip with buckets, and CClip without."""
    assert of_table(shift=0.6)[0]["joint"] == "holds"  # all but CClip without buckets
    assert of_table(shift=2.0)[0]["joint"] == "does not hold"
    assert of_table(seeds=1)[0]["joint"] == "not decided"
    _, made = of_table()
    lost = made.data.assign(accuracy=made.data.accuracy.where((made.data.name != "CM") | (made.data.seed > 0)))
    assert "not decided" in [claim.said for claim in bucketing.judge(Config(), lost).claims if claim.id == "joint"]


def test_verdicts_on_the_printed_table():
    said, made = of_table()
    kept = {name: said[name] for name in ("Avg s = 1", "RFA s = 2", "CClip s = 1", "Krum s = 1", "CM s = 2")}
    assert [*kept.values()] == ["reproduced"] * 3 + ["not decided"] * 2  # Krum and CM spread by more than 1.2
    assert all(said[f"order {a}, {b}"] == "holds" for a, b in itertools.pairwise(ORDER))
    assert {said[f"buckets {name}"] for name in ("Krum", "CM", "RFA")} == {"holds"}
    assert said["buckets CClip"] == "not testable here" and said["mean-loses"] == "does not hold"
    assert any("not testable here" in line for line in made.caveats)
    assert "not testable here" in made.figure.axes[0].get_title()


def test_verdicts_that_say_no():
    assert of_table(shift=-8.0)[0]["CClip s = 2"] == "differs"
    assert of_table(shift=5.0)[0]["Avg s = 1"] == "better than printed"
    assert of_table(alone=200.0)[0]["mean-loses"] == "holds"
    said, _ = of_table(seeds=1)
    assert {word for name, word in said.items() if name != "buckets CClip"} == {"not decided"}
    flat = of_table(alone=30.0)[0]
    assert {flat[f"buckets {name}"] for name in PRINTED if name != "Avg"} == {"not testable here"}


def test_a_tie_is_no_order():
    """In points: an interval of +- .25 that holds 0 says that neither is above."""
    _, made = of_table()
    last = bucketing_claims.last_of(Config(), made.data.assign(accuracy=made.data.accuracy * 0 + 50.0))
    noise = (
        xr.DataArray([-0.1, 0.0, 0.1], dims="seed") * last.rules["size"] * xr.where(last.rules["name"] == "RFA", 2, 1)
    )
    said = lambda last: [bucketing_claims.helps(last, "Krum").said, bucketing_claims.above(last, "RFA", "Krum").said]
    assert said(last._replace(rules=last.rules + noise)) == ["does not hold"] * 2
    assert said(last._replace(rules=last.rules + 3 * noise)) == ["not decided"] * 2  # +- .75


def test_a_control_that_seeds_do_not_decide_decides_nothing():
    """The attack costs CM 35 +- 50 points, and CClip 7: the former may bite."""
    said, _ = of_table(alone_spread=20.0)
    assert {said[f"buckets {name}"] for name in ("CM", "RFA")} == {"not decided"}
    assert said["buckets CClip"] == "not testable here"


def test_the_best_rule_must_be_better():
    _, made = of_table()
    worse = made.data.assign(accuracy=made.data.accuracy.isel(size=[1, 0]).assign_coords(size=[1, 2]))
    said = {claim.id: claim.said for claim in bucketing.judge(Config(), worse).claims}
    assert said["buckets Krum"] == "does not hold"
    margins = [margin(PRINTED[name][size]) for name, size in (("CClip", 1), ("Avg", 1), ("RFA", 2), ("Krum", 1))]
    assert margins == [0.5, 1, 3, 0]


def of_map(robust, mean=0.3, seeds=3, gammas=(0.0, 0.33)):
    """`robust` above the printed ones under Opt-ALIE, 0.05 more under Opt-IPM; the second evaluation is the best."""
    rules, attacks = ["GM", "TM", MEAN], [NONE, "Opt-IPM", "Opt-ALIE"]
    best = np.full((4, 3, 3, len(gammas), seeds), 0.95)
    for (i, rule), (j, gamma), f in itertools.product(enumerate(rules[:2]), enumerate(gammas), range(1, 5)):
        worst_of = heat_map_printed.PRINTED[rule][gamma, f].mean + robust
        best[f - 1, i, 1:, j] = worst_of + np.array([[0.05], [0.0]])
    best[:, 2, 1:] = mean
    best += 0.002 * np.linspace(-1, 1, seeds)
    curve = np.stack([best - 0.1, best, best - 0.03], -1)
    return xr.DataArray(
        curve, dims=("f", "rule", "attack", "gamma", "seed", "evaluation"),
        coords={"f": [1, 2, 3, 4], "rule": rules, "attack": attacks, "gamma": list(gammas)},
    )  # fmt: skip


def words(accuracy):
    made = heat_map.judge(heat_map_claims.Config(), xr.Dataset({"accuracy": accuracy}))
    return {claim.id: claim._replace(differs="").said for claim in made.claims}, made


def test_the_worst_attack_at_its_best_evaluation():
    found = worst(of_map(0.0).sel(rule="TM", gamma=0.0, f=2))
    assert found.attack == "Opt-ALIE" and float(found.values.mean()) == pytest.approx(0.61)
    assert found.last == pytest.approx(0.58)


@pytest.mark.parametrize(
    ("robust", "mean", "seeds", "cell", "share"),
    [
        (0.0, 0.3, 3, "reproduced", "holds"),
        (-0.06, 0.3, 3, "differs", "does not hold"),
        (0.06, 0.3, 3, "better than printed", "does not hold"),
        (0.0, 0.9, 3, "not testable here", "holds"),
        (0.0, 0.3, 1, "not decided", "not decided"),
    ],
)
def test_verdicts_on_the_map(robust, mean, seeds, cell, share):
    said, made = words(of_map(robust, mean, seeds))
    cells = [word for name, word in said.items() if " gamma " in name]
    assert len(cells) == 16 and {*cells} == {cell} and said["map"] == share
    shown = " ".join(text.get_text() for axes in made.figure.axes for text in axes.texts)
    assert ("not testable here" in shown) == (mean == 0.9)


def test_a_mean_that_may_lose_nothing_leaves_a_cell_open():
    accuracy = of_map(0.0)
    swing = xr.DataArray([-0.4, 0.0, 0.4], dims="seed").where(accuracy.rule == MEAN, 0.0)
    said, _ = words(accuracy + swing.where(accuracy.attack == NONE, 0.0))
    assert {word for name, word in said.items() if " gamma " in name} == {"not decided"}


def test_a_map_with_a_run_without_a_value_is_open():
    accuracy = of_map(0.0)
    there = (accuracy.seed > 0) | (accuracy.rule != "TM") | (accuracy.f != 2)
    said, made = words(accuracy.where(there))
    assert said["map"] == "not decided" == said["TM gamma 0 f 2"] and said["TM gamma 0 f 1"] == "reproduced"
    assert [claim.note for claim in made.claims if claim.id == "map"] == ["2 cells have runs without a finite value"]


def test_more_labels_apart_must_leave_less():
    assert words(of_map(0.0))[0]["harder TM"] == "holds"
    turned = of_map(0.0).isel(gamma=[1, 0]).assign_coords(gamma=[0.0, 0.33])
    assert words(turned)[0]["harder TM"] == "does not hold"
    assert words(of_map(0.0, mean=0.9))[0]["harder GM"] == "not testable here"


def test_the_cpu_scales_differ_only_in_how_much_is_run():
    for name in ("bucketing", "heat_map"):
        of = FIGURES[name]
        assert of.differs(of.scales["cpu"], of.scales["paper"]) == ""
        assert of.scales["paper"].repeats == 3
        assert "dataset digits (paper: mnist)" in of.differs(of.scales["quick"], of.scales["paper"])


def test_defences_are_those_of_the_map():
    """Clipped to norm 2, mixed, then trimmed, in NumPy; the mean is refused nowhere."""
    rows = np.random.default_rng(1).standard_normal((12, 3)) * 3
    clipped = rows * np.minimum(1, 2 / np.linalg.norm(rows, axis=1))[:, None]
    near = np.argsort(((clipped[:, None] - clipped) ** 2).sum(-1), 1)[:, :10]
    mixed = np.sort(clipped[near].mean(1), 0)
    found = heat_map.defences(heat_map_claims.Config(), 2)
    np.testing.assert_allclose(found["TM"](rows), mixed[2:-2].mean(0), atol=1e-5)
    assert set(found) == {"GM", "TM", MEAN} and found[MEAN].most_byzantine is None


def test_on_other_data_printed_values_get_no_verdict():
    config = heat_map_claims.Config(dataset="digits")
    made = heat_map.judge(config, xr.Dataset({"accuracy": of_map(0.0)}))
    assert {claim.why for claim in made.claims if claim.verdict is None} == {Open.NOT_RUN}
