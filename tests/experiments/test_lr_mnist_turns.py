"""The card `lr_mnist` as Flower's clients train it, in NumPy, against ours; the table of their times."""

import json
import pathlib
import time

import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from experiments.anchors import lr_mnist
from experiments.benchmarks.lr_mnist_turns import numpy_training as theirs
from experiments.benchmarks.lr_mnist_turns import our_run, table, turns
from fedjax_priv import models

SMALL = lr_mnist.Config(dataset="digits", devices=30, cohort=4, rounds=4, every=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("given")
    turns.prepare(SMALL, made)
    return made


def averaged(given, how, rounds):
    """Rounds of FedAvg, in float64."""
    params = theirs.unravelled(np.array(given.initial, float))
    for t in range(rounds):
        made = [theirs.trained(given, params, (t, place), how) for place in range(how["cohort"])]
        weights = np.array([samples for _, samples in made]) / sum(samples for _, samples in made)
        params = [np.tensordot(weights, np.stack(parts), 1) for parts in zip(*(one for one, _ in made), strict=True)]
    return params


@pytest.mark.parametrize("outputs", [lr_mnist.SIGMOID, lr_mnist.LINEAR])
def test_ours_is_the_run_that_flower_is_given(folder, outputs):
    """Parameters and accuracies; with each device's samples in another order, other participants or outputs, not."""
    how = SMALL._asdict() | {"outputs": outputs, "save": "ours.npy"}
    begun = time.time()
    found = our_run.run(folder, how, begun)
    assert 0 < found["compile_seconds"] < found["start_seconds"] < found["seconds"] <= time.time() - begun
    assert found["start_seconds"] + SMALL.rounds * found["round_seconds"] == pytest.approx(found["seconds"])
    theirs.read.cache_clear()
    given, ours = theirs.read(str(folder)), np.load(folder / "ours.npy")
    apart = lambda given, how=how: abs(theirs.ravelled(averaged(given, how, SMALL.rounds)) - ours).max()
    assert apart(given) < 1e-6 < 1e-2 < abs(ours - given.initial).max()
    for rounds, accuracy in zip((0, 2, 4), found["accuracy"], strict=True):
        assert theirs.accuracy(averaged(given, how, rounds), given, outputs) == pytest.approx(accuracy, abs=1e-3)
    count = np.diff(given.start)[given.devices]
    backwards = np.array(given.orders)
    for at in np.ndindex(count.shape):
        first = backwards[at][: count[at]]
        assert sorted(first) == list(range(count[at])), "each sample once"
        backwards[at][: count[at]] = first[::-1]
    assert apart(given._replace(orders=backwards)) > 1e-4
    in_turn = given._replace(orders=np.tile(np.arange(200), (*count.shape, 1)))
    others = in_turn._replace(devices=(given.devices + 1) % SMALL.devices)
    assert apart(others) > 2 * apart(in_turn) > 2e-4
    other = {lr_mnist.SIGMOID: lr_mnist.LINEAR, lr_mnist.LINEAR: lr_mnist.SIGMOID}[outputs]
    assert apart(given, how | {"outputs": other}) > 1e-3


def test_the_folder_has_the_card_s_split_and_initial_parameters(folder):
    model = models.from_flax(lr_mnist.Network(lr_mnist.LINEAR), (64,))
    x, y = lr_mnist.standardised(turns.load(turns.Task("digits")))
    card, again = lr_mnist.devices_of(SMALL, x, y, SMALL.seed), our_run.devices(folder)
    np.testing.assert_array_equal(again.pool.count, card.pool.count)
    for mine, same in zip(again.pool.fetch(np.arange(30)), card.pool.fetch(np.arange(30)), strict=True):
        np.testing.assert_array_equal(mine, same)
    np.testing.assert_array_equal(again.x_test, card.x_test)
    np.testing.assert_array_equal(again.y_test, card.y_test)
    starts = [np.asarray(ravel_pytree(model.init(lr_mnist.key_of(SMALL, seed)))[0]) for seed in (0, 1)]
    np.testing.assert_array_equal(theirs.read(str(folder)).initial, starts[SMALL.seed])
    assert abs(starts[0] - starts[1]).max() > 0.1, "seeds have their own"


@pytest.mark.parametrize(("which", "off", "fails"), [(1, 9e-5, False), (1, 2e-4, True), (2, np.nan, True)])
def test_runs_that_are_not_the_same_stop_the_benchmark(folder, monkeypatch, which, off, fails):
    """All processes are told the same work; two are of Flower's Python, with its own number of supernodes each."""
    told = []

    def run(command, *_):
        np.save(folder / json.loads(command[-2])["save"], np.full(3, off * (len(told) == which)))
        told.append(command)
        return {"seconds": 1.0}

    monkeypatch.setattr(turns, "run_json", run)
    call = lambda: turns.turn(SMALL, lr_mnist.LINEAR, folder, pathlib.Path("flower"), 10)
    if fails:
        with pytest.raises(ValueError, match="all must do the same"):
            call()
        return
    assert [one["difference"] for one in call().values()] == [0, off, 0]
    assert [command[0] == "flower" for command in told] == [False, True, True]
    hows = [json.loads(command[-2]) for command in told]
    assert [how.pop("supernodes") for how in hows] == [0, 30, 4] and len({how.pop("save") for how in hows}) == 3
    assert hows[0] == hows[1] == hows[2] and hows[0]["outputs"] == lr_mnist.LINEAR and hows[0]["rounds"] == 4


def of(seconds, round_seconds, accuracy, difference=0.0):
    start = seconds - 100 * round_seconds
    numbers = {"seconds": seconds, "round_seconds": round_seconds, "start_seconds": start, "difference": difference}
    return numbers | {"accuracy": [10.0, accuracy], "versions": {"numpy": "2"}}


def test_the_table_has_medians_and_ratios_of_the_same_repeat(tmp_path):
    """Ratios 2, 3 and 10 have the median 3, which is not the ratio of the medians, 4."""
    ours = of(10, 0.05, 80.0), of(20, 0.1, 80.0), of(4, 0.02, 80)
    flower = of(20, 0.1, 80.0), of(60, 0.6, 80.1, 2e-7), of(40, 0.1, 80, 1e-7)
    runs = [{"outputs": "linear", "ours": a, "flower": b, "flower_few": a} for a, b in zip(ours, flower, strict=True)]
    made = {"machine": {"date": "2026-01-02T", "commit": "abc", "cpu": "CPU", "cores": 2, "load": 0.26}}
    made |= {"config": lr_mnist.Config(outputs=("linear",))._asdict(), "prepare_seconds": 3.0, "runs": runs}
    table.write(tmp_path, made)
    text = (tmp_path / "lr_mnist.md").read_text()
    first, second, third = (line.split(" | ")[1:9] for line in text.splitlines()[-3:])
    assert first == ["fedjax_priv", "10.0", "4.0 - 20.0", "5.0", "0.0500", "", "80.00", ""]
    assert second[1:] == ["40.0", "20.0 - 60.0", "10.0", "0.1000", "3.0, 5.0", "80.00 or 80.10", "2e-07"]
    assert third[1:] == ["10.0", "4.0 - 20.0", "5.0", "0.0500", "1.0, 1.0", "80.00", "0e+00"]
    assert "2026-01-02, commit abc, CPU, 2 cores, load 0.3" in text and "100 rounds, repeats: 3" in text
    assert "took 3.0 s" in text and table.committed(tmp_path / "lr_mnist.json") in text
    assert table.committed(tmp_path / "none.json") == "Not run on a quiet machine yet."
