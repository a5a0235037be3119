"""The card on why FedAvg needs fewer rounds than printed: its batches, and which verdict which curves lead to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments.anchors import mcmahan_causes
from experiments.anchors.mcmahan_causes import BASE, PIXELS, Change, Config, batched, redrawn
from experiments.anchors.mcmahan_claims import Best
from fedjax_priv import data, models
from fedjax_priv.base import ClientData, Local
from fedjax_priv.testing import cohort_of

KEY, OTHER = jax.random.key(0), jax.random.key(1)
DATA = ClientData((jnp.arange(60.0).reshape(3, 20), jnp.arange(60).reshape(3, 20)), jnp.array([20, 12, 20]))


def drawn(batches, key):
    """What training gets: its key's first words and samples."""
    local = Local(lambda n, params: (), lambda key, memory, params, of, cohort: (jax.random.bits(key, (4,)), of))
    return batched(local, batches).apply(key, (), None, DATA, cohort_of(3))


def test_batches_of_a_change():
    assert batched(local := Local(None, None), "shuffled") is local
    (first, of), (second, _) = (drawn("same every round", key) for key in (KEY, OTHER))
    np.testing.assert_array_equal(first, second)
    assert of is DATA and (drawn("with replacement", KEY)[0] != drawn("with replacement", OTHER)[0]).all()


def test_samples_with_replacement_are_a_client_s_own_and_repeat():
    x, y = redrawn(KEY, DATA, cohort_of(3)).examples
    np.testing.assert_array_equal(x, y)  # images and labels stay together
    for mine, all_of, count in zip(np.asarray(y), np.asarray(DATA.examples[1]), DATA.count, strict=True):
        assert set(mine) <= set(all_of[:count].tolist()) and len(set(mine)) < 20
    assert (np.asarray(redrawn(OTHER, DATA, cohort_of(3)).examples[1]) != np.asarray(y)).any()
    many = jax.vmap(lambda key: redrawn(key, DATA, cohort_of(3)).examples[1])(jax.random.split(KEY, 400))
    often = np.bincount(np.asarray(many[:, 1]).ravel(), minlength=60)[20:32]
    assert abs(often - 8000 / 12).max() < 5 * (8000 / 12) ** 0.5


def test_pixels_of_a_change():
    model = models.softmax_regression((2,), 3)
    params = model.init(KEY)
    ends = {name: [float(of(x)) for x in (0.0, 1.0)] for name, of in PIXELS.items()}
    assert (ends["-0.5 to 0.5"], ends["0 to 1"]) == ([-0.5, 0.5], [0, 1])
    assert ends["standardised"] == pytest.approx([-0.4242, 2.8215], abs=1e-4)
    got = mcmahan_causes.seen(model, "-0.5 to 0.5").apply(params, jnp.array([[0.25, 1.0]]))
    np.testing.assert_allclose(got, model.apply(params, jnp.array([[-0.25, 0.5]])), rtol=1e-6)


def straight(rounds, evaluations=101):
    """A curve that reaches 97% at this round, and goes on rising."""
    return 0.97 * np.arange(evaluations) / rounds


def words(*changed, base=(34.0, 35.0, 36.0), evaluations=101, place=1, **how):
    """Claims by id, of curves `[change][seed]` at one of three rates; at the others they stay at 10%."""
    changes = tuple(Change(name, **{"rounds": 100} | how) for name in [BASE, *map(str, range(len(changed)))])
    curves = np.full((len(changes), 3, len(base), evaluations), 0.1)
    curves[:, place] = [[straight(r, evaluations) for r in row] for row in (base, *changed)]
    values = xr.DataArray(curves, dims=("change", "rate", "seed", "evaluation"), coords={
        "change": [change.name for change in changes], "rate": range(3), "evaluation": range(evaluations)})  # fmt: skip
    made = mcmahan_causes.judge(Config(changes), xr.Dataset({"accuracy": values}))
    return {claim.id: claim.said for claim in made.claims}, {claim.id: claim.found for claim in made.claims}


def test_what_has_the_printed_rounds():
    said, found = words([85, 87, 89], [50, 51, 52], [40, 70, 95], [80, 81, 300])
    assert [said[name] for name in "0123"] == ["reproduced", "differs", "not decided", "not decided"]
    assert found["1"].startswith("51.0 rounds (50.0 to 52.0, 3 seeds), 0.59 times the printed, 1.46 times (1.4")
    assert found["3"] == "no rate gets there in 100 rounds with every seed"
    assert said["at the next smaller rate of the grid"] == "not decided"  # its runs never get there
    assert found["at the next smaller rate of the grid"] == "no rate gets there in 100 rounds with every seed"
    of_one, found = words([30, 31, 32], cell=mcmahan_causes.ONE, base=(50.0, 51.0, 52.0))
    assert found["0"].startswith("31.0 rounds (30.0 to 32.0, 3 seeds), 0.10 times the printed")
    never, _ = words([300, 300, 300], [130, 131, 300], rounds=140, evaluations=141)
    assert never["0"] == "not decided", "a rate outside the grid may get there"
    assert never["1"] == "differs", "more than 1.25 times 87 at a rate inside"
    assert words([85, 87, 89], place=2)[0]["0"] == "not decided", "the edge of the grid"
    assert words([85], base=(34.0,))[0]["0"] == words([20], base=(34.0,))[0]["0"] == "not decided", "one seed"
    assert of_one["0"] == "differs" and "ours" not in found["0"]


def test_a_seed_that_does_not_get_there_is_an_arrow_where_its_run_ends():
    config = Config((Change(BASE, rounds=100),))
    rounds = xr.DataArray([80.0, 90.0, np.inf], dims="seed")
    (axes,) = mcmahan_causes.draw(config, {}, rounds).axes
    drawn = {str(line.get_marker()): np.asarray(line.get_xdata()) for line in axes.lines}
    np.testing.assert_allclose(drawn[">"], [100 / 87])
    np.testing.assert_allclose(drawn["o"], [80 / 87, 90 / 87])


