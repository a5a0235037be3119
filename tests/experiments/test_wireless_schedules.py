"""Wireless cards on participation that changes from round to round, and on who shares the channel."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from papers import verdicts

from fedjax_priv.channels import rician


def script(name):
    return importlib.import_module(f"experiments.wireless.{name}")


FIGURES = script("figures").FIGURES
SETTING = script("figures").few(script("training").Setting())


def varied():
    return script("time_variant"), FIGURES["time_variant"].scales["cpu"]


def test_schedules_have_one_mean_and_the_exact_figures_of_each():
    """At T = 100: figures of a second implementation, by hand."""
    card, config = varied()
    rows = card.schedules(config)
    np.testing.assert_allclose(rows.mean(1), 0.5, rtol=1e-12)
    for at, exact, moment in ((0, (0.96905, 4.55436), (8.64505, 64.5900)), (3, (0.96716, 4.45882), (31.7494, 185.401))):
        for case, eps, square in zip(config.cases, exact, moment, strict=True):
            np.testing.assert_allclose(card.exact(config, case, rows[at]), eps, atol=1e-5)
            np.testing.assert_allclose(card.moment(config, case, rows[at]), square, rtol=1e-5)
    missing = [card.missing(config, config.cases[0], row) for row in rows]
    assert missing == [0, 10, 10, 50] and card.composed(config, config.cases[0], rows[1]) == np.inf
    assert abs(card.beta(config) - 0.17469) < 1e-5


def test_claims_on_schedules_can_fail():
    card, _ = varied()
    names = list(card.SCHEDULES)
    flat = xr.Dataset({
        "exact": (("case", "schedule"), [[1.0, 0.9, 0.9, 0.8]]), "composed": (("case", "schedule"), [[2.0] * 4]),
        "moment": (("case", "schedule"), [[1.0, 2.0, 2.0, 3.0]]),
        "accuracy": (("case", "schedule", "seed", "iteration"), [[[[0.9], [0.91]], *([[[0.5], [0.51]]] * 3)]]),
    }, {"case": ["one"], "schedule": names})  # fmt: skip
    said = {claim.id: claim.verdict for claim in card.claims(flat)}
    assert said == {"eq-18-bounds": True, "variation-saves-eps": True, "variation-costs-accuracy": True}
    leaks = flat.assign(exact=2.5 - flat.exact, accuracy=1 - flat.accuracy)
    said = {claim.id: claim.verdict for claim in card.claims(leaks)}
    assert said == {"eq-18-bounds": True, "variation-saves-eps": False, "variation-costs-accuracy": False}
    low = {claim.id: claim.verdict for claim in card.claims(flat.assign(composed=flat.exact - 0.1))}
    assert low["eq-18-bounds"] is False


def test_a_run_has_the_participation_of_its_schedule():
    card, config = varied()
    few = config._replace(rounds=4, setting=SETTING)
    key, count = jax.random.key(0), jnp.full(SETTING.num_users, 3)
    state = rician().init(key, SETTING.num_users)

    @jax.jit
    def drawn(schedule):
        system = card.system(few, case=jnp.float32(0), schedule=schedule)
        who = lambda t: system.draw(key, state, t, count)[0]
        return jax.vmap(lambda t: who(t).participation)(jnp.arange(4))

    for schedule, expected in enumerate(card.schedules(few)):
        np.testing.assert_allclose(
            drawn(jnp.float32(schedule)), np.tile(expected[:, None], SETTING.num_users), rtol=1e-6
        )


def test_claims_on_access_can_fail():
    """One channel must be ahead; where it is as far ahead without receiver noise, superposing is not why."""
    card, config = script("access"), FIGURES["access"].scales["cpu"]._replace(noise_variances=(0.1,), rounds=240)

    def said(multiple, orthogonal, control=0.5, eps=(1.0, 2.0)):
        """Accuracies at the rounds 4 and 240 of one channel and of links, with two seeds."""
        with_noise = [[[first, end], [first, end + 1e-3]] for first, end in (multiple, orthogonal)]
        without = [[[0.5, control], [0.5, control + 1e-3]], [[0.5, 0.5], [0.5, 0.501]]]
        found = np.stack([with_noise, without], axis=1)[:, :, None]
        dims = ("access", "receiver_noise", "noise_variance", "seed", "iteration")
        where = {"access": list(card.ACCESS), "receiver_noise": [1.0, 0.0], "noise_variance": [0.1],
                 "iteration": [4, 240]}  # fmt: skip
        values = {"accuracy": (dims, found), "eps": (("access", "noise_variance"), np.array(eps)[:, None])}
        return verdicts(card.claims(config, xr.Dataset(values, where)))

    assert said((0.2, 0.9), (0.3, 0.8)) == [True, True, True]
    assert said((0.2, 0.7), (0.8, 0.8), eps=(2.0, 1.0)) == [False, False, False]
    assert said((0.2, 0.9), (0.3, 0.8), control=0.95) == [None, True, True], "ahead without receiver noise too"
    level = lambda *ends: np.array(ends)[:, None] + np.array([-1e-3, 1e-3])
    ends = {1.0: [level(0.9, 0.6), level(0.8, 0.6)], 0.0: [level(0.52, 0.5), level(0.5, 0.5)]}
    ends[0.0][0][1] += [-0.1, 0.12]  # at a larger sigma^2 it is no sure lead, but larger than the lead with noise
    found = xr.Dataset(
        {"accuracy": (("receiver_noise", "access", "noise_variance", "seed", "iteration"),
                      np.array([ends[1.0], ends[0.0]])[..., None] + np.zeros(2))},
        {"receiver_noise": [1.0, 0.0], "access": list(card.ACCESS), "noise_variance": [0.1, 0.8],
         "iteration": [4, 240]},
    )  # fmt: skip
    two = config._replace(noise_variances=(0.1, 0.8))
    faster = card._faster(two, found, "equal-rounds", "", card.ahead(found, 1.0))
    assert faster.verdict is False, "the control is as far ahead at no sigma^2 where it is surely ahead"
    np.testing.assert_allclose([card.noise_ratio(config, 0.1), card.noise_ratio(config, 0.8)], [9.43, 2.20], atol=5e-3)
