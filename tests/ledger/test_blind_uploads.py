"""Figures of users that several antennas hear, against NumPy and draws; and audits, of which one breaks a wrong one."""

import functools
import types
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import stats

from fedjax_priv import losses, models, systems
from fedjax_priv.audit import Subject, findings, scores, two_worlds
from fedjax_priv.audit.adversaries import direction, ratio_of_antennas
from fedjax_priv.audit.canaries import direction_canary, no_samples
from fedjax_priv.audit.readings import along
from fedjax_priv.audit.worlds import Seen
from fedjax_priv.base import Antennas
from fedjax_priv.channels import rayleigh_antennas, recorded_antennas
from fedjax_priv.clients import fedsgd
from fedjax_priv.ledger import epsilon_by_round, ledger, worst
from fedjax_priv.ledger.budget import planned
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.theory import gaussian
from fedjax_priv.theory.wireless import Round, known_coefficients_sensitivity
from helpers import cohort_of

N, M, ROUNDS, DELTA = 4, 3, 2, 1e-3
LOCAL = fedsgd(losses.softmax_cross_entropy(models.softmax_regression((3,), 2)))
L, N0, B = 0.5, 0.7, 0.9
RNG = np.random.default_rng(1)
H = (RNG.normal(size=(ROUNDS, N, M)) + 1j * RNG.normal(size=(ROUNDS, N, M))) / np.sqrt(2)


def run_of(h=H):
    each, client = ("round", "client"), np.broadcast_to(np.arange(N), (ROUNDS, N))
    stacked = np.concatenate([h.real, h.imag], axis=2)
    size = np.sqrt(np.square(abs(h)).mean(2))
    return xr.Dataset(
        {"client_id": (each, client), "gain": (each, size), "antenna_gains": ((*each, "place"), stacked)},
        {"round": np.arange(1, ROUNDS + 1)}, {"num_params": 8},
    )  # fmt: skip


def system(**how):
    usual = dict(antennas=M, clip=L, noise_variance=0.4, receiver_noise=N0, amplitude=B)
    return systems.blind_wireless(LOCAL, **{**usual, **how})


def entries(colluding=0, **how):
    return ledger(system(**how), run_of(), no_samples(N), delta=DELTA, colluding=colluding)


def by_numpy(variance, size=N, b=B, factor=2):
    """Of the definition, with the inverse of the covariance of all antennas."""
    rows, total = np.concatenate([H.real, H.imag], axis=2), np.zeros(size)
    for t in range(ROUNDS):
        noise = N0 * np.eye(2 * M) + b**2 * variance * sum(np.outer(row, row) for row in rows[t, :size])
        total += [(factor * b * L) ** 2 * row @ np.linalg.inv(noise) @ row for row in rows[t, :size]]
    return np.asarray(gaussian.epsilon(DELTA, np.sqrt(total)))


def test_with_noise_of_users_the_figure_is_that_of_all_antennas():
    """Not of what is combined, which is far less; nor of one antenna."""
    server, coalition = entries(colluding=1)
    np.testing.assert_allclose(server.proved.epsilon, by_numpy(0.4), rtol=1e-6)
    np.testing.assert_allclose(coalition.proved.epsilon, by_numpy(0.4, size=N - 1), rtol=1e-6)
    assert (server.gaussian, server.neighbours, coalition.view) == (True, "replacement", "coalition")
    assert server.claimed.epsilon is None and "all antennas" in server.proved.why
    after = epsilon_by_round(system(), run_of(), no_samples(N), delta=DELTA)
    assert float(after[0, -1]) == pytest.approx(worst(server.proved)) and float(after[0, 0]) < float(after[0, 1])


