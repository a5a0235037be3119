"""Cards of published results: their settings, and which verdict which results lead to. Nothing is trained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments import trust
from experiments.anchors import lr_mnist, mcmahan, mcmahan_printed, niid_bench
from experiments.anchors.figures import FIGURES
from experiments.anchors.mcmahan_claims import Config, Tried, grid
from experiments.anchors.mcmahan_printed import ALL, CNN, TWO_NN, Cell
from experiments.anchors.starts import LECUN, STARTS, started
from experiments.cards import cards, folder_of, result
from experiments.table import RESULTS
from fedjax_priv import data, metrics, models, systems
from fedjax_priv.losses import softmax_cross_entropy

RATES = grid(0.1)
TENTH, ONE = Cell(0.1, 10, "iid"), Cell(0.0, 10, "iid")


def test_printed_rounds():
    """Ratios that the table's readers quote, and cells on its borders."""
    assert len(TWO_NN) == 16 and len(CNN) == 19
    assert TWO_NN[Cell(0.1, ALL, "iid")] / TWO_NN[TENTH] == pytest.approx(16.9, abs=0.05)
    assert TWO_NN[ONE] / TWO_NN[TENTH] == pytest.approx(3.6, abs=0.05)
    assert TWO_NN[Cell(0.0, 10, "shards")] / TWO_NN[Cell(0.1, 10, "shards")] == pytest.approx(4.9, abs=0.05)
    assert TWO_NN[Cell(0.1, 10, "shards")] / TWO_NN[TENTH] == pytest.approx(7.6, abs=0.05)
    assert (CNN[TENTH], CNN[Cell(0.1, 10, "shards")], CNN[Cell(1.0, ALL, "iid")]) == (18, 206, 246)
    assert mcmahan_printed.FACTOR == {10: 1.25, 50: 1.25, ALL: 2.0}
    assert grid(0.1) == (0.0464, 0.1, 0.215) and grid(0.215, 1, 2) == (0.1, 0.215, 0.464, 1.0)


AT_200 = (Tried(TENTH, 200, RATES),)


def outcome(rounds, cells=AT_200, **how):
    """The claims of rounds `[cell][start][rate][seed]`."""
    config = Config(tuple(cells), **how)
    places = {"place": [tried.cell.name for tried in cells], "start": list(cells[0].starts)}
    values = xr.DataArray(np.array(rounds, float), dims=("place", "start", "rate", "seed"), coords=places)
    return mcmahan.judge(config, xr.Dataset({"rounds": values}))


BAD, NEVER = [500.0] * 3, [np.inf] * 3


@pytest.mark.parametrize(
    ("rounds", "word"),
    [
        ([BAD, [86, 87, 88], BAD], "reproduced"),
        ([BAD, [34, 35, 36], BAD], "better than printed"),
        ([BAD, [150, 151, 152], BAD], "differs"),
        ([BAD, [60, 87, 130], BAD], "not decided"),
        ([BAD, BAD, [86, 87, 88]], "not decided"),  # at the edge of the grid
        ([BAD, BAD, [34, 35, 36]], "better than printed"),  # a better rate would only widen it
        ([NEVER] * 3, "not decided"),  # a rate outside the grid may get there
        ([NEVER, [86, 87, np.inf], NEVER], "not decided"),  # one seed of three
        ([NEVER, [160, 170, np.inf], NEVER], "differs"),  # 200 rounds or more are more than 1.25 times 87
        ([NEVER, NEVER, [160, 170, np.inf]], "not decided"),  # at the edge of the grid
        ([[np.inf], [170], [np.inf]], "not decided"),  # one seed
        ([[np.inf]] * 3, "not decided"),
    ],
)
def test_verdicts_on_rounds(rounds, word):
    (claim,) = outcome([[rounds]]).claims
    assert claim._replace(differs="").said == word and claim.expected == "87 (1 run)"


def test_not_reached_in_few_rounds_decides_nothing():
    (claim,) = outcome([[[[np.inf] * 3] * 3]], [Tried(TENTH, 100, grid(0.1))]).claims
    assert claim.verdict is None and claim.found == "more than 100 rounds in 3 of 3 seeds"


