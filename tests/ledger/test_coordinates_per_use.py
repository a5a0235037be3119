"""Figures where a complex use carries two coordinates, against NumPy on the whole signal; and audits of both kinds."""

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
from fedjax_priv.audit import scores, two_worlds
from fedjax_priv.audit.adversaries import ratio_of_antennas, ratio_of_complex_signals
from fedjax_priv.audit.by_release import PLANS
from fedjax_priv.audit.canaries import direction_canary, no_samples
from fedjax_priv.audit.worlds import Seen
from fedjax_priv.base import Antennas
from fedjax_priv.channels import rayleigh_antennas, recorded_antennas, rician, turned
from fedjax_priv.clients import fedsgd
from fedjax_priv.ledger import ledger, worst
from fedjax_priv.ledger.budget import planned
from fedjax_priv.theory import gaussian
from fedjax_priv.theory import wireless as theory
from helpers import cohort_of

N, M, DELTA, L, N0, B, SIGMA2 = 4, 3, 1e-3, 0.5, 0.7, 0.9, 0.4
LOCAL = fedsgd(losses.softmax_cross_entropy(models.softmax_regression((3,), 2)))
RNG = np.random.default_rng(1)
H = (RNG.normal(size=(N, M)) + 1j * RNG.normal(size=(N, M))) / np.sqrt(2)


def real(z):
    """Complex matrices as real ones: of a complex row its real parts, then its imaginary ones."""
    return np.block([[z.real, -z.imag], [z.imag, z.real]])