def test_without_noise_of_users_gains_count_as_they_are_or_as_their_law_says():
    frozen = rayleigh_antennas(correlation=1.0)
    replaced, stays = entries(noise_variance=0.0, fading=frozen)
    np.testing.assert_allclose(replaced.proved.epsilon, by_numpy(0.0), rtol=1e-6)
    np.testing.assert_allclose(stays.proved.epsilon, by_numpy(0.0, factor=1), rtol=1e-6)
    power = np.array([0.5, 2.0, 1.0, 1.0])
    replaced, stays = entries(noise_variance=0.0, fading=rayleigh_antennas(power=power))
    size = np.sqrt(2 * np.random.default_rng(0).gamma(M * ROUNDS, size=300_000))
    for entry, shift in ((replaced, 2 * B * L), (stays, B * L)):
        each = np.asarray(gaussian.delta(worst(entry.proved), shift / np.sqrt(N0) * size))
        assert abs(each.mean() - DELTA) < 4 * each.std() / np.sqrt(each.size)
    assert not replaced.gaussian and stays.neighbours == "zero-out"


def test_the_amplitude_is_that_of_the_power():
    found = entries(amplitude=None, snr_db=3.0)[0].proved.epsilon
    b = np.sqrt(8 * N0 * 10**0.3 / (L**2 + 8 * 0.4))
    np.testing.assert_allclose(found, by_numpy(0.4, b=b), rtol=1e-5)


def test_more_antennas_are_no_privacy_for_free():
    """The ledger's figure rises with every antenna."""
    eps = [worst(entries(noise_variance=0.0, antennas=m)[0].proved) for m in (1, 8, 64)]
    assert (np.diff(eps) > 0).all() and eps[-1] > 10 * eps[0]


def test_no_figure_where_none_is_known():
    too_loud = 2**15 / (L + 12 * 0.4**0.5) / np.linalg.norm(H, axis=2).max()
    for how, why in (
        ({"receiver_noise": 0.0}, "without noise of the receiver"),
        ({"amplitude": 1.01 * too_loud}, "so strong that it fails the round"),
    ):
        (entry,) = entries(**how)
        assert entry.proved.epsilon is None and why in entry.proved.why
    assert entries(amplitude=0.99 * too_loud)[0].proved.epsilon is not None


@pytest.mark.parametrize("variance", [0.0, 0.4])
def test_who_refused_to_train_adds_no_noise(variance):
    refused = np.array([[0, 0, 0, 0], [0, 1, 0, 0]], bool)
    run = run_of().assign(sat_out=(("round", "client"), refused))
    found = ledger(system(noise_variance=variance), run, no_samples(N), delta=DELTA)[0].proved
    if variance:
        assert found.epsilon is None and "sat out" in found.why
    else:
        assert worst(found) == worst(entries(noise_variance=variance)[0].proved)


def test_a_plan_and_a_run_have_the_same_figures():
    data = no_samples(N)._replace(examples=(jnp.zeros((N, 2, 3)), jnp.zeros((N, 2), jnp.int32)))
    data = data._replace(count=jnp.full(N, 2, jnp.int32))
    start, key = models.softmax_regression((3,), 2).init(jax.random.key(2)), jax.random.key(2)
    run = simulate(system(mesh=None), key, start, data, rounds=ROUNDS, progress=False)
    plan = planned(system(), key, start, data, ROUNDS)
    both = [ledger(system(), of, data, delta=DELTA)[0].proved for of in (run, plan)]
    assert both[0].epsilon is not None
    np.testing.assert_allclose(both[0].epsilon, both[1].epsilon, rtol=1e-5)


USERS, PARAMS, TOLD, SIGMA2 = 2, 3, 0.03, 0.1
APART = np.array([[[1.0, 0.9j, 0.8], [-0.9, -1.0j, 0.9 - 0.5j]]])
"""User 0 hardly arrives in what is combined."""


def audited_system(local, observe, receiver_noise=1.0):
    return systems.blind_wireless(
        local, antennas=3, clip=0.4, noise_variance=SIGMA2, receiver_noise=receiver_noise, every_antenna=True,
        amplitude=1.25,
        fading=recorded_antennas(APART), observe=observe, mesh=None,
    )  # fmt: skip