def test_the_rate_that_most_seeds_reach_the_target_with():
    (claim,) = outcome([[[[90.0, np.inf, np.inf], [99.0, 98.0, np.inf], [97.0, 99.5, np.inf]]]]).claims
    assert claim.found == "more than 200 rounds in 1 of 3 seeds"
    (claim,) = outcome([[[[90.0, np.inf, np.inf], [199.0, 198.0, 197.0], [20.0, 20.0, np.inf]]]]).claims
    assert claim.found.startswith("198.0 rounds")


def test_each_cell_has_its_own_rate():
    (claim,) = outcome([[[[90.0] * 3, [80.0] * 3, [85.0] * 3]]]).claims
    assert claim.found.startswith("80.0 rounds (80.0 to 80.0, 3 seeds) at rate 0.1, 0.92 times the printed")


@pytest.mark.parametrize(
    ("best", "found", "word"),
    [(2, "at rate 0.215", "reproduced"), (3, "at rate 0.464", "not decided"), (0, "at rate 0.0464", "not decided")],
)
def test_a_rate_that_was_tried_further_on_moves_the_edge(best, found, word):
    rows = [BAD] * 4
    rows[best] = [86, 87, 88]
    (claim,) = outcome([[rows]], [Tried(TENTH, 200, grid(0.1), further=(0.464,))]).claims
    assert found in claim.found and claim._replace(differs="").said == word


def test_a_seed_that_does_not_get_there_is_an_arrow_where_its_run_ends():
    axes = outcome([[[NEVER, [86, 87, np.inf], NEVER]]], [Tried(TENTH, 200, RATES)]).figure.axes[0]
    drawn = {str(line.get_marker()): np.asarray(line.get_xdata()).tolist() for line in axes.lines}
    assert drawn == {"o": [86, 87], ">": [200], "x": [87]}
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.texts] == ["ours, by seed", "ours, by seed, more than that", "printed"]
    reached = outcome([[[NEVER, [86, 87, 88], NEVER]]], [Tried(TENTH, 200, RATES)]).figure.axes[0]
    assert {str(line.get_marker()) for line in reached.lines} == {"o", "x"}


def test_further_rates_are_runs_as_those_of_the_grid_are():
    """With the same seeds; two sweeps, and one of all rates; of a model without hidden units."""
    config = FIGURES["mcmahan_2nn"].scales["quick"]._replace(num_clients=4, target=0.3)
    whole, model = data.digits(), models.softmax_regression((8, 8, 1), 10)
    evaluate = metrics.accuracy(model, whole.x_test, whole.y_test)
    tried = Tried(Cell(0.5, 10, "iid"), 2, (0.05, 0.1, 0.2))
    split = tried._replace(rates=(0.05, 0.1), further=(0.2,))
    one, two = (mcmahan.of_cell(config, each, whole, model, evaluate) for each in (tried, split))
    assert one.shape == (1, 3, 2) and np.isfinite(one[0, -1]).all() and len(np.unique(one)) > 3
    np.testing.assert_allclose(one, two, rtol=1e-3)


@pytest.mark.parametrize(("more", "verdict"), [([300, 320, 340], True), ([90, 80, 85], False), ([60, 90, 140], None)])
def test_orders(more, verdict):
    cells = [Tried(TENTH, 400, grid(0.1)), Tried(ONE, 400, grid(0.1))]
    found = outcome([[[BAD, [87, 88, 86], BAD]], [[BAD, more, BAD]]], cells).claims
    (claim,) = (claim for claim in found if claim.id.startswith("order"))
    assert claim.text == "IID, B = 10, C = 0 needs more rounds than IID, B = 10, C = 0.1"
    assert (claim.verdict, claim.expected) == (verdict, "3.63 times")


@pytest.mark.parametrize(
    ("quick", "slow", "verdict"),
    [
        ([BAD, [87, 88, 86], BAD], [BAD, BAD, [300, 320, 340]], None),  # a better rate may be as quick
        ([BAD, BAD, [87, 88, 86]], [BAD, [300, 320, 340], BAD], True),  # a better rate only widens it
        ([BAD, [87, 88, 86], BAD], [BAD, BAD, [60, 61, 62]], False),
        ([BAD, BAD, [87, 88, 86]], [BAD, [60, 61, 62], BAD], None),
    ],
)
def test_orders_at_the_edge_of_a_grid(quick, slow, verdict):
    cells = [Tried(TENTH, 400, grid(0.1)), Tried(ONE, 400, grid(0.1))]
    (claim,) = (claim for claim in outcome([[quick], [slow]], cells).claims if claim.id.startswith("order"))
    assert claim.verdict is verdict and ("edge" in claim.note) == (verdict is None)


