"""The wireless paper's experiments: figures follow from runs, verdicts from data, the largest scale can be built."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from papers import round_shapes, verdicts
from scipy import stats

from experiments.comparison import as_printed
from experiments.problem import model_of, num_params
from fedjax_priv.base import ClientData
from fedjax_priv.theory.wireless import Round


def script(name):
    return importlib.import_module(f"experiments.wireless.{name}")


FIGURES = script("figures").FIGURES
SETTING = script("figures").few(script("training").Setting())
CLIP, NOISE, ROUNDS = 0.05, 0.8, 200
RICE = stats.rice(b=np.sqrt(10), scale=np.sqrt(1 / 12))  # G = 5, E h^2 = 1


@pytest.fixture(scope="module")
def runs():
    axes = {"threshold": [2.0], "clip": [CLIP], "noise_variance": [NOISE]}
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam
        found = script("training").run(SETTING, axes, rounds=ROUNDS, seed=0)
    return found.squeeze(["threshold", "noise_variance"], drop=True)


def test_participants_are_as_many_as_the_fading_says(runs):
    np.testing.assert_allclose(runs.probability, np.minimum(1, runs.gain / 2), rtol=1e-6)
    p = RICE.expect(lambda h: np.minimum(1, h / 2))
    counts = runs.counted.sum("client").values.ravel()
    assert abs(counts.mean() - 40 * p) < 5 * np.sqrt(40 * p * (1 - p) / ROUNDS)


def test_power_limits_as_many_as_the_fading_says(runs):
    found = script("leakage").limited(runs, SETTING).values.ravel()
    takes_part = lambda low, high: RICE.expect(lambda h: np.minimum(1, h / 2), lb=low, ub=high)
    for fraction, users, snr in zip(found, SETTING.groups, SETTING.snr_db, strict=True):
        weakest = [np.sqrt((NOISE + norm**2 / 650) / 10 ** (snr / 10)) for norm in (0, CLIP)]
        low, high = (takes_part(0, h) / takes_part(0, np.inf) for h in weakest)
        error = 5 * np.sqrt(max(high, 1e-3) / (0.48 * users * ROUNDS))
        assert low - error < fraction < high + error
    assert found[0] > 0.05, "the 2 dB users are"


def test_leakage_is_the_worst_of_users_and_rounds(runs):
    p = runs.probability.values.reshape(ROUNDS, 40).astype(np.float64)
    m, most = p.sum(1), p.max(1)
    delta = 2 * np.exp(-2 * m**2 / 40) + 1e-5
    width = np.sqrt(20 * np.log(2 / delta))
    root = np.sqrt(2 * np.log(1.25e5))
    spread = 1 + m - most - width
    exponent = 2 * CLIP / np.sqrt(NOISE * (m - width)) * root
    want = {
        "lemma": 2 * CLIP / np.sqrt(NOISE * spread) * root,
        "local": 2 * CLIP / np.sqrt(NOISE * spread + 1) * root,
        "local_delta": most * (delta + 1e-5),
        "central": np.log1p(most / (1 - delta) * np.expm1(exponent)),
        "printed": np.log(2 * most / (1 - delta)) + exponent,
        "central_delta": delta + most * 1e-5 / (1 - delta),
    }
    found = script("leakage").of_runs(runs.probability, NOISE).squeeze()
    for name, values in want.items():
        np.testing.assert_allclose(found[name], values.max(), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(found.frozen, want["central"][0], rtol=1e-9)
    assert 0 < found.rigorous < found.central


def test_there_is_no_leakage_to_show_where_delta_is_1():
    assert np.isnan(list(script("leakage").of_round(np.full(200, 0.04), 1.0, 0.1).values())).all()


def accuracies(ends, *, off=0.001, **dims):
    """That rise evenly to `ends`, of two seeds `off` below and above; differences of runs have no noise."""
    values = np.asarray(ends, float)[..., None, None] * np.linspace(0, 1, 3) + np.array([[-off], [off]])
    dims = {**dims, "seed": [0, 1], "iteration": [0, 5, 10]}
    return xr.DataArray(values, dims, tuple(dims))


def test_a_gap_is_clear_beyond_its_noise():
    ahead, base = script("curves").ahead, accuracies(0.5)
    noisy = base + xr.DataArray([-0.05, 0.05], dims="seed")
    assert ahead(accuracies(0.51), base).above() == 1 and ahead(base, accuracies(0.51)).above() == -1
    found = ahead(noisy, base - 0.03)
    np.testing.assert_allclose(100 * np.array(found), [3, 63.531], atol=1e-3)  # t std / sqrt(2), std = 5 sqrt(2)
    assert found.above() == 0 and ahead(base, base).above() == -1
    assert ahead(base.pad(iteration=(0, 1)), 0 * base).mean.item() == pytest.approx(0.5)


def test_every_printed_leakage_follows_from_one_rule_and_from_the_stated_formulas_where_they_say():
    """All sixteen uniform cells, written again from the paper; Lemma 2 as stated gives none, eq. 13 four."""
    printed, root = script("printed"), np.sqrt(2 * np.log(1.25e5))
    cells = {  # L, sigma^2: eps_l and eps_c at p = 0.3, and at p = 0.9
        (1.0, 0.1): (5.124, 5.61, 2.46, 3.132), (0.1, 0.1): (0.5124, 0.2258, 0.2460, 0.2317),
        (1.0, 0.8): (2.084, 1.653, 0.8953, 1.487), (0.2, 0.8): (0.4169, 0.1505, 0.1791, 0.1633),
    }  # fmt: skip
    panels = [(p.clip, noise, p.printed) for noise, of in script("table_config").PANELS.values() for p in of.values()]
    assert [(clip, noise) for clip, noise, _ in panels] == list(cells)
    met = []
    for clip, noise, said in panels:
        flat = (said.local[1], said.central[1], said.local[2], said.central[2])
        assert tuple(map(float, flat)) == cells[clip, noise]
        for p, local, central in ((0.3, *flat[:2]), (0.9, *flat[2:])):
            found = printed.uniform(p, clip, noise)
            senders = 1 + 199 * p - np.sqrt(100 * np.log(2 / 1e-5))
            x = 2 * clip * root / np.sqrt(noise * (senders + p - 1))
            y = p * np.expm1(x)
            want = np.log(2 * p) + x if y > 1 else np.log1p(y)
            assert abs(found["rule"] - want) < 1e-4 and abs(found["central"] - np.log1p(y)) < 1e-4
            assert abs(found["local"] - 2 * clip * root / np.sqrt(senders * noise + 1)) < 1e-4
            names = (("local", local), ("rule", central), ("lemma", local), ("central", central))
            met.append([as_printed(found[name], cell) for name, cell in names])
    np.testing.assert_array_equal(np.sum(met, 0), [8, 8, 0, 4])


def test_a_number_is_compared_to_its_digits():
    agrees = as_printed
    assert agrees(2.4649, "2.46") and agrees(2.455, "2.46") and not agrees(2.4549, "2.46")
    assert agrees(0.24596, "0.2460") and not agrees(0.2464, "0.2460") and not agrees(0.0829, "0.082")


@pytest.mark.parametrize(
    ("clip", "noise", "cells", "round_"),
    [
        (1.0, 0.1, ("3.675", "4.535"), (0.8745, 94.330)), (0.1, 0.1, ("0.3677", "0.3642"), (0.8994, 94.279)),
        (1.0, 0.8, ("1.390", "1.991"), (0.8977, 94.327)), (0.2, 0.8, ("0.2795", "0.2620"), (0.9170, 93.696)),
    ],
)  # fmt: skip
def test_channel_aware_cells_are_those_of_a_round(clip, noise, cells, round_):
    """Values worked out by hand from the two formulas; the mean of m is K E min(1, h/2), by quadrature."""
    printed = script("printed")
    np.testing.assert_allclose(printed.of_a_round(*cells, clip, noise), round_, atol=6e-4)
    law = printed.law(clip, noise, rounds=2000, seed=1)
    mean = 200 * RICE.expect(lambda h: np.minimum(1, h / 2))
    assert mean == pytest.approx(95.992, abs=1e-3) and abs(law.mean.mean() - mean) < 5 * 1.981 / np.sqrt(2000)
    assert abs(np.median(law.most) - 0.863) < 0.01
    p = np.minimum(1, RICE.rvs(200, random_state=2) / 2)
    want = script("leakage").of_round(p, clip, noise)
    assert printed._local(p.max(), p.sum(), clip, noise) == pytest.approx(want["local"], rel=1e-5)
    assert printed._rule(p.max(), p.sum(), clip, noise) == pytest.approx(
        want["printed" if clip == 1 else "central"], rel=1e-5
    )


def table(config, ends, participants):
    columns = {"sampling": config.columns}
    counted = xr.DataArray(np.tile(np.asarray(participants, float)[:, None], 2), columns, ("sampling", "seed"))
    accuracy = accuracies(ends, off=0.0002, **columns)
    return xr.Dataset({"participants": counted, "accuracy": accuracy}, columns)


def of_cells(config, name, ends, participants=(96.1, 60.2, 179.9)):
    found = script("cells").claims(config, name, table(config, ends, participants))
    return {claim.id.removeprefix(f"{name}-"): claim for claim in found}


def test_verdicts_of_the_tables_follow_from_the_data():
    config = FIGURES["fig4"].scales["paper"]
    good = of_cells(config, "a", [0.85, 0.84, 0.865])
    assert len(good) == 15 and all(good[f"accuracy {column}"].verdict for column in config.columns)
    said = [good[f"accuracy {column}"].expected for column in config.columns]
    assert said == ["85.27%", "83.98%", "86.42%"] and good["eps_c uniform p = 0.9"].expected == "3.132"
    assert good["between"].verdict and [good[id].verdict for id in ("lemma-2", "eq-13")] == [False, False]
    bad = of_cells(config, "a", [0.80, 0.84, 0.865], [90.0, 60.2, 179.9])
    columns = ("channel-aware", "uniform p = 0.3")
    assert [bad[f"accuracy {column}"].verdict for column in columns] == [False, True]
    assert [bad[f"participants {column}"].verdict for column in columns] == [False, True]
    assert bad["between"].verdict is False
    assert of_cells(config, "b", [0.84, 0.82, 0.86])["eq-13"].verdict
    panels = config.panels | {"a": config.panels["a"]._replace(rounds=100)}
    shorter = of_cells(config._replace(panels=panels), "a", [0.85, 0.84, 0.865])
    assert all(shorter[f"accuracy {column}"].verdict is None for column in config.columns)


def test_a_panel_that_chose_t_is_no_evidence_and_the_other_is_a_trend():
    config = FIGURES["fig5"].scales["paper"]
    fitted, other = (of_cells(config, name, [0.76, 0.66, 0.79]) for name in "ab")
    columns = [f"accuracy {column}" for column in config.columns]
    assert [fitted[column].why for column in columns] == ["not testable here"] * 3
    assert all("picked" in fitted[column].control for column in columns)
    assert [other[column].said for column in columns] == ["agrees in trend", "agrees in trend", "differs in trend"]
    assert other["between"].said == "agrees in trend" and other["eps_l uniform p = 0.3"].said == "holds"


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([84.1, 84.4, 84.6], "reproduced"),
        ([79.8, 80.1, 80.3], "differs"),
        ([88.8, 89.1, 89.3], "better than printed"),
        ([60.0, 84.0, 99.0], "not decided"),  # the wider seeds spread, the less they say
        ([84.3], "not decided"),
        ([99.0], "not decided"),  # one seed, however far
    ],
)
def test_a_printed_accuracy_is_judged_by_its_interval_not_by_the_range_of_seeds(values, word):
    cells, config = script("cells"), FIGURES["fig4"].scales["paper"]
    found = cells._accuracy(config, "b", "channel-aware", "84.33", np.array(values))
    assert found._replace(differs="").said == word and found.expected == "84.33%"


def fig3_of(unknown, known, moments):
    fig3 = script("fig3")
    config = FIGURES["fig3"].scales["paper"]._replace(num_users=(20,), participation=(0.1, 0.9))
    axes = {"K": [20], "p": [0.1, 0.9]}
    ends = np.moveaxis(np.array([[unknown, known]]), 1, 2)
    return verdicts(fig3.claims(config, xr.Dataset({
        "moment": (("K", "p", "estimate"), [moments]), "taylor": (("K", "p"), [[1.0, 1.0]]),
        "accuracy": accuracies(ends, **axes, estimate=list(fig3.ESTIMATES)),
    }, axes | {"estimate": list(fig3.ESTIMATES)})))  # fmt: skip


def test_unknown_and_known_are_compared_everywhere_and_a_tie_is_no_failure():
    assert fig3_of([0.6, 0.8], [0.5, 0.7], [[1.0, 2.0], [0.5, 0.6]]) == [True, True, True]
    assert fig3_of([0.6, 0.8], [0.5, 0.8], [[1.0, 1.0], [0.5, 0.6]]) == [True, True, True]
    assert fig3_of([0.6, 0.5], [0.5, 0.7], [[1.0, 2.0], [0.7, 0.6]]) == [False, False, False]
    assert fig3_of([0.6, 0.8], [0.6, 0.8], [[1.0, 2.0], [0.5, 0.6]])[1] is False, "better nowhere"


def test_accuracy_must_fall_at_every_step_of_the_noise():
    fig7 = script("fig7")
    config = FIGURES["fig7"].scales["paper"]._replace(noise_variances=(0.1, 0.2, 0.4))
    noises = {"noise_variance": list(config.noise_variances)}
    said = lambda *ends: verdicts(fig7.claims(config, xr.Dataset({"accuracy": accuracies(ends, **noises)})))
    assert said(0.9, 0.8, 0.7) == [True] and said(0.9, 0.7, 0.8) == [False]


def test_orders_are_judged_for_large_k_from_one_side():
    fig2 = script("fig2")
    near, far = "100 to 1,000", "100,000 to 1,000,000"

    def said(slopes):
        dims = ("of", "window", "scheme")
        values = np.broadcast_to(np.array([np.zeros(4), slopes]), (2, 2, 4))
        coordinates = {"of": ["paper", "exact"], "window": [near, far], "scheme": list(fig2.SCHEMES)}
        return verdicts(
            fig2.orders(None, xr.Dataset({"slope": (dims, values), "margin": (dims, 0 * values)}, coordinates))
        )

    assert said([0.0, -0.47, -0.9, -0.76]) == [True] * 4
    assert said([0.2, -0.3, -0.4, -0.6]) == [False] * 4


def test_slopes_and_the_first_number_of_users():
    fig2, sizes = script("fig2"), np.array([10, 100, 1000, 10_000])
    np.testing.assert_allclose(fig2.slope(sizes, 3 * sizes**-0.75), [-0.75, 0], atol=1e-9)
    bent = np.array([1.0, 2.0, 5.0, 10.0])
    slope, margin = fig2.slope(np.exp(bent).astype(float), np.exp([0.0, 2.0, 3.0, 5.0]))
    line = np.polyfit(bent, [0, 2, 3, 5], 1)
    rest = np.sqrt(np.square(np.polyval(line, bent) - [0, 2, 3, 5]).sum() / 2 / np.square(bent - bent.mean()).sum())
    np.testing.assert_allclose([slope, margin], [line[0], 4.302653 * rest], rtol=1e-6)
    assert np.isnan(fig2.slope(sizes, np.array([1, 1, 0.1, 0]))).all()
    assert fig2.crossing(script("schemes").Noise()) == 156


def test_fig_6_without_a_deviation_is_the_formula():
    fig6 = script("fig6")
    want = np.log1p(0.3 * np.expm1(4 / np.sqrt(20 * 0.3)))
    assert fig6.bound(fig6.Config(), fig6.LIMIT, 4.0, 0.3) == pytest.approx(want)
    assert np.isnan(fig6.bound(fig6.Config(), "1e-05", 4.0, 0.5)), "beta = 0.55"


def test_the_worst_pairs_loss_is_a_ratio_of_densities():
    audit = script("audit")
    setting = Round(5, 0.4, clip=0.7, noise_variance=0.3, receiver_noise=0.5)
    number, signal = np.array([0, 1, 3, 5]), np.array([0.2, -0.3, 1.0, -2.0])
    laws = [stats.norm(shift - 0.7 * number, np.sqrt(0.3 * number + 0.5)) for shift in (0, 1.4)]
    out, inside = (law.pdf(signal) for law in laws)
    want = np.log((1 - number / 5) * out + number / 5 * inside) - np.log(out)
    np.testing.assert_allclose(audit.replacement_loss(setting, number, signal), want, rtol=1e-12)


def test_the_best_threshold_is_the_best():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 1, 300), rng.normal(0, 1, 300)
    gain = lambda t: (first > t).mean() - np.exp(0.3) * (second > t).mean()
    found = script("audit")._best(first, second, 0.3)
    assert gain(found) == pytest.approx(max(map(gain, first)))


def test_an_audit_brackets_the_truth_and_finds_what_is_wrong():
    rng, epsilons = np.random.default_rng(1), np.array([0.0, 0.5, 1.0])
    first, second = rng.normal(1, 1, 20_000), rng.normal(0, 1, 20_000)
    best = lambda eps: eps + 0.5
    decide = lambda eps: ((first > best(eps)).sum(), (second > best(eps)).sum())
    found = script("audit")._measured(decide, epsilons, 20_000)
    exact = stats.norm.sf(best(epsilons) - 1) - np.exp(epsilons) * stats.norm.sf(best(epsilons))
    assert (found.low < exact).all() and (exact < found.high).all() and (found.low > 0.8 * exact).all()
    assert (found.high - found.low < 0.06).all()


def test_the_papers_setting_is_as_printed():
    configs = [FIGURES[name].scales["paper"] for name in ("fig4", "fig5", "fig7")]
    for config in configs:
        setting = config.setting
        assert (setting.task.dataset, setting.groups, setting.snr_db) == ("mnist", (68, 66, 66), (2.0, 10.0, 30.0))
        assert setting.learning_rate == 1e-3 and setting.num_users == 200
    assert num_params(configs[0].setting.task) == 7850 and script("training").THRESHOLD == 2
    panels = [(panel.clip, panel.rounds) for panel in configs[0].panels.values()]
    assert panels == [(1.0, 400), (0.1, 2500)] and configs[0].noise_variance == 0.1
    assert [panel.clip for panel in configs[1].panels.values()] == [1.0, 0.2]
    assert configs[1].noise_variance == 0.8
    bounds = FIGURES["fig3"].scales["paper"]
    assert bounds.num_users == (20, 200) and bounds.iterations == 4000
    assert (bounds.clip, bounds.noise_variance, bounds.receiver_noise) == (2.0, 0.1, 1.0)
    assert bounds.problem == (0.9, 0.2, 30) and bounds.setting.snr_db == (10.0,)


@pytest.mark.parametrize("name", ["fig3", "fig4", "fig5", "fig7"])
@pytest.mark.parametrize("sampling", ["participation", "threshold"])
def test_the_papers_runs_can_be_built(name, sampling):
    training, setting = script("training"), FIGURES[name].scales["paper"].setting
    shape, k = jax.ShapeDtypeStruct, setting.num_users
    data = ClientData((shape((k, 300, 28, 28, 1), jnp.float32), shape((k, 300), jnp.int32)), shape((k,), jnp.int32))
    params = jax.eval_shape(model_of(setting.task).init, jax.random.key(0))
    names = sampling, "clip", "noise_variance"
    make = lambda *numbers: training.algorithm(setting, **dict(zip(names, numbers, strict=True)))
    with jax.numpy_dtype_promotion("standard"):
        info = round_shapes(make, params, data, *[shape((), jnp.float32)] * 3)
    assert info.direction.size == num_params(setting.task)
