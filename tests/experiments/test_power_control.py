"""The card on power control: cases reach the system, closed forms, what the ledger is asked, claims that can fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments.wireless import power_claims, power_control, power_picture
from experiments.wireless.figures import FIGURES
from fedjax_priv.base import ClientData
from fedjax_priv.theory import wireless as theory

CONFIG = FIGURES["power_control"].scales["quick"]._replace(noise_variances=(0.1, 1.6), rounds=300)
SMALL = CONFIG._replace(rounds=3, setting=CONFIG.setting._replace(groups=(2, 2, 2), repeats=2))
NAMES = power_control.case_names(CONFIG)
POWER = 10 ** (np.repeat([2.0, 10.0, 30.0], 2) / 10)


def test_cases_are_noises_and_two_controls():
    """Without a limit, and one that is about updates: a quarter of L^2 for the weakest, noise of a hundredth of it."""
    assert NAMES == ["sigma^2 = 0.1", "sigma^2 = 1.6", power_claims.FREE, power_claims.UPDATES]
    noise, more = CONFIG.cases.T
    np.testing.assert_allclose(noise, [0.1, 1.6, 1.6, 0.01 / 650])
    np.testing.assert_allclose(more[:3], [0, 0, 60])
    assert 650 * 10 ** ((2 + more[3]) / 10) == pytest.approx(0.25)


@pytest.mark.parametrize("control", power_control.CONTROLS)
def test_a_case_is_what_its_name_says(control):
    for case, (noise, more) in enumerate(SMALL.cases):
        release = power_control.algorithm(SMALL, control, case=float(case)).release
        assert (release.control, release.access, release.known_count) == (control, "multiple", False)
        np.testing.assert_allclose([release.noise_variance, release.clip], [noise, 1], rtol=1e-6)
        np.testing.assert_allclose(release.power, POWER * 10 ** (more / 10), rtol=1e-5)
    silent = power_control.algorithm(SMALL, control, case=0.0, own_noise=0.0)
    assert not np.any(silent.release.noise_variance)


def test_those_that_cannot_carry_their_noise_do_not_join():
    """Under "signal", and only there; all others join with p."""
    key, n, draws = jax.random.key(0), 6, {}
    for control in power_control.CONTROLS:
        system = power_control.algorithm(SMALL, control, case=1.0)
        who, _ = jax.jit(system.draw)(key, system_state(n), jnp.int32(0), jnp.ones(n, int))
        draws[control] = np.asarray(who.participation), np.asarray(who.gain)
    p, gain = draws["signal"]
    carries = gain**2 * POWER > 1.6
    np.testing.assert_allclose(p, 0.3 * carries, rtol=1e-6)
    assert 0 < carries.sum() < n
    for control in ("gradient", "bound"):
        np.testing.assert_allclose(draws[control][0], 0.3, rtol=1e-6)
        np.testing.assert_array_equal(draws[control][1], gain)


def system_state(n):
    """Of the scattered paths: weak ones."""
    return 0.3 * jnp.asarray(np.random.default_rng(0).normal(size=(n, 2)), jnp.float32)


def test_what_is_heard_by_quadrature_and_by_simulation():
    gain = abs(np.sqrt(5 / 6) + np.random.default_rng(0).normal(size=(100_000, 2)) @ [1, 1j] / np.sqrt(12))[:, None]
    found, power = power_control.expected(CONFIG), 10 ** (np.array([2.0, 10.0, 30.0]) / 10)
    for case, (noise, more) in zip(NAMES, CONFIG.cases, strict=True):
        energy = gain**2 * power * 10 ** (more / 10) * 650
        arrives = {
            "bound": np.sqrt(energy / (1 + 650 * noise)), "zero updates": np.sqrt(energy / (650 * noise)),
            "signal": np.sqrt(np.maximum(energy - 650 * noise, 0)),
        }  # fmt: skip
        for form, amplitude in arrives.items():
            want = np.minimum(1, amplitude).mean(0)
            np.testing.assert_allclose(found.sel(form=form, case=case), want, atol=5e-3, err_msg=f"{form}, {case}")


def recorded():
    """A run of every case, as the ledger reads it; of "signal", users 0 and 1 are silent in round 2."""
    each, shape = ("case", "round", "client"), (4, 3, 6)
    gain = np.random.default_rng(1).uniform(0.6, 1.4, shape).astype(np.float32)
    p = np.full(shape, 0.3, np.float32)
    values = {"client_id": np.broadcast_to(np.arange(6), shape), "counted": p > 0, "gain": gain, "join_probability": p}
    run = xr.Dataset(
        {**{name: (each, value) for name, value in values.items()}, "status": (each[:2], np.zeros(shape[:2], int))},
        {"case": NAMES, "round": [1, 2, 3]}, {"num_params": 650},
    )  # fmt: skip
    quiet = p.copy()
    quiet[:, 1, :2] = 0
    return {"gradient": run, "bound": run, "signal": run.assign(join_probability=(each, quiet))}


def test_the_ledger_is_asked_about_what_was_run():
    runs = recorded()
    shape = jnp.zeros((6, 1, 8, 8, 1)), jnp.zeros((6, 1), jnp.int32)
    found = power_control.proved(SMALL, runs, ClientData(shape, jnp.ones(6, jnp.int32)))
    assert np.isnan(found.eps.sel(control="gradient")).all() and "eq. 26" in found.why.values[0, 0]
    assert np.isfinite(found.without_own_noise).all()
    for case, name in enumerate(NAMES[:2]):
        noise = SMALL.cases[case, 0]
        one = theory.Round(6, 0.3, 1.0, noise, 1.0)
        gain = runs["bound"].gain.values[case].astype(float)
        a = np.minimum(1, gain * np.sqrt(650 * POWER / (1 + 650 * noise)))
        eps = found.eps.sel(case=name)
        limits = (a < 1).any()
        bound = theory.limited_epsilon(one, 1e-5, amplitudes=a, rounds=3) if limits else found.aligned.sel(case=name)
        np.testing.assert_allclose(eps.sel(control="bound"), bound, rtol=1e-4)
        assert limits == (case == 1), "weak users only where noise is large"
        p = np.full((3, 6), 0.3)
        p[1, :2] = 0
        silent = one._replace(participation=p)
        np.testing.assert_allclose(
            eps.sel(control="signal"), theory.rigorous_epsilon(silent, 1e-5, rounds=3), rtol=1e-4
        )
        known = theory.known_set_epsilon(silent, 1e-5, rounds=3)
        np.testing.assert_allclose(found.known_set.sel(case=name), known, rtol=1e-4)
        assert known > eps.sel(control="signal")
        np.testing.assert_allclose(
            found.aligned.sel(case=name), theory.rigorous_epsilon(one, 1e-5, rounds=3), rtol=1e-9
        )


def test_groups_are_summed_over_their_own_users():
    amplitude, energy = np.zeros((1, 1, 1, 3, 6)), np.zeros((1, 1, 1, 3, 6))
    amplitude[..., :2], amplitude[..., 2], energy[..., 2, 5] = 0.3, 0.6, 650_000.0
    energy[..., 0, 0] = 650 * 10**0.2
    each = ("partition", "case", "seed", "round", "client")
    runs = xr.Dataset({
        "amplitude": (each, amplitude), "energy": (each, energy), "counted": (each, amplitude > 0),
        "accuracy": ((*each[:3], "evaluation"), np.zeros((1, 1, 1, 2))),
        "failed_rounds": (each[:3], np.zeros((1, 1, 1))),
    })  # fmt: skip
    found = power_control._summary(SMALL, runs).squeeze()
    np.testing.assert_allclose(found.heard, [1.0, 1.0, 0.0])
    np.testing.assert_allclose(found.energy, [10**0.2 / 6, 0, 1000 / 6])
    np.testing.assert_allclose(found.peak, [1, 0, 1])
    assert found.joined == 3 and found.group.values.tolist() == [2, 10, 30]


def result(**changes):
    """As of a run with two seeds that confirms every claim."""
    config, each = CONFIG, ("partition", "control", "case", "seed")
    shape = (2, 3, 4, 2)
    seeds = np.broadcast_to([0.0, 1e-3], shape).copy()
    accuracy = 0.5 + seeds
    accuracy[:, :, 2] += 0.1
    accuracy[:, 2, 1] -= 0.1
    expected = power_control.expected(config)
    heard = expected.sel(form=["bound", "bound", "signal"]).values.copy()
    heard[0, 3, 0] += 0.05
    grouped = (2, 3, 4, 2, 3)
    limited = np.zeros(grouped)
    limited[:, :2, 1, :, 0] = 0.5
    peak = np.ones(grouped)
    peak[:, :, 2] = 80
    eps = np.array([[np.nan] * 4, [5.0, 4.0, 2.0, 9.0], [3.0, 2.0, 2.0, 9.0]])
    values = {
        "accuracy": ((*each, "iteration"), accuracy[..., None]), "limited": ((*each, "group"), limited),
        "heard": ((*each, "group"), np.broadcast_to(heard[None, :, :, None], grouped)),
        "energy": ((*each, "group"), np.ones(grouped)), "peak": ((*each, "group"), peak),
        "eps": (each[1:3], eps), "why": (each[1:3], np.full((3, 4), "eq. 26")),
        "without_own_noise": ("control", np.full(3, 7.0)), "known_set": ("case", [4.0] * 4),
        "aligned": ("case", [2.0] * 4), "failed": (each, np.zeros(shape)),
    }  # fmt: skip
    where = {
        "partition": list(power_control.PARTITIONS), "control": list(power_control.CONTROLS), "case": NAMES,
        "group": [2.0, 10.0, 30.0], "iteration": [3],
    }  # fmt: skip
    found = xr.Dataset(values, where, {"num_params": 650})
    return found.assign({name: of(found[name].copy(deep=True)) for name, of in changes.items()})


def said(**changes):
    found = power_claims.claims(CONFIG, result(**changes), power_control.expected(CONFIG))
    return {claim.id: claim.said for claim in found}


def at(by, **where):
    """Adds a number at a place."""

    def change(values):
        values.loc[where] = values.loc[where] + by
        return values

    return change


def test_claims_hold_where_the_data_say_so():
    assert set(said().values()) == {"holds"}
    drawn = power_picture.figure(CONFIG, result())
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in drawn.axes]
    assert "signal, shards" in legends[0] and "bound, 2 dB" in legends[1] and "gradient: none" in legends[3]


@pytest.mark.parametrize(
    ("id", "changes", "expected"),
    [
        ("same-bits", {"accuracy": at(1e-6, control="bound", case=NAMES[2], seed=1)}, "does not hold"),
        ("same-bits", {"heard": at(1e-6, control="signal", case=NAMES[2])}, "does not hold"),
        ("limit-bites", {"limited": at(0.01, control="gradient", case=NAMES[2])}, "does not hold"),
        ("limit-bites", {"limited": at(-0.45, control="gradient", case=NAMES[1], group=2)}, "does not hold"),
        ("figures", {"eps": at(np.nan, control="signal", case=NAMES[0])}, "does not hold"),
        ("figures", {"eps": lambda eps: eps.fillna(1.0)}, "does not hold"),
        ("figures", {"eps": lambda eps: eps.where(eps.case != NAMES[1], 1.0)}, "does not hold"),
        ("figures", {"without_own_noise": at(np.nan, control="gradient")}, "does not hold"),
        ("heard", {"heard": at(-0.2, control="signal", case=NAMES[0], group=30)}, "does not hold"),
        ("heard", {"heard": at(0.2, control="gradient", case=NAMES[1], group=2)}, "does not hold"),
        ("heard", {"heard": at(0.45, control="signal", case=NAMES[1], group=2)}, "does not hold"),
        ("within-limit", {"peak": at(1.0, control="bound", case=NAMES[0])}, "does not hold"),
        ("within-limit", {"peak": lambda peak: peak.clip(max=1)}, "does not hold"),
        ("bound-is-as-good", {"accuracy": at(-0.02, control="bound", case=NAMES[0])}, "does not hold"),
        ("bound-is-as-good", {"heard": at(0.05, control="bound", case=NAMES[3], group=2)}, "not testable here"),
        ("limit-costs", {"accuracy": at(0.2, control="gradient", case=NAMES[1])}, "does not hold"),
        ("limit-costs", {"accuracy": at(0.3, control="gradient", case=NAMES[1], seed=1)}, "not decided"),
        ("silence-costs", {"accuracy": at(0.2, control="signal", case=NAMES[1], partition="iid")}, "does not hold"),
        ("silence-costs", {"limited": at(-0.45, control="gradient", case=NAMES[1], group=2)}, "not testable here"),
        ("signal-leaks-less", {"eps": at(3.0, control="signal", case=NAMES[0])}, "does not hold"),
    ],
)  # fmt: skip
def test_each_number_decides_its_claim(id, changes, expected):
    assert said(**changes)[id] == expected