@pytest.mark.parametrize(
    ("slow", "quick", "verdict", "ratio"),
    [
        ([np.inf, 390, np.inf], [20, 21, 22], True, "differs"),  # 400 / 21 is 19 times, not 3.63
        ([np.inf, 390, np.inf], [300, 360, 395], None, "not decided"),
        ([20, 21, 22], [np.inf, 390, np.inf], False, "differs"),  # a twentieth at most
        ([np.inf, 390, np.inf], [np.inf, 390, np.inf], None, "not decided"),
        ([np.inf, 390, 399], [110, 105, 108], True, "not decided"),  # 3.7 times, or more
        ([np.inf] * 3, [20, 21, 22], None, "not decided"),  # no rate of the grid gets there
    ],
)
def test_a_run_that_ends_before_the_target_takes_longer_than_that(slow, quick, verdict, ratio):
    cells = [Tried(TENTH, 400, grid(0.1)), Tried(ONE, 400, grid(0.1))]
    found = outcome([[[NEVER, quick, NEVER]], [[NEVER, slow, NEVER]]], cells).claims
    (order,) = (claim for claim in found if claim.id.startswith("order"))
    (of_print,) = (claim for claim in found if claim.id.startswith("ratio"))
    assert order.verdict is verdict and of_print._replace(differs="").said == ratio
    assert "more than 400 rounds in" in order.found and order.found == of_print.found


def test_a_run_that_ends_early_leaves_open_whether_a_longer_one_took_more():
    """The quick cell's runs end after 400 rounds, the slow one's reach the target after 800."""
    cells = [Tried(TENTH, 400, grid(0.1)), Tried(ONE, 1000, grid(0.1))]
    found = outcome([[[NEVER, [np.inf, 390, 395], NEVER]], [[NEVER, [800, 810, 805], NEVER]]], cells).claims
    (order,) = (claim for claim in found if claim.id.startswith("order"))
    assert order.verdict is None


@pytest.mark.parametrize(
    ("more", "less", "word"),
    [
        ([108, 110, 112], [30, 30.5, 31], "reproduced"),  # a third of the rounds, and the printed ratio
        ([300, 310, 320], [30, 31, 32], "differs"),
        ([80, 120, 150], [30, 31, 32], "not decided"),
    ],
)
def test_ratios(more, less, word):
    cells = [Tried(TENTH, 400, grid(0.1)), Tried(ONE, 400, grid(0.1))]
    claims = lambda rows: outcome([[[BAD, less, BAD]], [rows]], cells).claims
    (claim,) = (claim for claim in claims([BAD, more, BAD]) if claim.id.startswith("ratio"))
    assert (claim._replace(differs="").said, claim.expected) == (word, "3.63 times")
    (edge,) = (claim for claim in claims([BAD, BAD, more]) if claim.id.startswith("ratio"))
    assert edge.verdict is None and "edge" in edge.note


@pytest.mark.parametrize(
    ("small", "explains"),
    [([BAD, [80, 81, 82], BAD], True), ([BAD, [50, 51, 52], BAD], False), ([BAD, BAD, [80, 81, 82]], None),
     ([[np.inf] * 3] * 3, None)],
)  # fmt: skip
def test_whether_a_start_explains_the_printed_rounds(small, explains):
    tried = [Tried(TENTH, 200, grid(0.1), starts=(LECUN, "small"))]
    claims = outcome([[[BAD, [34, 35, 36], BAD], small]], tried).claims
    assert claims[-1].id.startswith("starts") and claims[-1].verdict is explains


def test_starts_have_the_deviations_they_are_named_for():
    model = models.mlp((100,), 10, hidden=(400,))
    expected = {LECUN: 0.1, "Glorot": (2 / 500) ** 0.5, "PyTorch": 0.1 / 3**0.5, "TensorFlow's tutorial": 0.088,
                "small": 0.01}  # fmt: skip
    layers = jax.jit(lambda: [started(model, start)(jax.random.key(0))["Dense_0"] for start in STARTS])()
    for start, layer in zip(STARTS, layers, strict=True):
        assert np.std(layer["kernel"]) == pytest.approx(expected[start], rel=0.03)
        assert np.max(layer["bias"]) == pytest.approx(0.1 * (start == "TensorFlow's tutorial"))