@functools.cache
def figure():
    one = audited_system(LOCAL, None)
    plan = planned(one, jax.random.key(1), jnp.zeros(PARAMS), no_samples(USERS), 1)
    return ledger(one, plan, no_samples(USERS), delta=TOLD)


def of_combined():
    """Eps of user 0 if the server had only the complex z."""
    h = APART[0]
    total = h.sum(0)
    noise = np.square(abs(total)).sum() / 9
    s = known_coefficients_sensitivity(Round(USERS, 1.0, 0.4, SIGMA2, noise), h @ total.conj() / 3, level=1.25)
    return float(gaussian.epsilon(TOLD, s[0]))


def bounds(*readings, make=audited_system):
    canary = direction_canary(jax.random.key(2), USERS, PARAMS, 3.0)
    worlds = scores(
        make, canary, lambda seen: tuple(each(seen, canary.toward(seen.before))[0] for each in readings),
        jax.random.key(3), params=jnp.zeros(PARAMS), trials=20_000, at_once=2000,
    )  # fmt: skip
    return [two_worlds(*both, delta=TOLD).epsilon for both in zip(*worlds, strict=True)]


def ratio():
    return ratio_of_antennas(clip=0.4, noise_variance=SIGMA2, receiver_noise=1.0, amplitude=1.25)


def test_the_score_is_the_log_of_the_ratio_of_the_two_laws():
    """Of what antennas hear along u: all users send minus it, but for user 0, which sends it or minus it."""
    u, heard = np.full(4, 0.5), RNG.normal(size=(2 * M, 4))
    h = np.stack([H[0].real, H[0].imag], axis=2)
    links = Antennas(jnp.float32(h), jnp.zeros((N, M, 2)), jnp.zeros((N, 2)))
    received = types.SimpleNamespace(value=jnp.float32(heard.reshape(1, -1)))
    info = cast(Any, types.SimpleNamespace(observed=types.SimpleNamespace(received=received)))
    seen = Seen((), (), info, jnp.zeros((N, 4)), cohort_of(N)._replace(antennas=links), jnp.int32(0))
    reading = ratio_of_antennas(clip=L, noise_variance=0.4, receiver_noise=N0, amplitude=lambda d: B * d / 4)
    found = reading(seen, jnp.float32(u))[0]
    rows = B * h.reshape(N, -1)
    law = lambda sign: stats.multivariate_normal(L * (sign * rows[0] - rows[1:].sum(0)),
                                                 N0 * np.eye(2 * M) + 0.4 * rows.T @ rows)  # fmt: skip
    assert float(found) == pytest.approx(law(1).logpdf(heard @ u) - law(-1).logpdf(heard @ u), rel=1e-4)


def test_the_figure_stands_its_audit_and_that_of_what_is_combined_does_not():
    """Who reads the estimate alone shows less than the wrong figure allows; who reads all antennas breaks it."""
    claimed, wrong = figure()[0].proved.epsilon[0], of_combined()
    best, of_estimate = bounds(ratio(), along(direction))
    assert 1.5 * wrong < best < claimed < 1.4 * best
    assert of_estimate < wrong


def test_a_receiver_that_is_better_than_its_figure_says_does_not_stand_it():
    quiet = functools.partial(audited_system, receiver_noise=0.3)
    assert bounds(ratio(), make=quiet)[0] > figure()[0].proved.epsilon[0]


def test_the_audit_of_the_ledger_reads_all_antennas():
    one = audited_system(LOCAL, None)
    subject = Subject(audited_system, LOCAL, losses.softmax_cross_entropy(models.softmax_regression((3,), 2)),
                      jnp.zeros(PARAMS), no_samples(USERS), one.release)  # fmt: skip
    found = findings(
        subject, figure()[:1], jax.random.key(4), trials=2000, delta=TOLD, kind="direction", held=of_combined()
    )
    assert found[0].contradicts == ["held"] and found[0].stands == ["proved"]
