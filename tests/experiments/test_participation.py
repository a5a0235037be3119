"""The card on participation: closed forms written again, slopes of known powers, and claims that can fail."""

import numpy as np
import pytest
import xarray as xr

from experiments.wireless import participation, participation_claims
from experiments.wireless.figures import FIGURES
from fedjax_priv.theory import gaussian

CONFIG = FIGURES["participation"].scales["quick"]
NOISY = ["sigma^2 = 0.1", "sigma^2 = 0.8"]


def test_leakages_are_lemma_2_and_exact_figures():
    """At p = 1 the exact one is of a Gaussian mechanism."""
    few = CONFIG._replace(leaking=(0.25, 1.0), sizes=(400, 1600))
    found = participation.leakages(few)
    for by, k, p in (("p", np.full(2, 200), np.array(few.leaking)), ("K", np.array(few.sizes), np.full(2, 0.3))):
        shown = 1 + (k - 1) * p - np.sqrt(0.5 * k * np.log(2e5))
        np.testing.assert_allclose(found[f"shown_by_{by}"], shown)
        for noise, case in zip(few.noise_variances, NOISY, strict=True):
            eps = found[f"eps_by_{by}"].sel(noisy=case)
            for name, n0 in (("", 0.0), (" with N0", 1.0)):
                t = 2 / np.sqrt(shown * noise + n0)
                np.testing.assert_allclose(eps.sel(figure=f"Lemma 2{name}"), t * np.sqrt(2 * np.log(1.25e5)))
                np.testing.assert_allclose(eps.sel(figure=f"analytic{name}"), gaussian.epsilon(1e-5, t))
    for noise, eps in zip(few.noise_variances, found.eps_by_p.sel(figure="exact", p=1.0).values, strict=True):
        np.testing.assert_allclose(eps, gaussian.epsilon(2e-5, 2 / np.sqrt(200 * noise + 1)), rtol=1e-6)


@pytest.mark.parametrize(("case", "noise", "receiver"), [(0.0, 0.1, 1.0), (1.0, 0.8, 1.0), (2.0, 0.0, 0.0)])
def test_a_case_is_what_its_name_says(case, noise, receiver):
    release = participation.algorithm(CONFIG, participation=0.7, case=case).release
    np.testing.assert_allclose([release.noise_variance, release.receiver_noise, release.clip], [noise, receiver, 1])
    assert release.power is None
    assert participation.case_names(CONFIG) == [*NOISY, "no noise"]


def result(slope=(0.3, 0.4, 0.0), power=-0.5, exact=-0.5, apart=1e-3):
    """Accuracies on lines of these slopes, of two seeds; eps that are powers of 1 + kappa."""
    p, leaking, sizes = np.array(CONFIG.participation), np.linspace(0.25, 1, 4), np.array([400, 800, 1600])
    ends = np.array(slope) * p[:, None]
    lines = ends[..., None] + apart * p[:, None, None] * np.array([-1, 1]) + 0.1
    shown = {"p": 100 * leaking, "K": sizes / 3}
    names = participation_claims.FIGURES
    powers = np.array([*[power] * (len(names) - 1), exact])[None, :, None] * np.ones((2, 1, 1))
    eps = {by: 3 * x**powers for by, x in shown.items()}
    values = {"accuracy": (("participation", "case", "seed", "iteration"), lines[..., None])}
    values |= {f"eps_by_{by}": (("noisy", "figure", by), eps[by]) for by in shown}
    values |= {f"shown_by_{by}": (by, shown[by]) for by in shown}
    where = {"participation": p, "case": [*NOISY, "no noise"], "noisy": NOISY, "figure": list(names), "iteration": [1],
             "p": leaking, "K": sizes}  # fmt: skip
    return xr.Dataset(values, where)


def said(**of):
    return {claim.id: claim.said for claim in participation_claims.claims(CONFIG, result(**of))}


def test_slopes_are_those_of_the_lines():
    np.testing.assert_allclose(participation_claims.slopes(result()).mean("seed"), [0.3, 0.4, 0.0], atol=1e-9)
    np.testing.assert_allclose(participation_claims.slopes(result()).isel(seed=1), [0.301, 0.401, 0.001], atol=1e-9)
    for by in ("p", "K"):
        found = participation_claims.orders(result(power=-0.7, exact=-0.2), by)
        np.testing.assert_allclose(found.sel(figure="analytic"), [-0.7, -0.7])
        np.testing.assert_allclose(found.sel(figure="exact"), [-0.2, -0.2])


def test_claims_can_hold_and_fail():
    good = said()
    assert good.pop("more-accurate") == "agrees in trend" and set(good.values()) == {"holds"}
    assert said(slope=(0.3, -0.4, 0.0))["more-accurate"] == "differs in trend"
    assert said(apart=0.2)["more-accurate"] == "not decided"
    assert said(slope=(0.3, 0.4, 0.35))["for-noise"] == "does not hold"
    steep = said(power=-0.56)
    assert [steep[f"order: {name}"] for name in participation_claims.FIGURES] == [*["does not hold"] * 4, "holds"]
    assert said(power=-0.46)["order: Lemma 2"] == "holds" and said(exact=-0.1)["order: exact"] == "does not hold"
    assert said(exact=0.1)["exact-falls"] == "does not hold"


def test_one_direction_or_one_step_is_enough_to_fail():
    found = result()
    by_size = found.assign(eps_by_K=found.eps_by_K**1.2)
    rises = xr.where((found.p == 1) & (found.noisy == NOISY[1]) & (found.figure == "exact"), 2.0, 1.0)
    for changed, id in ((by_size, "order: analytic"), (found.assign(eps_by_p=found.eps_by_p * rises), "exact-falls")):
        verdicts = {claim.id: claim.verdict for claim in participation_claims.claims(CONFIG, changed)}
        assert verdicts[id] is False


def test_the_picture_has_a_panel_for_accuracy_and_one_for_each_direction():
    picture = participation_claims.figure(CONFIG, result())
    assert [axes.get_title() for axes in picture.axes][1:] == ["a round, K = 200", "a round, p = 0.3"]
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in picture.axes]
    assert legends[0] == [*NOISY, "no noise"] and len(legends[1]) == 5