def test_steps_of_the_two_batches():
    config, model = Config((), epochs=5), models.softmax_regression((4,), 3)
    steps = [mcmahan.system(config, Cell(0.1, batch, "iid"), model, 0.1, 600).init for batch in (10, ALL)]
    assert all(callable(init) for init in steps)


def test_the_data_of_softmax_regression():
    rng = np.random.default_rng(0)
    x, y = rng.random((900, 4, 4, 1), np.float32), np.repeat(np.arange(10), 90)
    x[:, 0, 0] = 0
    images, labels = lr_mnist.standardised(data.Dataset(x[:700], y[:700], x[700:], y[700:], 10))
    np.testing.assert_allclose(images[:, 1:].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(images[:, 1:].std(0), 1, atol=1e-3)
    assert not images[:, 0].any() and (labels == y).all()
    config = lr_mnist.Config(devices=20)
    of = lr_mnist.devices_of(config, images, labels, 0)
    sizes = np.array([len(part) for part in data.lognormal(labels, 20, 0)])
    assert (of.pool.count == (0.9 * sizes).astype(int)).all() and len(of.y_test) == (sizes - of.pool.count).sum()
    got, of_digits = of.pool.fetch(np.array([3, 7]))
    assert set(of_digits[0, : of.pool.count[3]]) == {3, 4} and not got[0, of.pool.count[3] :].any()
    rows = np.concatenate([of.pool.fetch(np.array([i]))[0][0, : of.pool.count[i]] for i in range(20)])
    assert len(np.unique(np.concatenate([rows, of.x_test]), axis=0)) == sizes.sum()  # nobody is tested on its own


@pytest.mark.parametrize(
    ("sigmoid", "linear", "words"),
    [
        ([80.4, 80.6, 80.5], [87.0, 87.1, 86.0], ["reproduced", "holds"]),
        ([84.4, 84.6, 84.5], [84.3, 84.7, 84.5], ["better than printed", "does not hold"]),
        ([74.4, 74.6, 74.5], [74.0, 74.0, 80.5], ["differs", "not decided"]),
        ([80.4, 80.6, 80.5], [81.4, 81.6, 81.6], ["reproduced", "does not hold"]),  # better, but not by the margin
    ],
)
def test_verdicts_on_softmax_regression(sigmoid, linear, words):
    last = np.stack([sigmoid, linear])
    runs = {"accuracy": (("outputs", "seed", "evaluation"), np.stack([0 * last + 95, last], -1))}
    runs |= {"cpu_seconds": (("outputs", "seed"), last), "failed": (("outputs", "seed"), 0 * last)}
    runs |= {"devices_largest": ("seed", [900] * 3)}
    made = lr_mnist.judge(
        lr_mnist.Config(), xr.Dataset(runs, {"evaluation": [0, 100], "outputs": ["sigmoid", "linear"]})
    )
    said = [claim._replace(differs="").said for claim in made.claims]
    assert said == [*words, "reported, not judged"]


def test_the_printed_model_has_a_sigmoid():
    """The loss is that of logits in (0, 1), starts are PyTorch's, and both kinds share them."""
    made = [models.from_flax(lr_mnist.Network(kind), (100,)) for kind in (lr_mnist.SIGMOID, lr_mnist.LINEAR)]
    params = made[0].init(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, params, made[1].init(jax.random.key(0)))
    assert 0.09 < max(float(abs(leaf).max()) for leaf in jax.tree.leaves(params)) <= 0.1
    x = 10 * jax.random.normal(jax.random.key(1), (5, 100))
    squashed, plain = (model.apply(params, x) for model in made)
    np.testing.assert_allclose(squashed, 1 / (1 + np.exp(-np.asarray(plain, float))), rtol=1e-5)
    assert float(abs(plain).max()) > 1


def test_niid_bench():
    """The network's size, and that weight decay adds its multiple of the parameters to a gradient."""
    config = niid_bench.Config()
    model = niid_bench.model_of(config)
    assert models.num_params(jax.eval_shape(model.init, jax.random.key(0))) == 44_426
    small = models.softmax_regression((4,), 3)
    loss, params = softmax_cross_entropy(small), small.init(jax.random.key(0))
    batch = jnp.ones((5, 4)), jnp.array([0, 1, 2, 0, 1])
    slope = lambda loss: jax.grad(lambda params: loss(params, batch).mean())(params)
    both = jax.jit(lambda: (slope(niid_bench.decayed(loss, 0.3)), slope(loss)))()
    added = jax.tree.map(np.subtract, *both)
    jax.tree.map(lambda a, p: np.testing.assert_allclose(a, 0.3 * p, atol=1e-6), added, params)


def test_methods_of_niid_bench_have_their_systems():
    made = {method: niid_bench.system_of(niid_bench.Config(num_clients=3), method) for method in niid_bench.PRINTED}
    scaffold = made.pop("SCAFFOLD")
    assert made == {"FedAvg": systems.fedavg, "FedProx": systems.fedavg, "FedNova": systems.fednova}
    assert scaffold.func is systems.scaffold and scaffold.keywords == {"num_clients": 3}


def test_verdicts_on_niid_bench():
    config = niid_bench.Config(methods=("FedAvg",), splits=("IID", "#C = 1", "#C = 2"))
    best = np.array([[99.0, 99.1, 99.2], [19, 20, 21], [94.8, 94.9, 95.0]])[None, :, :, None]
    values = xr.DataArray(
        np.concatenate([best - 1, best], -1), dims=("system", "split", "seed", "evaluation"),
        coords={"system": ["FedAvg"], "split": list(config.splits), "evaluation": [1, 2]},
    )  # fmt: skip
    words = [
        claim._replace(differs="").said for claim in niid_bench.judge(config, xr.Dataset({"accuracy": values})).claims
    ]
    assert words == ["reproduced", "not decided", "differs", "holds"]


def test_one_mu_counts_for_all_seeds():
    """Means of 92, 91, 92.5 and 90.3; the best of each seed would have 94.2."""
    ends = np.array([[96, 90.0, 90], [90, 93, 90], [91, 92, 93], [90, 90, 91]])  # by mu and seed
    ends[2] += 0.5
    config = niid_bench.Config(methods=("FedAvg", "FedProx"), splits=("IID",))
    prox = xr.DataArray(
        np.stack([ends - 1, ends], -1), dims=("mu", "seed", "evaluation"), coords={"mu": list(config.proximal)}
    )
    both = xr.concat([prox.isel(mu=0, drop=True), prox], "system")
    accuracy = both.expand_dims(split=["IID"]).assign_coords(system=list(config.methods))
    made = niid_bench.judge(config, xr.Dataset({"accuracy": accuracy}))
    assert [claim.found.split()[0] for claim in made.claims] == ["92.00", "92.50"]
    assert niid_bench.FEDPROX in made.caveats
    assert made.data.accuracy.sizes["mu"] == 4


def test_fewer_cells_are_no_other_setting_and_other_data_are():
    for name in ("mcmahan_2nn", "mcmahan_cnn"):
        of = FIGURES[name]
        assert of.differs(of.scales["cpu"], of.scales["paper"]) == ""
        assert "dataset digits (paper: mnist)" in of.differs(of.scales["quick"], of.scales["paper"])


def test_the_page_s_table_has_every_claim_and_names_what_was_not_run():
    lines = trust.table().splitlines()
    rows, missing = [line for line in lines if line.startswith("| ")][1:], lines[-1]
    number = 0
    for card in cards():
        if card.paper in trust.SHOWN and f"{card.paper}.{card.name}" not in trust.WITHOUT:
            made = [one for scale in ("paper", "short", "cpu") if (one := result(card, scale, RESULTS))][:1]
            assert made or f"`{card.paper} {card.name}`" in missing
            for claim in (claim for one in made for claim in trust._claims(one)):
                assert any(f"**{claim.said}**" in row and trust.plain(claim.found) in row for row in rows)
                number += 1
    assert number == len(rows) > 0 and trust.summary().startswith(f"{number} printed")


def test_the_page_s_table_follows_the_results(tmp_path):
    """With one claim changed, the row says so; the scale of tests is not shown."""
    import json
    import shutil

    card = next(card for card in cards() if card.name == "opacus_eps_3")
    shutil.copytree(folder_of(card, "cpu", RESULTS), folder_of(card, "cpu", tmp_path))
    file = folder_of(card, "cpu", tmp_path) / "verdicts.json"
    claims = json.loads(file.read_text())
    claims[0] |= {"verdict": False, "found": "1.234"}
    file.write_text(json.dumps(claims))
    (row,) = (row for row in trust.table(tmp_path).splitlines() if "1.234" in row)
    assert "**does not hold**" in row
    folder_of(card, "cpu", tmp_path).rename(folder_of(card, "quick", tmp_path))
    assert "1.234" not in trust.table(tmp_path)