def largest_shift(h, d, size=N):
    """The largest `||S^-1/2 (2 b L) h_k x||` of ||x|| = 1, of all antennas and symbols at once, `[size]`."""
    symbols = (d + 1) // 2
    carried = np.zeros((2 * symbols, d))  # coordinates to real parts of symbols, then imaginary ones
    carried[np.arange(d) // 2 + symbols * (np.arange(d) % 2), np.arange(d)] = 1
    heard = [B * real(np.kron(h[k][:, None], np.eye(symbols))) @ carried for k in range(size)]
    noise = N0 * np.eye(len(heard[0])) + SIGMA2 * sum(one @ one.T for one in heard)
    root = np.linalg.cholesky(np.linalg.inv(noise)).T
    return np.array([2 * L * np.linalg.norm(root @ one, 2) for one in heard])


def blind(d, colluding=0, **how):
    stacked = np.concatenate([H.real, H.imag], axis=1)[None]
    each, client = ("round", "client"), np.arange(N)[None]
    size = np.sqrt(np.square(abs(H)).mean(1))[None]
    run = xr.Dataset(
        {"client_id": (each, client), "gain": (each, size), "antenna_gains": ((*each, "place"), stacked)},
        {"round": [1]}, {"num_params": d},
    )  # fmt: skip
    usual = dict(antennas=M, clip=L, noise_variance=SIGMA2, receiver_noise=N0, amplitude=B, coordinates_per_use=2)
    one = systems.blind_wireless(LOCAL, **{**usual, **how})
    return ledger(one, run, no_samples(N), delta=DELTA, colluding=colluding)


def estimated(d, u, sends=True, **how):
    each, client = ("round", "client"), np.arange(N)[None]
    joins = np.broadcast_to(np.float32(sends), (1, N))
    values = {"client_id": client, "counted": client >= 0, "gain": np.ones((1, N)), "join_probability": joins,
              "coefficient_real": u.real[None], "coefficient_imaginary": u.imag[None]}  # fmt: skip
    run = xr.Dataset({**{name: (each, of) for name, of in values.items()}, "status": ("round", [0])}, {"round": [1]},
                     {"num_params": d})  # fmt: skip
    usual = dict(clip=L, noise_variance=SIGMA2, receiver_noise=N0, level=B, coordinates_per_use=2)
    one = systems.wireless(LOCAL, fading=turned(rician(), deviation=0.5), **{**usual, **how})
    return ledger(one, run, no_samples(N), delta=DELTA)


@pytest.mark.parametrize("d", [4, 5])
def test_figures_are_those_of_the_whole_signal(d):
    """Of all directions of an update. Where d is odd the last coordinate shows more than pairs do."""
    shift = largest_shift(H, d)
    server, coalition = blind(d, colluding=1)
    np.testing.assert_allclose(server.proved.epsilon, gaussian.epsilon(DELTA, shift), rtol=1e-6)
    np.testing.assert_allclose(coalition.proved.epsilon, gaussian.epsilon(DELTA, largest_shift(H, d, N - 1)), rtol=1e-6)
    u = H[:, 0] / abs(H[:, 0]) * [1.0, 0.8, 1.3, 0.6]
    (one,) = estimated(d, u)
    alone = largest_shift(u[:, None], d)
    np.testing.assert_allclose(one.proved.epsilon, gaussian.epsilon(DELTA, alone), rtol=1e-6)
    figure = lambda number: theory.known_coefficients_sensitivity(
        theory.Round(N, 1.0, L, SIGMA2, N0), u, level=B, coordinates_per_use=number
    )
    np.testing.assert_allclose(figure(2 - d % 2), alone, rtol=1e-9)
    assert (figure(1) > figure(2)).all() and (figure(1) > 1.05 * figure(2)).any()


def test_without_noise_of_users_nothing_changes():
    frozen = dict(noise_variance=0.0, fading=rayleigh_antennas(correlation=1.0))
    for two, one in zip(blind(4, **frozen), blind(4, **frozen, coordinates_per_use=1), strict=True):
        assert worst(two.proved) == worst(one.proved)


def test_no_figure_where_none_is_known():
    for how, why in (
        ({"sends": 0.5}, "toss coins"), ({"snr_db": 3.0}, "power limit scales the noise"),
        ({"receiver_noise": 0.0}, "without noise of the receiver"),
    ):  # fmt: skip
        entry = estimated(4, H[:, 0], **how)[0]
        assert entry.proved.epsilon is None and why in entry.proved.why


def read(reading, seen, u):
    return jax.jit(lambda: reading(seen, jnp.float32(u)))()


@pytest.mark.parametrize("d", [4, 5])
def test_the_score_is_the_log_of_the_ratio_of_the_two_laws(d):
    """All users send -L u but for user 0, which sends it or L u: by the density of the whole signal."""
    u = RNG.normal(size=d)
    u /= np.linalg.norm(u)
    symbols = (d + 1) // 2
    heard = RNG.normal(size=(M, 2, symbols))
    info = cast(Any, types.SimpleNamespace(measured={}, observed=types.SimpleNamespace(
        received=types.SimpleNamespace(value=jnp.float32(heard.reshape(1, -1))))))  # fmt: skip
    links = Antennas(jnp.float32(np.stack([H.real, H.imag], axis=2)), jnp.zeros((N, M, 2)), jnp.zeros((N, 2)))
    seen = Seen((), (), info, jnp.zeros((N, d)), cohort_of(N)._replace(antennas=links), jnp.int32(0))
    about = dict(clip=L, noise_variance=SIGMA2, receiver_noise=N0, coordinates_per_use=2)
    found, terms = read(ratio_of_antennas(**about, amplitude=B), seen, u)
    carried = np.zeros((2 * symbols, d))
    carried[np.arange(d) // 2 + symbols * (np.arange(d) % 2), np.arange(d)] = 1
    maps = [B * real(np.kron(h[:, None], np.eye(symbols))) @ carried for h in H]
    noise = N0 * np.eye(2 * M * symbols) + SIGMA2 * sum(of @ of.T for of in maps)
    law = lambda sign: stats.multivariate_normal(L * (sign * maps[0] - sum(maps[1:])) @ u, noise)
    whole = np.concatenate([heard[:, 0].ravel(), heard[:, 1].ravel()])
    assert float(found) == pytest.approx(law(1).logpdf(whole) - law(-1).logpdf(whole), rel=1e-4)
    middle = law(1).logpdf(0 * whole) - law(-1).logpdf(0 * whole)
    assert float(found - terms.sum()) == pytest.approx(middle, rel=1e-4)
    one = H[:, :1]
    who = cohort_of(N)._replace(coefficient=jnp.float32(np.concatenate([one.real, one.imag], axis=1)))
    first = cast(Any, types.SimpleNamespace(measured={"level": jnp.full(N, B)}, observed=types.SimpleNamespace(
        received=types.SimpleNamespace(value=jnp.float32(heard[:1].reshape(1, -1))))))  # fmt: skip
    links = links._replace(gain=links.gain[:, :1])
    alone = seen._replace(info=first, who=who._replace(antennas=links))
    expected = read(ratio_of_antennas(**about, amplitude=B), alone, u)[0]
    found = read(ratio_of_complex_signals(**about), alone, u)[0]
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    usual = dict(clip=L, noise_variance=SIGMA2, receiver_noise=N0, coordinates_per_use=2)
    for one in (
        systems.blind_wireless(LOCAL, antennas=1, amplitude=B, every_antenna=True, **usual),
        systems.wireless(LOCAL, fading=turned(rician(), deviation=0.5), level=B, **usual),
    ):
        (reading,) = PLANS[type(one.release)].readings(release=one.release, kind="direction")
        assert float(read(reading, alone, u)[0]) == pytest.approx(float(expected), rel=1e-5)


USERS, TOLD = 3, 0.03
APART = np.array([[[1.0], [1j], [1j]]])
"""The others' noise lies across user 0 where a symbol carries one coordinate, and everywhere where it carries two."""


def audited_system(local, observe):
    return systems.blind_wireless(
        local, antennas=1, clip=1.0, noise_variance=1.0, receiver_noise=0.3, every_antenna=True, amplitude=1.0,
        fading=recorded_antennas(APART), observe=observe, mesh=None, coordinates_per_use=2,
    )  # fmt: skip


@functools.cache
def figure(d):
    one = audited_system(LOCAL, None)
    plan = planned(one, jax.random.key(1), jnp.zeros(d), no_samples(USERS), 1)
    return ledger(one, plan, no_samples(USERS), delta=TOLD)[0].proved.epsilon[0]


def bound(d):
    canary = direction_canary(jax.random.key(2), USERS, d, 3.0)
    reading = ratio_of_antennas(clip=1.0, noise_variance=1.0, receiver_noise=0.3, amplitude=1.0, coordinates_per_use=2)
    worlds = scores(
        audited_system, canary, lambda seen: reading(seen, canary.toward(seen.before))[0], jax.random.key(3),
        params=jnp.zeros(d), trials=10_000, at_once=2000,
    )  # fmt: skip
    return two_worlds(*worlds, delta=TOLD).epsilon


def test_figures_stand_their_audit_and_that_of_pairs_does_not_where_one_is_alone():
    """Two coordinates that share a use, and a single one, for which noise in all directions is counted too much."""
    pair, alone = bound(2), bound(1)
    assert 0.7 * figure(2) < pair < figure(2) < alone < figure(1)
