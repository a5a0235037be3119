"""The SparseSecAgg paper's experiments: verdicts follow from the data, and the largest scale can be built."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from papers import round_shapes, verdicts
from scipy import stats

from experiments.problem import model_of
from fedjax_priv.base import ClientData
from fedjax_priv.data import Dataset
from fedjax_priv.theory.sparse_secagg import Setting


def script(name):
    return importlib.import_module(f"experiments.sparse_secagg.{name}")


FIGURES = script("figures").FIGURES


def test_a_verdict_follows_from_the_data():
    table1, config = script("table1"), FIGURES["table1"].scales["quick"]
    upload = lambda sparse: xr.Dataset(
        {"largest_upload": (("num_clients", "system"), [[661_416.0, sparse]]),
         "up": (("num_clients", "system", "phase"), np.ones((1, 2, 1)))},
        coords={"system": list(table1.SYSTEMS), "num_clients": [8], "phase": ["upload"]},
    )  # fmt: skip
    said = lambda sparse: verdicts(table1.claims(config, upload(sparse)))
    assert said(83_700.0) == [False, True, False, True], "the paper's own formula"
    assert said(82_200.0) == [False, True, True, True] and said(80_500.0) == [True, True, False, True]
    assert said(120_000.0) == [False, True, False, False]


def test_a_smaller_loss_than_the_papers_is_no_failure():
    comparison, config = script("comparison"), FIGURES["fig6"].scales["paper"]

    def said(*lost):
        curves = lambda end: [[one, one] for one in end]
        both = [curves([0.5] * len(lost)), curves(0.9 - np.array(lost))]
        runs = xr.Dataset(
            {"accuracy": (("num_clients", "system", "seed", "evaluation"), [both]),
             "accuracy_iid": (("num_clients", "seed", "evaluation"), [curves([0.9] * len(lost))])},
            {"system": ["SecAgg", "SparseSecAgg"], "num_clients": [25]},
        )  # fmt: skip
        return verdicts(comparison.below_iid(config, runs))

    assert said(0.0, 0.001) == said(0.03, 0.03) == [True] and said(0.04, 0.041, 0.042) == [False]
    assert said(0.0) == said(0.5) == said(0.01, 0.05, 0.03) == said(np.nan, np.nan) == [None]


def in_a_figure(rounds):
    """What reaches the target in so many `[num_clients, system, seed]` rounds; a round has 7.87 times the bytes."""
    reached = np.arange(100) >= np.asarray(rounds)[..., None]
    numbers, _, seeds = np.shape(rounds)
    by = ("num_clients", "system", "seed", "round")
    upload = np.broadcast_to(np.array([787.0, 100.0])[:, None, None], (numbers, 2, seeds, 99))
    return xr.Dataset(
        {"accuracy": ((*by[:3], "evaluation"), reached.astype(float)), "upload": (by, upload),
         "seconds_upload": (by, np.ones(upload.shape))},
        coords={"num_clients": 25 * np.arange(1, numbers + 1), "system": ["SecAgg", "SparseSecAgg"],
                "evaluation": np.arange(100), "round": np.arange(1, 100)},
    )  # fmt: skip


def test_totals_stop_at_the_round_that_reaches_the_target():
    training = script("training")
    runs = xr.Dataset(
        {"accuracy": (("seed", "evaluation"), [[0.1, 0.5, 0.9, 0.4], [0.1, 0.2, 0.3, 0.4]]),
         "upload": (("seed", "round"), [[1.0, 10.0, 100.0], [1.0, 10.0, 100.0]])},
        coords={"evaluation": [0, 1, 2, 3], "round": [1, 2, 3]},
    )  # fmt: skip
    np.testing.assert_array_equal(training.rounds_to(runs, 0.8), [2, np.nan])
    np.testing.assert_array_equal(training.total_to(runs, "upload", 0.8), [11, np.nan])


def test_the_ratio_of_the_paper_is_recognised_where_it_is_there():
    """Upload and rounds apart: 8 times the bytes a round, and as many rounds, or 2.25 times as many."""
    comparison = script("comparison")
    config = FIGURES["fig5"].scales["paper"]._replace(num_clients=(25,))
    said = lambda secagg, sparse: verdicts(
        comparison.claims(config, comparison.Paper(17.9, 1.8), in_a_figure([[secagg, sparse]]))
    )
    assert said([9, 9, 9], [4, 4, 4]) == [True, True, True, True]
    assert said([40, 41, 42], [40, 41, 42]) == [False, True, False, False]
    assert said([9], [4]) == said([40], [40]) == [None, True, None, None], "one seed"
    assert said([9, 2, 40], [4, 9, 12]) == [None, True, None, None], "wide"
    assert said([9, 9, 999], [4, 4, 4]) == [None, True, None, None], "not reached"


def test_a_ratio_that_may_lie_at_any_of_several_sizes_is_sure_of_all_together():
    """Three seeds that decide it at one size do not where four sizes were tried."""
    comparison = script("comparison")
    seeds = np.exp(np.array([-0.06, 0.0, 0.06]))
    ratios = lambda sizes: xr.DataArray(np.tile(seeds, (sizes, 1)), dims=("num_clients", "seed"))
    assert [comparison._between(ratios(sizes), 1.0) for sizes in (1, 4)] == [True, None]


def test_a_repair_is_not_testable_by_an_attack_that_reads_nothing_of_the_original():
    of, config = script("repair"), FIGURES["repair"].scales["cpu"]
    by = {"system": list(of.SYSTEMS), "seed": [0], "round": [1]}
    ones = xr.DataArray(np.ones([len(axis) for axis in by.values()]), by)

    def said(alone, repaired):
        read = xr.DataArray(
            [[alone, 0.0], [repaired, 0.0]], {"attacked": list(of.ATTACKED), "size": [1, 2]}, ("attacked", "size")
        )
        data = {"accuracy": accuracies(of.SYSTEMS, [0.9], [0.9]), "upload": ones, "honest_mean": ones, "read": read}
        found = {claim.id: claim.verdict for claim in of.claims(config, xr.Dataset(data))}
        return found["repair-reads-nothing"]

    assert [said(0.5, 0.0), said(0.5, 0.1), said(0.0, 0.0)] == [True, False, None]


def test_claims_on_rounds_need_seeds():
    comparison, config = script("comparison"), FIGURES["fig3"].scales["paper"]
    said = lambda *rounds: verdicts(comparison.rounds(config, in_a_figure(rounds)))
    assert said([[20, 21, 20], [22, 23, 22]], [[30, 30, 31], [33, 33, 34]]) == [True, True]
    assert said([[20, 21, 20], [40, 41, 42]], [[20, 21, 20], [40, 41, 42]]) == [False, False]
    assert said([[20], [22]], [[30], [33]]) == said([[20, 30, 10], [22, 50, 12]], [[30, 3, 40], [33, 9, 43]])
    assert said([[20], [22]], [[30], [33]]) == said([[20, 20], [22, 999]], [[30, 30], [33, 33]]) == [None, None]


def test_the_revealed_fraction_has_a_sample_in_every_round():
    comparison = script("comparison")
    axes = {"num_clients": [25, 50], "system": ["SecAgg", "SparseSecAgg"], "seed": [0], "round": range(4)}

    def said(few, many):
        values = np.array([[[few], [few]], [[many], [many]]])
        return verdicts(comparison.revealed(None, xr.Dataset({"revealed_all": (tuple(axes), values)}, axes)))

    assert said([0.5, 0.51, 0.5, 0.51], [0.4, 0.41, 0.4, 0.4]) == [True]
    assert said([0.4, 0.41, 0.4, 0.41], [0.4, 0.41, 0.4, 0.41]) == [False]
    assert said([0.5, 0.51, 0.5, np.nan], [0.4, 0.41, 0.4, 0.4]) == [True], "one was run for fewer rounds"
    assert said([0.5, 0.3, 0.7, 0.4], [0.4, 0.45, 0.5, 0.5]) == [None]


def accuracies(systems, sparse, ours):
    ends = [ours if name.startswith(("common", "thresholded")) else sparse for name in systems]
    values = np.stack([np.zeros_like(ends), ends], -1)
    return xr.DataArray(values, {"system": list(systems), "evaluation": [0, 30]}, ("system", "seed", "evaluation"))


@pytest.mark.parametrize("card", ["repair", "thresholded"])
@pytest.mark.parametrize(
    ("sparse", "ours", "verdict"),
    [
        ([0.90, 0.91, 0.90], [0.90, 0.91, 0.898], True),
        ([0.90, 0.91, 0.90], [0.87, 0.88, 0.868], False),
        ([0.90, 0.91, 0.90], [0.87, 0.97, 0.90], None),
        ([0.90], [0.90], None),
        ([0.90], [0.50], None),
    ],
)
def test_as_accurate_needs_seeds(card, sparse, ours, verdict):
    of, config = script(card), FIGURES[card].scales["cpu"]
    by = {"system": list(of.SYSTEMS), "seed": range(len(sparse)), "round": [1]}
    ones = xr.DataArray(np.ones([len(axis) for axis in by.values()]), by)
    attacked = of.ATTACKED if card == "repair" else of.READ
    read = {"attacked": list(attacked)} | ({} if card == "repair" else {"figure": ["value", "standard error"]})
    read |= {"size": [1, 2] if card == "repair" else [1, 2, 3]}
    result = xr.Dataset({
        "accuracy": accuracies(of.SYSTEMS, sparse, ours), "upload": ones, "honest_mean": ones,
        "failed": 0 * ones.isel(round=0, drop=True), "most_up": ("system", [1.0] * len(of.SYSTEMS)),
        "most_down": ("system", [1.0] * len(of.SYSTEMS)),
        "read": xr.DataArray(np.full([len(axis) for axis in read.values()], 0.1), read),
    })  # fmt: skip
    found = [claim.verdict for claim in of.claims(config, result) if claim.id.endswith("accuracy")]
    assert found == [verdict] * 2


def test_masks_are_timed_where_they_are_expanded():
    """10 users, 3 lost: 100 masks by users, side by side; 7 private ones and 3 x 7 pairwise ones by the server."""
    user, server = script("training").compute_seconds(10, 0.3, whole=228.0, elided=100.0)
    assert user == pytest.approx(10 + 100 / 10) and server == pytest.approx(28)


def clients_like(num_clients, samples, shape):
    rows = samples // num_clients
    x = jax.ShapeDtypeStruct((num_clients, rows, *shape), jnp.float32)
    y, count = jax.ShapeDtypeStruct((num_clients, rows), jnp.int32), jax.ShapeDtypeStruct((num_clients,), jnp.int32)
    return ClientData((x, y), count)


def direction_size(system, params, data):
    return round_shapes(lambda: system, params, data).direction.size


def traced_once(local_of):
    """Training of one object for each setting, traced once for all systems."""
    made = {}

    def of(setting, model):
        if setting not in made:
            local = local_of(setting, model)
            made[setting] = local._replace(apply=jax.jit(local.apply))
        return made[setting]

    return of


@pytest.mark.parametrize(
    ("name", "samples", "shape", "d"),
    [("fig3", 50_000, (32, 32, 3), 165_354), ("fig5", 60_000, (28, 28, 1), 1_663_370)],
)
def test_the_papers_comparisons_can_be_built(name, samples, shape, d):
    config, training = FIGURES[name].scales["paper"], script("training")
    setting, model = config.setting, model_of(config.setting.task)
    sizes = {"fig3": (25, 50, 75, 100), "fig5": (25, 100)}[name]
    assert (config.num_clients, setting.alpha, setting.dropout) == (sizes, 0.1, 0.3)
    params, local = jax.eval_shape(model.init, jax.random.key(0)), traced_once(training.local_of)(setting, model)
    for system in training.SYSTEMS:
        for elide in (True, False):
            built = training.algorithm(setting, local, 100, system, elide=elide)
            assert direction_size(built, params, clients_like(100, samples, shape)) == d


def test_the_papers_non_iid_users_have_as_many_samples_of_few_labels():
    printed = {"fig3": (7.8, 1.13, 0.55), "fig5": (17.9, 1.8, 0.97), "fig6": (12, 1.2, 0.94)}  # last: the accuracy
    for name, numbers in printed.items():
        assert (*FIGURES[name].run.keywords["paper"], FIGURES[name].scales["paper"].target) == numbers
    setting, iid = (FIGURES[name].scales["paper"].setting for name in ("fig6", "fig5"))
    assert setting == iid._replace(partition="shards", block=setting.block)
    labels = np.random.default_rng(0).integers(0, 10, 60_000).astype(np.int32)
    dataset = Dataset(np.zeros((60_000, 1), np.float32), labels, np.zeros((1, 1), np.float32), labels[:1], 10)
    for n in (25, 50, 75, 100):
        clients = script("training").clients_of(setting, dataset, n, 0)
        assert (clients.count == 60_000 // n).all()
        shards = clients.examples[1].reshape(n, 300 // n, 200)
        assert max(len(np.unique(shard)) for user in shards for shard in user) <= 2


def test_the_papers_other_experiments_can_be_built(monkeypatch):
    training = script("training")
    fig2, fig4, repair = (script(name) for name in ("fig2", "fig4", "repair"))
    for module in (fig2, repair):
        monkeypatch.setattr(module, "local_of", traced_once(training.local_of))
    first, last, fixed = (FIGURES[name].scales["paper"] for name in ("fig2", "fig4", "repair"))
    params = jax.eval_shape(model_of(first.setting.task).init, jax.random.key(0))
    for config, built in (
        *((first, fig2.system(first, sparsifier)) for sparsifier in fig2.LABEL),
        *((fixed, repair.algorithm(fixed, system, elide=True)) for system in repair.SYSTEMS),
    ):
        assert direction_size(built, params, clients_like(config.num_clients, 60_000, (28, 28, 1))) == 1_663_370
    params = jax.ShapeDtypeStruct((last.num_params,), jnp.float32)
    data = clients_like(100, 100, (1,))
    assert direction_size(fig4.system(last, 100, 0.1, 0.3), params, data) == last.num_params


def test_how_often_the_limit_is_reached_is_that_of_drawn_pairs():
    """In 44% of draws here; the normal law is off by less than 0.01."""
    n, alpha, dropout, honest, draws = 30, 0.5, 0.1, 20, 10_000
    rng = np.random.default_rng(0)
    pairs = np.triu(rng.random((draws, n, n)) < alpha / (n - 1), 1)
    sent = (pairs | pairs.transpose(0, 2, 1)).any(2) & (rng.random((draws, n)) >= dropout)
    limit = (1 - np.exp(-alpha)) * (1 - dropout) * honest
    reached = (sent[:, :honest].sum(1) >= limit).mean()
    assert abs(script("fig4").reaches(Setting(n, alpha, dropout, 1 - honest / n)) - reached) < 0.02


def test_statements_are_counted_and_can_fail():
    statements = script("statements")
    config = FIGURES["statements"].scales["paper"]._replace(naive_users=6, naive_params=400)
    assert statements.wrong_part(config, shared=False) > 0.9 and statements.wrong_part(config, shared=True) == 0
    assert statements.survives(100, 0.45) == pytest.approx(stats.binom.sf(50, 100, 0.55))
    assert statements.user_operations(7) == 7 * 3
    dense = 0.7 * 50 + 0.3 * 0.7 * 50 * 49
    assert statements.server_words(50, 0.1, 0.3, sparse=False) == pytest.approx(dense)
    sizes, cost = np.array(config.sizes, float), ["server", "user"]

    def said(power, survives, wrong):
        work = np.stack([sizes**power, sizes ** (power - 1)], 1)
        values = np.broadcast_to(survives, (len(config.dropouts), len(sizes)))
        data = {"work": (("N", "cost"), work), "survives": (("theta", "N"), values), "wrong": ("protocol", wrong)}
        coordinates = {"N": list(config.sizes), "cost": cost, "theta": list(config.dropouts)}
        return verdicts(statements.claims(config, xr.Dataset(data, coordinates)))

    assert said(2.0, 1.0, [1.0, 0.0]) == [True] * 5 and said(3.0, 0.9, [0.1, 0.2]) == [False] * 5


@pytest.mark.parametrize(("threshold", "error", "verdict"), [(3, 1e-4, True), (4, 1e-3, False), (3, 0.5, None)])
def test_the_law_of_what_is_read_is_of_its_own_threshold(threshold, error, verdict):
    """Read is what theory says of a threshold, with errors over rounds; the claim is of a threshold of 3."""
    of, config = script("thresholded"), FIGURES["thresholded"].scales["cpu"]
    n, (alpha, theta) = config.num_clients, (config.setting.alpha, config.setting.dropout)
    law = Setting(n, alpha, theta, of.gamma(n))
    parts = [of.theory.opened_sum_fraction(law, threshold, size) for size in (1, 2, 3)]
    by = {"system": list(of.SYSTEMS), "seed": [0], "round": range(30)}
    ones = xr.DataArray(np.ones([len(axis) for axis in by.values()]), by)
    read = np.stack([np.tile(parts, (len(of.READ), 1)), np.full((len(of.READ), 3), error)], 1)
    result = xr.Dataset({
        "accuracy": accuracies(of.SYSTEMS, [0.9], [0.9]), "upload": ones, "failed": ones.isel(round=0, drop=True),
        "most_up": ("system", [1.0] * len(of.SYSTEMS)), "most_down": ("system", [1.0] * len(of.SYSTEMS)),
        "read": (("attacked", "figure", "size"), read),
    }, {"attacked": list(of.READ), "figure": ["value", "standard error"]})  # fmt: skip
    assert {claim.id: claim.verdict for claim in of.claims(config, result)}["law"] is verdict


def test_a_bound_far_above_a_model_that_is_never_trained_tests_nothing():
    by, step = ("levels", "seed", "evaluation"), 10.0 * np.arange(9)
    gap = np.tile(1 / (1 + step), (2, 3, 1))
    data = xr.Dataset(
        {"gap": (by, gap), "printed": (("levels", "evaluation"), 2 * gap[:, 0]),
         "repaired": (("levels", "evaluation"), 2 * gap[:, 0])},
        {"levels": [16.0, 2.0**20], "step": ("evaluation", step)},
    )  # fmt: skip
    verdicts = lambda factor: {
        claim.id: claim.verdict
        for claim in script("convergence").claims(data.assign(printed=factor * data.printed), 10.0)
    }
    assert [verdicts(factor)["bound"] for factor in (1.0, 0.4, 100.0)] == [True, False, None]
