"""What the figures of FedREP and CDP-FL hand to the systems is what the papers print, and wrong wiring shows."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.cdp_fl import against_dp_sgd, by_epsilon
from experiments.cdp_fl import training as cdp_training
from experiments.cdp_fl.figures import FIGURES as CDP_FL
from experiments.fedrep import methods, training
from experiments.fedrep.figures import FIGURES as FEDREP
from experiments.problem import Task
from fedjax_priv import data as datasets

PAPERS_FEDREP = {  # figure: local steps, buffer size, Byzantine clients, momenta, attacks; from the paper's text
    "fig1": (1, 2, 7, {0.9}, {"bit-flip", "ALIE (Baruch)", "ALIE (1.5)", "FoE"}),
    "fig2": (5, 2, 7, {0.9}, {"bit-flip", "ALIE (Baruch)", "ALIE (1.5)", "FoE"}),
    "fig3": (1, 2, 7, {0.9}, {"bit-flip", "ALIE (Baruch)", "ALIE (1.5)", "FoE"}),
    "fig4": (1, 2, 7, {0.9}, {"bit-flip", "ALIE (Baruch)", "ALIE (1.5)", "FoE"}),
    "fig5": (1, 2, 7, {0.0, 0.5, 0.9, 0.99}, {"ALIE (Baruch)", "ALIE (1.5)"}),
    "fig8": (1, 4, 3, {0.0}, {"none", "bit-flip", "ALIE (Baruch)", "ALIE (1.5)", "FoE"}),
    "fig12": (1, 2, 7, {0.9}, {"ALIE (Baruch)", "ALIE (1.5)"}),
}
PAPERS_RATIO = {"fig1": {0.05}, "fig2": {0.05}, "fig3": {0.05}, "fig4": {0.065}, "fig5": {0.05}}
PAPERS_RULE = {
    "fig1": {"CClip"}, "fig2": {"CClip"}, "fig3": {"geoMed", "TMean"}, "fig4": {"CClip"},
    "fig5": {"geoMed", "TMean", "CClip"}, "fig8": {"CClip"}, "fig12": {"CClip"},
}  # fmt: skip


@pytest.mark.parametrize("name", PAPERS_FEDREP)
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_fedrep_s_figures_have_the_paper_s_clients_attacks_and_systems(name, scale):
    config = FEDREP[name].scales[scale]
    steps, size, byzantine, momenta, attacks = PAPERS_FEDREP[name]
    assert {*config.momenta} <= momenta and {*config.attacks} == attacks
    assert config.setting.num_clients == 32 and config.setting.batch_size == 25
    for method in config.methods.values():
        assert (method.local_steps, method.buffer_size, method.num_byzantine) == (steps, size, byzantine)
    assert {method.aggregate for method in config.methods.values()} == PAPERS_RULE[name]
    ratios = {method.ratio for method in config.methods.values() if method.system != "SHARE"}
    assert ratios == PAPERS_RATIO.get(name, ratios)


def test_fedrep_s_other_axes_are_the_paper_s():
    paper = lambda name: FEDREP[name].scales["paper"]
    assert paper("fig1").alphas == paper("fig3").alphas == (0.0, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0)
    assert {m.coordinates for m in paper("fig4").methods.values()} == {"noAtk", "minAtk", "randAtk", "sameAtk"}
    sizes = {(m.buffer_size, m.ratio) for m in paper("fig6").methods.values() if m.system == "FedREP"}
    assert sizes == {(s, ratio) for s in (4, 8, 16) for ratio in (0.05, 0.1)}
    sparse = {name: m.ratio for name, m in paper("fig7").methods.items() if m.system == "SparseSecAgg"}
    assert [*sparse.values()] == [0.05, 0.1, 0.2] and paper("fig7").methods["FedREP 0.05"].rates == (0.5,)
    for name in ("fig6", "fig7"):
        assert paper(name).attacks == ("none",)
        assert not any(method.num_byzantine for method in paper(name).methods.values())
        assert {0.1, 0.2, 0.5, 1.0, 2.0, 5.0} <= {*paper(name).methods["SparseSecAgg 0.05"].rates}
    for name in PAPERS_FEDREP:
        assert paper(name).setting.rates == (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
        assert all(not method.rates for method in paper(name).methods.values())


def test_a_short_run_is_the_paper_s_but_for_epochs():
    for name in ("fig1", "fig6"):
        short, paper = (FEDREP[name].scales[scale] for scale in ("short", "paper"))
        assert short.setting.task == paper.setting.task == Task("cifar10", "resnet20")
        assert FEDREP[name].differs(short, paper) == "epochs 4 (paper: 120)"


def test_the_trimmed_mean_leaves_the_two_middle_rows_of_sixteen_and_the_control_defends_nothing():
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(16, 5)), jnp.float32)
    got = lambda name: jax.jit(lambda: methods.AGGREGATES[name](rows, jnp.ones(16, bool), key=jax.random.key(0)))()
    ranked = np.sort(np.asarray(rows, np.float64), axis=0)
    np.testing.assert_allclose(got("TMean"), ranked[7:9].mean(0), rtol=1e-5)  # floor(7/16 16) = 7 from each end
    np.testing.assert_allclose(got("mean"), np.asarray(rows, np.float64).mean(0), rtol=1e-5, atol=1e-7)
    # tau 0.5, five steps from 0: each row pulls by at most 0.5 / 16 a step
    v = np.zeros(5)
    for _ in range(5):
        apart = np.asarray(rows, np.float64) - v
        v = v + (apart * np.minimum(1, 0.5 / np.linalg.norm(apart, axis=1))[:, None]).mean(0)
    np.testing.assert_allclose(got("CClip"), v, rtol=1e-4)


def asked(monkeypatch, where, name):
    """Keyword arguments of calls."""
    calls, real = [], getattr(where, name)

    def call(*args, **how):
        calls.append(inspect.signature(real).bind(*args, **how).arguments)
        return real(*args, **how)

    monkeypatch.setattr(where, name, call)
    return calls


def test_the_rate_has_the_factor_one_minus_beta_and_falls_after_two_thirds(monkeypatch):
    calls = asked(monkeypatch, training, "local_sgd")
    for rounds, steps in ((7500, 1), (1500, 5)):  # 120 epochs; the rate falls at epoch 80
        training.local_of(training.Setting(), methods.Method(local_steps=steps), rounds, 0.9, 2.0)
        how = calls[-1]
        drop = rounds * 2 // 3
        rates = [float(how["learning_rate"](jnp.asarray(t))) for t in (0, drop - 1, drop, rounds - 1)]
        np.testing.assert_allclose(rates, [0.2, 0.2, 0.02, 0.02], rtol=1e-6)  # eta (1 - beta) = 2 x 0.1
        assert (how["momentum"], how["carry_momentum"], how["num_steps"], how["batch_size"]) == (0.9, True, steps, 25)
        assert how.get("sample_clip") is None and not how.get("nesterov", False)


PARAMETERS = 272_474


@pytest.mark.parametrize(
    ("method", "factory", "wanted"),
    [
        (methods.Method(), "fedrep", {"ratio": 0.05, "buffer_size": 2, "num_byzantine": 7, "num_clients": 32}),
        (methods.Method("SHARE", buffer_size=4, num_byzantine=3), "share", {"buffer_size": 4, "num_byzantine": 3}),
        (methods.Method("RCGD-EF"), "rcgd_ef", {"ratio": 0.05, "num_byzantine": 7, "num_params": PARAMETERS}),
        (methods.Method("F2ed-Learning", sigma=0.05), "f2ed", {"sigma": 0.1, "num_byzantine": 7}),
        (methods.Method("SparseSecAgg", 0.1, num_byzantine=0), "sparse_secagg", {"num_clients": 32, "elide": True}),
    ],
)  # fmt: skip
def test_a_method_s_numbers_reach_its_system(monkeypatch, method, factory, wanted):
    given = {}
    monkeypatch.setattr(methods, factory, lambda local, **how: given.update(how))
    local = training.local_of(training.Setting(), method, 7500, 0.9, 2.0)
    methods.system_of(method, local, 32, PARAMETERS, 0.5, 0.0, 2.0, elide=True, observe=None)
    assert {name: given[name] for name in wanted} == pytest.approx(wanted)
    if factory == "fedrep":
        assert given["alpha"] == 0.5 and given["coordinate_attack"] is None
        assert given["aggregate"] is methods.AGGREGATES["CClip"]
    if factory == "sparse_secagg":  # p = 1 - (1 - alpha / 31)^31
        assert 1 - (1 - given["alpha"] / 31) ** 31 == pytest.approx(0.1)


def test_clients_hold_equal_shares_dealt_at_random(monkeypatch):
    given = []
    monkeypatch.setattr(
        training, "load", lambda task: datasets.Dataset(*(np.zeros((64, 1)), np.zeros(64, int)) * 2, 10)
    )
    monkeypatch.setattr(training.data, "federate", lambda *args, **how: given.append((args[1:], how)))
    monkeypatch.setattr(training, "sweep", lambda *args, **how: (_ for _ in ()).throw(StopIteration))
    with pytest.raises((StopIteration, RuntimeError)):
        training.compare(FEDREP["fig1"].scales["paper"])
    assert given == [((32,), {"seed": 0})]  # no `partition`: IID


@pytest.fixture
def curves(monkeypatch):
    """Curves against DP-SGD, without the accountant of what is amplified, which has its own tests and takes seconds."""
    monkeypatch.setattr(against_dp_sgd.privacy, "amplified", lambda setting, plan, sigma: 1 / sigma)
    monkeypatch.setattr(against_dp_sgd.privacy, "proved", lambda setting, plan, sigma, alone=False: 1 / sigma)
    return lambda name: against_dp_sgd.curves(CDP_FL[name].scales["paper"])


PAPERS_CDP_FL = {  # figure: T, tau, eps
    "fig5": (20, 10, 10.0), "fig6": (50, 5, 10.0), "fig7": (20, 2, None), "fig8": (50, 5, None),
}  # fmt: skip


@pytest.mark.parametrize("name", PAPERS_CDP_FL)
def test_cdp_fl_s_figures_train_as_the_paper_says(monkeypatch, curves, name):
    config = CDP_FL[name].scales["paper"]
    rounds, steps, eps = PAPERS_CDP_FL[name]
    plan = by_epsilon.plan_of(config) if eps is None else curves(name)[against_dp_sgd.PLAIN].plan
    assert (plan.rounds, plan.local_steps, plan.batch_size) == (rounds, steps, 2440 // steps)
    assert eps is None or config.epsilon == eps
    calls = asked(monkeypatch, cdp_training, "local_sgd")
    systems = asked(monkeypatch, cdp_training, "cdp_fl")
    cdp_training.algorithm(config.setting, plan, cdp_training.schedule(config.setting, rounds, 0), 0.01)
    how, around = calls[0], systems[0]
    rate, clip = {"logistic": (4.0, 1.0), "network": (0.3, 20.0)}[config.setting.model]
    assert (how["learning_rate"], how["sample_clip"], how["gradient_noise"]) == (rate, clip, 0.01)
    assert (how["num_steps"], how["batch_size"]) == (steps, 2440 // steps) and not how.get("momentum")
    around = around | around.get("how", {}) | around.get("run", {})
    assert around["num_clients"] == 16 and around["cohort_size"] == 10


def test_dp_sgd_takes_one_step_a_round_and_as_many_in_all(curves):
    base, many = curves("fig5")[against_dp_sgd.BASE].plan, curves("fig5")[against_dp_sgd.MANY].plan
    assert (base.rounds, base.local_steps, base.batch_size) == (20, 1, 244)
    assert (many.rounds, many.local_steps, many.batch_size) == (200, 1, 244)


def test_the_noise_of_figs_5_to_8_is_what_theorem_1_asks_at_eps_10(monkeypatch, curves):
    """sigma / G as the paper's formula gives it, C = 13 or 32."""
    for name, wanted in (("fig5", 4.902e-3), ("fig6", 3.845e-3)):
        config = CDP_FL[name].scales["paper"]
        sigma = curves(name)[against_dp_sgd.PLAIN].sigma
        assert sigma / config.setting.clip == pytest.approx(wanted, rel=1e-3)
    for name, wanted in (("fig7", 9.804e-4), ("fig8", 3.845e-3)):
        config = CDP_FL[name].scales["paper"]._replace(epsilons=(10.0,))
        sigma = by_epsilon.noise(config).sel(panel=by_epsilon.PAPER, line=by_epsilon.WITH).item()
        assert sigma / config.setting.clip == pytest.approx(wanted, rel=1e-3)


def test_every_device_takes_part_equally_often_and_ten_of_sixteen_a_round():
    setting = CDP_FL["fig6"].scales["paper"].setting
    table = cdp_training.schedule(setting, 50, 0)
    assert table.shape == (50, 10) and {*np.bincount(table.ravel())} == {31, 32}
    assert {*np.bincount(cdp_training.schedule(setting, 20, 0).ravel())} == {12, 13}


def test_figs_3_and_4_have_the_paper_s_noises_and_steps():
    for name, batch, steps, sigmas in (
        ("fig3", 61, (1, 5, 10, 40), (1e-5, 1e-4, 5e-4, 1e-3)), ("fig4", 122, (1, 5, 10, 20), (1e-4, 1e-3, 5e-3, 1e-2)),
    ):  # fmt: skip
        config = CDP_FL[name].scales["paper"]
        assert (config.batch_size, config.local_steps, config.sigmas) == (batch, steps, sigmas)
        assert config.rounds == 100 and min(config.added) > max(sigmas)
        assert "scale of features" in CDP_FL[name].differs(config, config)
