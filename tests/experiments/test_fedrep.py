"""The experiments of the FedREP paper: verdicts follow from the data, the largest scale can be built."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from papers import verdicts

from aggregators.references import weiszfeld
from experiments import problem
from experiments.claims import Claim
from experiments.fedrep import (
    against_share,
    curves,
    figures,
    methods,
    other_systems,
    outcome,
    table1,
    training,
    tuning,
    variants,
)
from fedjax_priv.attacks import alie, foe, sign_flip
from fedjax_priv.base import ClientData, Local, View
from fedjax_priv.crypto import field

EPOCHS = np.array([0.0, 1.0, 2.0, 3.0, 4.0])


def paper(name):
    return figures.FIGURES[name].scales["paper"]


def runs(ends, **dims):
    """Accuracies that rise evenly to `ends`, of two seeds 0.2 points apart."""
    ends = np.asarray(ends, float)
    values = ends[..., None, None] * (EPOCHS / EPOCHS[-1]) + np.array([[-0.001], [0.001]])
    return xr.DataArray(values, dims=(*dims, "seed", "epoch"), coords={**dims, "seed": [0, 1], "epoch": EPOCHS})


def bitten(accuracy, lost=0.2, off=0.0):
    """Accuracies with a control: every attack costs an undefended mean so much, the two seeds `off` less and more."""
    names = ["none", *(str(name) for name in accuracy.attack.values if name != "none")]
    ends = np.tile(np.r_[0.9, np.full(len(names) - 1, 0.9 - lost)][:, None], 2)
    ends[1:] += [-off, off]
    control = xr.DataArray(ends, {"attacked": names}, ("attacked", "seed"))
    return xr.Dataset({"accuracy": accuracy, "undefended": control})


def attacks():
    return list(methods.PAPERS)


def test_a_gap_is_clear_or_small_only_beyond_its_noise():
    alie = list(methods.ALIE)
    plain = runs([0.5, 0.5], attack=alie)
    noisy = plain + xr.DataArray([-0.05, 0.05], dims="seed")
    for one, clear, small in ((0.53, 1, -1), (0.505, -1, 1), (0.4, -1, -1)):
        found = curves.compared(runs([one, one], attack=alie), plain).gap
        np.testing.assert_allclose(found.mean, one - 0.5, atol=1e-9)
        assert (found.clear() == clear).all() and (found.small() == small).all()
        assert float(found.noise.max()) < 1e-9
    found = curves.compared(noisy, plain - 0.03).gap
    np.testing.assert_allclose(found.noise, 12.7062 * 0.05, atol=1e-5)  # t std / sqrt(2), std = 0.05 sqrt(2)
    assert not found.clear().any() and not found.small().any()


def test_a_verdict_that_hangs_on_z_says_so():
    found = curves.compared(runs([0.6, 0.6, 0.5, 0.6], attack=attacks()), runs([0.5] * 4, attack=attacks()))
    said = curves.claim("better", "better", "better", found, found.gap.clear(), "above")
    assert said.verdict is False and "hangs on z" in said.note and "under ALIE (1.5)" in said.note
    assert "ALIE (Baruch) +10.0 (+10.0)" in said.found
    said = curves.claim("better", "better", "better", found, found.gap.at_least(), "not below")
    assert said.verdict is True and "hangs" not in said.note


def test_the_best_rate_is_that_of_the_best_end_over_attacks_and_seeds():
    ends = [[[0.1, 0.9], [0.6, 0.6]], [[0.2, 0.3], [0.1, 0.1]]]
    accuracy = runs(ends, alpha=[0.0, 1.0], rate=[0.1, 0.5], attack=["none", "FoE"])
    chosen = tuning.best(xr.Dataset({"accuracy": accuracy}))
    np.testing.assert_array_equal(chosen.rate, [0.5, 0.1])
    np.testing.assert_allclose(chosen.accuracy.isel(epoch=-1).mean("seed"), [[0.6, 0.6], [0.2, 0.3]])
    np.testing.assert_allclose(chosen.end, [[0.5, 0.6], [0.25, 0.1]])


def result_of(ends, names, attack, gamma=0.05, up=100.0, down=100.0, **more):
    cost = lambda values: (("curve", "attack", "seed"), np.broadcast_to(np.reshape(values, (-1, 1, 1)), shape))
    shape = (len(names), len(attack), 2)
    accuracy = runs(ends, curve=names, attack=attack)
    return xr.Dataset({"accuracy": accuracy, "gamma": cost(gamma), "up": cost(up), "down": cost(down)} | more)


def test_at_equal_bytes_the_costlier_run_is_read_earlier():
    result = result_of([[0.4], [0.6]], ["FedREP", "other"], ["none"], up=[10.0, 40.0], down=[10.0, 10.0])
    last = lambda way: curves.ahead(result, "FedREP", "other", way).gap.mean.item()
    np.testing.assert_allclose([last("iteration"), last("up"), last("both")], [-0.2, 0.4 - 0.15, 0.4 - 0.24])


def test_flat_up_to_an_alpha_and_falling_beyond_is_recognised():
    alphas = [0.0, 0.5, 0.95, 1.0]
    said = lambda ends: verdicts(variants.of_rule(runs(np.tile(ends, (4, 1)).T, alpha=alphas, attack=attacks()), ""))
    assert said([0.9, 0.9, 0.89, 0.7]) == [True, True]
    assert said([0.9, 0.9, 0.8, 0.7]) == [False, True]
    assert said([0.9, 0.9, 0.9, 0.9]) == [True, False]


@pytest.mark.parametrize(("beyond", "verdict"), [([1.0], True), ([0.99, 1.0], None)])
def test_a_fall_at_any_of_several_alphas_is_sure_of_all_together(beyond, verdict):
    """Of two seeds 10 +- 0.5 points: half of the interval is 6.4 for one alpha, and 12.7 where two are tried."""
    ends = [0.9, 0.9, *[0.8] * len(beyond)]
    whole = runs(np.tile(ends, (4, 1)).T, alpha=[0.0, 0.5, *beyond], attack=attacks())
    apart = xr.DataArray([-0.005, 0.005], {"seed": [0, 1]}) * (whole.alpha > 0.95)
    assert verdicts(variants.of_rule(whole + apart, ""))[1] is verdict


def test_an_unsteady_rule_is_recognised():
    steady = runs(np.full((2, 1, 4), 0.9), curve=["geoMed", "TMean"], alpha=[0.0], attack=attacks())
    shaken = steady.copy()
    shaken.loc[{"curve": "TMean", "attack": list(methods.ALIE), "epoch": [2.0, 4.0]}] = 0.1
    assert [variants.unsteady(bitten(of)).verdict for of in (steady, shaken)] == [False, True]
    assert variants.unsteady(bitten(steady.sel(curve=["geoMed"]))).verdict is None
    once = shaken.copy()
    once.loc[{"seed": 0}] = steady.sel(seed=0)
    assert variants.unsteady(bitten(once)).verdict is None, "one seed of two"


def test_comparisons_of_systems_follow_from_the_data():
    other = runs([0.5] * 4, attack=attacks())
    by = lambda ends: curves.compared(runs(ends, attack=attacks()), other)
    said = lambda *both, lost=0.2: other_systems.over_rcgd_ef(bitten(other, lost), *map(by, both))
    assert verdicts(said([0.5, 0.6, 0.6, 0.5], [0.6] * 4)) == [True, True, True]
    assert verdicts(said([0.4, 0.6, 0.5, 0.5], [0.5] * 4)) == [False, False, False]
    assert verdicts(said([0.6, 0.6, 0.6, 0.6], [0.5] * 4))[0]  # more than comparable is no failure
    untested = said([0.4, 0.6, 0.5, 0.5], [0.5] * 4, lost=0.02)
    assert [claim.said for claim in untested[:2]] == ["not testable here"] * 2 and "2.0 +- 0 under FoE" in untested[
        0
    ].control

    for lost in (bitten(other, off=0.1), bitten(other).isel(seed=[0])):
        open_ = other_systems.over_rcgd_ef(lost, by([0.5, 0.6, 0.6, 0.5]), by([0.6] * 4))
        assert [claim.said for claim in open_[:2]] == ["not decided"] * 2, "the control costs 20 +- 90, or has one seed"

    result = lambda end, up: result_of([[0.5], [end]], ["noAtk", "minAtk"], ["FoE"], up=[100.0, up])
    coordinates = lambda end, up: variants.coordinates(paper("fig4"), result(end, up))
    assert verdicts(coordinates(0.49, 110.0)) == [True, True] and verdicts(coordinates(0.4, 150.0)) == [False, False]

    momentum = lambda end: variants.helps("", bitten(runs([[0.5], [end]], momentum=[0.0, 0.9], attack=["FoE"]))).verdict
    assert momentum(0.6) and not momentum(0.5)

    def sparse(ours, rate):
        end = (("curve", "tried"), [[ours, np.nan], [0.5, 0.5], [0.6, 0.6]])
        rates = xr.DataArray([0.5, rate, rate], dims="curve")
        result = result_of([[ours], [0.5], [0.6]], ["FedREP", "a", "b"], ["none"], end=end, rate=rates)
        return verdicts(other_systems.by_rate(paper("fig7"), result.assign_coords(tried=[0.5, 5.0])))

    assert sparse(0.7, 5.0) == [True, True, True] and sparse(0.55, 0.5) == [True, False, False]


def test_fedrep_at_a_gamma_is_held_against_share():
    names = ["FedREP 0.03", "FedREP 0.13", "SHARE"]
    of = lambda low, high, gamma: result_of(
        np.tile([[low], [high], [0.8]], (1, 5)), names, ["none", *attacks()], gamma=[gamma, 0.08, 1.0]
    )

    def said(*args, lost=0.2):
        result = of(*args)
        control = bitten(result.accuracy, lost).undefended
        return verdicts(against_share.at_gammas(paper("fig8"), result.assign(undefended=control)))

    assert said(0.76, 0.79, 0.018) == [True, True, False]
    assert said(0.70, 0.75, 0.018) == [False, False, False]
    assert said(0.85, 0.85, 0.03) == [True, None, True]
    assert said(0.70, 0.79, 0.018, lost=0.02) == [True, False, None]  # judged without attack only


def test_the_guessed_reason_is_true_only_if_it_holds_everywhere():
    def said(*low):
        values = [[low, [0.5] * len(low)], [[1.0] * len(low)] * 2]
        coords = {"curve": ["FedREP 0.1", "SHARE"], "attack": list(methods.ALIE)}
        return against_share.lower(xr.DataArray(values, coords, ("curve", "attack", "seed")), "", "").verdict

    assert [said(0.9, 0.901), said(1.1, 1.101), said(1.0, 1.0)] == [True, False, False]
    assert said(0.9) is said(1.1) is said(0.5, 1.2, 0.8) is None, "one seed, or seeds that disagree"


def test_dissimilarity_is_of_the_means_of_honest_buffers():
    m, s, d, f = 8, 2, 5, 2
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(m // s), s)).astype(np.int32)
    values = rng.integers(-(2**20), 2**20, (m, d))
    Mask = type("Mask", (), {"group": jnp.asarray(group)})
    view = View(field.from_signed(jnp.asarray(values, jnp.int32)), (), (), {"mask": Mask}, (), ())
    got = jax.jit(lambda: against_share.dissimilarity(m // s, f)(view))()
    honest = [b for b in range(m // s) if b not in group[:f]]
    means = np.stack([values[group == b].mean(0) for b in honest]) / 2**20
    pairs = [((a - b) ** 2).sum() for i, a in enumerate(means) for b in means[:i]]
    np.testing.assert_allclose(got["dissimilarity"], np.mean(pairs), rtol=1e-4)
    np.testing.assert_allclose(got["length"], (means.mean(0) ** 2).sum(), rtol=1e-4)


def test_table_1_is_said_of_a_system_that_has_the_aspects():
    def said(end, up, read, lost, mean=0.5):
        names = ["FedREP", "SparseSecAgg"]
        result = result_of([[0.9, end], [0.9, mean]], names, ["none", "FoE"], up=up).assign_attrs(num_params=1000)
        reads = {"read_alone": ("curve", [read] * 2), "read_lost": ("curve", [lost] * 2)}
        return table1.claims(result.assign(reads))

    ours, theirs = said(0.89, 400.0, 0.0, 0.0)
    assert ours.verdict and theirs.verdict and "40.0 (FoE)" in theirs.control
    assert said(0.5, 4000.0, 1.0, 1.0)[0].found == "no no no" and not said(0.5, 400.0, 0.0, 0.0)[0].verdict
    assert said(0.89, 400.0, 0.0, 0.3)[1].found == "no yes no"  # values of lost users are read
    open_, _ = said(0.89, 400.0, 0.0, 0.0, mean=0.88)
    assert open_.said == "not testable here" and open_.found == "open yes yes"


def test_a_rate_at_an_edge_is_widened_until_it_is_not():
    asked = []

    def run(best):
        def runs_at(rates):
            asked.append([float(rate) for rate in rates])
            ends = [[[0.9 - abs(np.log(rate / best)) / 10] for rate in rates]]
            return xr.Dataset({"accuracy": runs(ends, alpha=[0.0], rate=list(rates), attack=["none"])})

        return runs_at

    found = tuning.tuned(run(10.0), (0.5, 1.0, 2.0), 4)
    assert asked == [[0.5, 1.0, 2.0], [5.0], [10.0], [20.0]] and found.rate.item() == 10.0
    assert found.end.tried.values.tolist() == [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    assert tuning.tuned(run(0.05), (0.1, 0.2), 4).rate.item() == 0.05
    assert tuning.tuned(run(0.05), (0.1, 0.2), 0).rate.item() == 0.1
    assert tuning.tuned(run(9.0), (0.1,), 4).rate.item() == 0.1
    far = tuning.tuned(run(1e6), (1.0, 2.0), 4).expand_dims(curve=["FedREP"])
    assert far.rate.item() == 50.0 and tuning.at_edge(far) == ["FedREP"]
    assert tuning.at_edge(found.expand_dims(curve=["FedREP"])) == []
    (claim,) = outcome.inside(far, [Claim("x", "x", "", "", True, differs="")])
    assert claim.said == "not decided" and "FedREP is at the edge" in claim.note


def test_the_server_reads_single_values_where_nothing_hides_them():
    assert table1.read_alone(methods.Method("RCGD-EF"), 0) == 1
    assert table1.read_alone(methods.Method("FedREP"), 0) == 0


def test_attacks_are_what_their_names_say():
    updates = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)), jnp.float32)
    honest, key = jnp.arange(6) >= 2, jax.random.key(0)
    want = {
        "none": lambda *args: updates, "bit-flip": sign_flip(), "ALIE (Baruch)": alie(), "ALIE (1.5)": alie(1.5),
        "FoE": foe(), "bit-flip (30)": sign_flip(30.0),
    }  # fmt: skip
    table = methods.ATTACKS
    assert list(table) == list(want)
    forged = lambda rules: jax.jit(lambda: [rule(key, updates, honest, ~honest) for rule in rules.values()])()
    for ours, theirs in zip(forged(table), forged(want), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_systems_without_a_place_for_attacks_train_byzantine_clients_to_where_it_says():
    vectors = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)), jnp.float32)
    local = Local(lambda n, params: (), lambda key, memory, params, data, cohort: (vectors, memory, jnp.zeros(6)))
    cohort = type("Who", (), {"client": jnp.arange(6)})
    got, _, _ = methods.attacked(local, foe(), 2).apply(jax.random.key(0), (), (), (), cohort)
    np.testing.assert_array_equal(got[2:], vectors[2:])
    np.testing.assert_allclose(got[:2], np.tile(-0.5 * vectors[2:].mean(0), (2, 1)), rtol=1e-5)


def test_pixels_are_averaged():
    images = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    np.testing.assert_array_equal(problem.pooled(images, 2)[0, ..., 0], [[2.5, 4.5], [10.5, 12.5]])


FIGURES = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "fig12", "table1")


def test_the_papers_setting_is_as_printed():
    for name in FIGURES:
        setting = paper(name).setting
        assert setting.task == problem.Task("cifar10", "resnet20") and setting[1:3] == (32, 25)
        assert {0.1, 0.2, 0.5, 1.0, 2.0, 5.0} <= {*setting.rates} and setting.epochs == 120
    assert training.lengths(setting, methods.Method(), 50_000) == (7500, 125)
    assert training.lengths(setting, methods.Method(local_steps=5), 50_000) == (1500, 25)
    assert problem.num_params(setting.task) == 272_474


BUILT = {"fig2": ["RCGD-EF"], "fig4": ["sameAtk"], "table1": list(table1.NAMES[1:])}


def test_the_papers_runs_can_be_built(monkeypatch):
    """What the others run differs in numbers only, as local steps do; clients are traced once for all of these."""
    trained = {}
    shape, local_of = jax.ShapeDtypeStruct, training.local_of
    examples = shape((32, 1563, 32, 32, 3), jnp.float32), shape((32, 1563), jnp.int32)
    data, key = ClientData(examples, shape((32,), jnp.int32)), jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(problem.model_of(paper("table1").setting.task).init, key)

    def once(setting, method, rounds, momentum, rate):
        how = setting.task, setting.batch_size
        if how not in trained:
            local = local_of(setting, method, rounds, momentum, rate)
            trained[how] = local._replace(apply=jax.jit(local.apply))
        return trained[how]

    def run(config, curve, numbers, key, params, data):
        how = dict(zip(("alpha", "attack", "momentum", "rate"), numbers, strict=True))
        system = training.algorithm(config.setting, config.methods[curve], 7500, **how, elide=True, observe=None)
        state = system.init(key, params, data)
        return state, *system.step(key, state, data)

    def all_runs(*args):
        configs = {name: paper(name) for name in BUILT}
        return [run(configs[name], curve, *args) for name, curves in BUILT.items() for curve in curves]

    monkeypatch.setattr(training, "local_of", once)
    for before, after, info in jax.eval_shape(all_runs, (shape((), jnp.float32),) * 4, key, params, data):
        assert jax.tree.structure(before) == jax.tree.structure(after) and info.direction.size == 272_474


def test_clients_train_as_eq_182_says_at_a_rate_that_falls_once(monkeypatch):
    """m <- beta m + (1 - beta) grad at the rate r is a rate r (1 - beta); a tenth of it from epoch 80 of 120 on."""
    told = {}
    monkeypatch.setattr(training, "local_sgd", lambda loss, **how: told.update(how))
    setting = training.Setting(training.Task("digits", "softmax"))
    training.local_of(setting, methods.Method(), 240, 0.9, 0.5)
    rates = [float(told["learning_rate"](jnp.int32(done))) for done in (0, 159, 160, 239)]
    np.testing.assert_allclose(rates, [0.05, 0.05, 0.005, 0.005], rtol=1e-5)
    assert told["momentum"] == 0.9 and told["carry_momentum"] and told["batch_size"] == 25


def test_rules_have_the_papers_parameters():
    """Seven of 16 buffers are trimmed at each end; five Weiszfeld steps from the mean."""
    rows = np.random.default_rng(1).normal(size=(16, 3)).astype(np.float32)
    rows[:7] += 9
    np.testing.assert_allclose(methods.AGGREGATES["TMean"](rows), np.sort(rows, axis=0)[7:9].mean(0), rtol=1e-5)
    np.testing.assert_allclose(methods.AGGREGATES["geoMed"](rows), weiszfeld(rows.astype(np.float64)), rtol=1e-4)