def test_the_best_rate_of_the_base_is_the_one_of_its_row():
    """Where no rate gets there with every seed, the first one would be taken by the least of infinite means."""
    values = xr.DataArray(np.full((1, 3, 3, 101), 0.1), dims=("change", "rate", "seed", "evaluation"), coords={
        "change": [BASE], "rate": range(3), "evaluation": range(101)})  # fmt: skip
    values[0, 1, :2], values[0, 0, 0] = straight(40.0), straight(20.0)
    rounds = mcmahan_causes.of_base(Config((Change(BASE, rounds=100),)), xr.Dataset({"accuracy": values}))
    assert np.isfinite(rounds["evaluated every 10 rounds"].rounds).sum() == 2
    assert np.isfinite(rounds["at the next smaller rate of the grid"].rounds).sum() == 1


def test_evaluations_that_another_change_lacks_are_left_out():
    """A coarser change is NaN between its evaluations."""
    change = Change("1", rounds=100)
    curves = np.stack([straight(35.0), straight(35.0)])[:, None, None]
    curves[1, ..., 1::2] = np.nan
    values = xr.DataArray(curves, dims=("change", "rate", "seed", "evaluation"), coords={
        "change": ["0", "1"], "evaluation": range(101)})  # fmt: skip
    found = mcmahan_causes.crossings(Config(()), xr.Dataset({"accuracy": values}), change)
    assert float(found.squeeze()) == pytest.approx(35.0)


def test_other_definitions_of_reached():
    at = np.arange(0.0, 101)
    curve = straight(40.0)
    assert mcmahan_causes.last_crossing(0.97, at, curve) == 40
    curve[60] = 0.9
    assert mcmahan_causes.last_crossing(0.97, at, curve) == 61
    curve[-1] = 0.9
    assert mcmahan_causes.last_crossing(0.97, at, curve) == np.inf
    curve[-1] = np.nan  # another change was run for longer
    curve[-2] = 0.9
    assert mcmahan_causes.last_crossing(0.97, at, curve) == np.inf
    np.testing.assert_allclose(mcmahan_causes.smooth(np.arange(8.0))[4:], [2, 3, 4, 5])
    _, found = words(base=(33.0, 35.0, 37.0))
    assert found["by the mean of the last 5 evaluations"].startswith("37.0 rounds (35.0 to 39.0")
    assert found["evaluated every 10 rounds"].startswith("35.0 rounds")  # straight lines are met between evaluations


@pytest.mark.parametrize(
    ("shards", "word"),
    [
        ([608, 612, 615], "reproduced"),
        ([300, 310, 305], "differs"),
        ([400, 620, 900], "not decided"),
        ([np.inf, 690, 699], "not decided"),
        ([np.inf] * 3, "not decided"),
    ],
)
def test_what_two_shards_cost_is_compared_with_what_they_cost_in_print(shards, word):
    """664 / 87 = 7.63 times; with the pixels that have IID rounds as printed."""
    at = lambda rounds: Best(0.1, xr.DataArray(np.array(rounds, float), dims="seed"), edge=False, most=700)
    both = {mcmahan_causes.CELL: at([80, 80, 81]), mcmahan_causes.SHARDS: at(shards)}
    (claim,) = mcmahan_causes.ratio_of_shards(Config(()), both)
    assert claim.expected == "7.63 times" and claim._replace(differs="").said == word
    assert not mcmahan_causes.ratio_of_shards(Config(()), {mcmahan_causes.CELL: at([80, 80, 81])})
    assert not mcmahan_causes.ratio_of_shards(Config((), "digits"), both)


def test_the_ratio_is_of_the_lines_with_these_pixels():
    """Others of the same cell need other rounds."""
    half, cell = mcmahan_causes.HALF, mcmahan_causes.SHARDS
    changes = (
        Change(BASE, rounds=100), Change("half", pixels=half, rounds=100), Change("slow", rounds=100),
        Change("shards", pixels=half, rounds=100, cell=cell),
    )  # fmt: skip
    curves = np.full((4, 3, 3, 101), 0.1)
    curves[:, 1] = [[straight(r) for r in row] for row in ([34, 35, 36], [10, 11, 10], [60, 61, 62], [79, 80, 81])]
    values = xr.DataArray(curves, dims=("change", "rate", "seed", "evaluation"), coords={
        "change": [change.name for change in changes], "rate": range(3), "evaluation": range(101)})  # fmt: skip
    claims = mcmahan_causes.judge(Config(changes), xr.Dataset({"accuracy": values})).claims
    (ratio,) = (claim for claim in claims if claim.id == "ratio, two shards")
    assert ratio.found.startswith("7.75 times")


@pytest.mark.parametrize(("cell", "labels"), [(mcmahan_causes.CELL, 10), (mcmahan_causes.SHARDS, 4)])
def test_a_change_has_the_split_of_its_cell(monkeypatch, cell, labels):
    """Two shards of sorted samples have two labels, or four where two labels meet in each."""
    seen = []
    monkeypatch.setattr(mcmahan_causes, "sweep", lambda make, axes, key, params, clients, **how: seen.append(clients))
    with pytest.raises(AttributeError):  # nothing was run
        mcmahan_causes.of_change(Config((), "digits", num_clients=10), Change("any", cell=cell), data.digits())
    (clients,) = seen
    found = [len(set(y[:count].tolist())) for y, count in zip(clients.examples[1], clients.count, strict=True)]
    assert len(found) == 10 and (max(found) <= labels if labels < 10 else min(found) > 4)
