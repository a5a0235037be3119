"""Figures of users that do not know their gains, against draws and NumPy; and their audit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import losses, models, systems
from fedjax_priv.audit import Subject, findings, scores, two_worlds
from fedjax_priv.audit.adversaries import ratio_of_complex_signals
from fedjax_priv.audit.canaries import direction_canary, no_samples
from fedjax_priv.channels import estimated, rayleigh, rician, turned
from fedjax_priv.clients import fedsgd
from fedjax_priv.layers import within_budget
from fedjax_priv.ledger import epsilon_by_round, ledger, worst
from fedjax_priv.ledger.budget import planned
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.theory import gaussian

N, ROUNDS, DELTA = 4, 3, 1e-3
LOCAL = fedsgd(losses.softmax_cross_entropy(models.softmax_regression((3,), 2)))
SENDS = np.array([[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]], np.float32)
U = np.random.default_rng(1).normal(size=(ROUNDS, N, 2)) * 0.4 + [1, 0]
PILOTS = estimated(rayleigh(), pilot_energy=7.0, receiver_noise=0.7)  # v = 0.2
V, G, L, N0, C = 0.2, 0.3, 0.5, 0.7, 0.9


def run_of(p=SENDS, u=U):
    each = ("round", "client")
    client = np.broadcast_to(np.arange(N), (ROUNDS, N))
    values = {
        "client_id": client, "counted": client >= 0, "gain": np.ones((ROUNDS, N), np.float32),
        "join_probability": np.broadcast_to(np.float32(p), (ROUNDS, N)),
        "coefficient_real": u[..., 0], "coefficient_imaginary": u[..., 1],
    }  # fmt: skip
    return xr.Dataset(
        {**{name: (each, value) for name, value in values.items()}, "status": ("round", np.zeros(ROUNDS, int))},
        {"round": np.arange(1, ROUNDS + 1)}, {"num_params": 8},
    )  # fmt: skip


def system(fading=PILOTS, **how):
    usual = dict(clip=L, noise_variance=0.0, receiver_noise=N0, level=C, truncation=G)
    return systems.wireless(LOCAL, fading=fading, **{**usual, **how})


def entries(fading=PILOTS, p=SENDS, colluding=0, **how):
    return ledger(system(fading, **how), run_of(p), no_samples(N), delta=DELTA, colluding=colluding)


@pytest.mark.parametrize("estimator", ["mmse", "least squares"])
def test_without_noise_of_users_the_profile_is_averaged_over_the_errors(estimator):
    """By the mean over draws of three rounds' coefficients; gains taken for known would leak far less."""
    replaced, stays = entries(estimated(rayleigh(), pilot_energy=7.0, receiver_noise=0.7, estimator=estimator))
    rng, size = np.random.default_rng(0), 900_000
    cn = lambda v: np.sqrt(v / 2) * (rng.normal(size=size) + 1j * rng.normal(size=size))
    h = cn(1.0)
    known = (h + cn(V)) / (1 + V if estimator == "mmse" else 1)
    u = (h / known)[abs(known) ** 2 >= G]
    length = np.sqrt((abs(u[: len(u) // 3 * 3].reshape(-1, 3)) ** 2).sum(1))  # user 0 sends in all three rounds
    for entry, shift in ((replaced, 2 * C * L), (stays, C * L)):
        eps = worst(entry.proved)
        each = np.asarray(gaussian.delta(eps, shift / np.sqrt(N0) * length))
        assert abs(each.mean() - DELTA) < 4 * each.std() / np.sqrt(each.size)
        assert eps > 1.05 * float(gaussian.epsilon(DELTA, shift / np.sqrt(N0) * np.sqrt(3)))
    assert (replaced.neighbours, stays.neighbours, replaced.gaussian) == ("replacement", "zero-out", False)
    assert replaced.claimed.epsilon is None


def by_numpy(variance, level=(C,) * ROUNDS, size=N):
    """Of the definition: `s^2 = (2 c L)^2 u' S^-1 u` with the senders' noise along their u."""
    total = np.zeros(size)
    for t in range(ROUNDS):
        here = [k for k in range(size) if SENDS[t, k]]
        noise = N0 * np.eye(2) + level[t] ** 2 * variance * sum(np.outer(U[t, k], U[t, k]) for k in here)
        for k in here:
            total[k] += (2 * level[t] * L) ** 2 * U[t, k] @ np.linalg.inv(noise) @ U[t, k]
    return np.asarray(gaussian.epsilon(DELTA, np.sqrt(total)))


def test_with_noise_of_users_it_lies_along_their_coefficients():
    (one,) = entries(noise_variance=0.4)
    np.testing.assert_allclose(one.proved.epsilon, by_numpy(0.4), rtol=1e-6)
    known = worst(ledger(systems.wireless(LOCAL, clip=L, noise_variance=0.4, receiver_noise=N0, level=C),
                         run_of(), no_samples(N), delta=DELTA)[0].proved)  # fmt: skip
    assert worst(one.proved) > 1.02 * known
    for fading in (turned(rician(), deviation=0.5), estimated(rician(), pilot_energy=3.0, mean=1.1)):
        found = entries(fading, noise_variance=0.4, colluding=1)
        np.testing.assert_allclose(found[0].proved.epsilon, one.proved.epsilon)
        np.testing.assert_allclose(found[1].proved.epsilon, by_numpy(0.4, size=N - 1), rtol=1e-6)
        assert found[1].view == "coalition"


def test_levels_and_rounds_of_a_channel_whose_law_is_not_known():
    levels = np.array([0.5, 0.8, 1.2])
    by_table = lambda round, gain: jnp.asarray(levels, jnp.float32)[round]
    replaced, stays = entries(rician_of(), level=by_table)
    np.testing.assert_allclose(replaced.proved.epsilon, by_numpy(0.0, levels), rtol=1e-5)
    assert (stays.proved.epsilon < replaced.proved.epsilon)[:2].all()
    after = epsilon_by_round(system(rician_of(), level=by_table), run_of(), no_samples(N), delta=DELTA)
    assert float(after[0, -1]) == pytest.approx(worst(replaced.proved)) and (after.diff("round") >= 0).all()
    averaged = epsilon_by_round(system(), run_of(), no_samples(N), delta=DELTA)
    assert (averaged.diff("round") > 0).all()


def test_without_a_least_gain_the_figure_is_for_the_gains_of_the_run():
    """Errors at weak gains have no bound, so nothing is averaged."""
    np.testing.assert_allclose(entries(truncation=None)[0].proved.epsilon, by_numpy(0.0), rtol=1e-6)


@pytest.mark.parametrize("as_levels", [False, True])
def test_a_level_that_may_follow_the_gains_has_no_averaged_figure(as_levels):
    """In one round all levels are the same. At a weak gain, which the level tells, u errs more than on average."""
    level = lambda round, gain: C * gain.min()
    one = system(level=within_budget(level, budget=9.0) if as_levels else level)
    run = run_of().isel(round=slice(0, 1)).assign(level=(("round", "client"), np.full((1, N), C, np.float32)))
    found = ledger(one, run, no_samples(N), delta=DELTA)[0].proved
    shift = 2 * C * L * np.hypot(*U[0].T) / np.sqrt(N0) * SENDS[0]
    np.testing.assert_allclose(found.epsilon, gaussian.epsilon(DELTA, shift), rtol=1e-6)


def rician_of():
    return estimated(rician(), pilot_energy=7.0, receiver_noise=0.7, mean=1.1)


def test_no_figure_where_none_is_known():
    too_loud = 2**15 / L / np.hypot(*np.moveaxis(U, 2, 0)).max()
    for how, why in (
        ({"p": 0.5}, "toss coins"),
        ({"receiver_noise": 0.0}, "without noise of the receiver"),
        ({"noise_variance": 0.1, "snr_db": 3.0}, "power limit scales the noise"),
        ({"level": lambda round, gain: gain.min() - 10.0}, "a level is not a finite number"),
        ({"level": 1.01 * too_loud}, "so strong that it fails the round"),
    ):
        entry = entries(rician_of(), **how)[0]
        assert entry.proved.epsilon is None and why in entry.proved.why
    assert entries(rician_of(), level=0.99 * too_loud)[0].proved.epsilon is not None


def test_who_refused_to_train_adds_no_noise():
    """Where users add none, there is nothing to miss."""
    refused = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool)

    def figure(variance, who):
        run = run_of().assign(sat_out=(("round", "client"), who))
        return ledger(system(rician_of(), noise_variance=variance), run, no_samples(N), delta=DELTA)[0].proved

    missing = figure(0.4, refused)
    assert missing.epsilon is None and "sat out" in missing.why
    known = figure(0.4, np.zeros_like(refused))
    assert worst(known) == worst(entries(rician_of(), noise_variance=0.4)[0].proved)
    assert worst(figure(0.0, refused)) == worst(entries(rician_of())[0].proved) > worst(known)


def test_a_client_composes_over_its_places_in_the_cohorts():
    """Two places for four clients: client 1 sends in all rounds, at another place in each."""
    client, here = np.array([[0, 1], [1, 2], [1, 3]]), np.array([[1, 1], [1, 1], [1, 0]])
    each = ("round", "client")
    run = run_of(u=U).isel(client=slice(0, 2)).assign(client_id=(each, client), join_probability=(each, here * 1.0))
    u, spent, known, variance = U[:, :2], np.zeros(N), np.zeros(N), np.array([0.4, 0.1, 0.7, 0.3])
    for t, place in np.argwhere(here):
        for all_of, honest in ((spent, here[t] > 0), (known, np.arange(2) <= place)):  # noise of place 1 is known
            heard = honest & (here[t] > 0)
            noise = N0 * np.eye(2) + C**2 * (variance[client[t, heard]] * u[t, heard].T) @ u[t, heard]
            all_of[client[t, place]] += (2 * C * L) ** 2 * u[t, place] @ np.linalg.solve(noise, u[t, place])
    found = ledger(system(noise_variance=variance), run, no_samples(N), delta=DELTA, colluding=1)
    for entry, squares in zip(found, (spent, known), strict=True):
        np.testing.assert_allclose(entry.proved.epsilon, gaussian.epsilon(DELTA, np.sqrt(squares)), rtol=1e-5)
    averaged = ledger(system(), run, no_samples(N), delta=DELTA)[0].proved
    assert "sends most, 3 times" in averaged.why


def test_a_plan_and_a_run_have_the_same_figures():
    data = no_samples(N)._replace(examples=(jnp.zeros((N, 2, 3)), jnp.zeros((N, 2), jnp.int32)))
    data = data._replace(count=jnp.full(N, 2, jnp.int32))
    one, start, key = (
        system(noise_variance=0.4, mesh=None),
        {"w": jnp.zeros((3, 2)), "b": jnp.zeros(2)},
        jax.random.key(2),
    )
    start = models.softmax_regression((3,), 2).init(key)
    run = simulate(one, key, start, data, rounds=ROUNDS, progress=False)
    both = [ledger(one, of, data, delta=DELTA)[0].proved for of in (run, planned(one, key, start, data, ROUNDS))]
    assert both[0].epsilon is not None
    np.testing.assert_allclose(both[0].epsilon, both[1].epsilon, rtol=1e-5)


USERS, PARAMS, TOLD = 2, 3, 0.03
WEAK = estimated(rayleigh(), pilot_energy=4.0)  # v = 0.5


def audited_system(local, observe):
    return systems.wireless(
        local, clip=0.5, noise_variance=0.0, receiver_noise=1.0, fading=WEAK, truncation=0.05, observe=observe,
        mesh=None,
    )  # fmt: skip


@functools.cache
def figure():
    one = audited_system(LOCAL, None)
    plan = planned(one, jax.random.key(1), jnp.zeros(PARAMS), no_samples(USERS), 1)
    plan["join_probability"] = xr.ones_like(plan.join_probability)  # the user sends
    return ledger(one, plan, no_samples(USERS), delta=TOLD)


def bound(reading):
    canary = direction_canary(jax.random.key(2), USERS, PARAMS, 3.0)
    worlds = scores(
        audited_system, canary, lambda seen: reading(seen, canary.toward(seen.before))[0], jax.random.key(3),
        params=jnp.zeros(PARAMS), trials=40_000, at_once=4000,
    )  # fmt: skip
    return two_worlds(*worlds, delta=TOLD).epsilon


def test_the_figure_stands_its_audit_and_that_of_known_gains_does_not():
    """The server has the complex signal and knows the errors; one that looks at the real part alone sees less."""
    claimed = worst(figure()[0].proved)
    known = float(gaussian.epsilon(TOLD, 1.0))
    best = bound(ratio_of_complex_signals(clip=0.5, noise_variance=0.0, receiver_noise=1.0))
    assert known < 0.7 * best < best < claimed


def test_the_audit_of_the_ledger_reads_the_complex_signal():
    one = audited_system(LOCAL, None)
    subject = Subject(audited_system, LOCAL, losses.softmax_cross_entropy(models.softmax_regression((3,), 2)),
                      jnp.zeros(PARAMS), no_samples(USERS), one.release)  # fmt: skip
    found = findings(
        subject, figure()[:1], jax.random.key(4), trials=4000, delta=TOLD, kind="direction",
        held=float(gaussian.epsilon(TOLD, 1.0)),
    )  # fmt: skip
    assert found[0].at_least > 1.0 and "proved" not in found[0].contradicts
