"""The noise of all clients as one draw of the channel: the law of what is received, and what may not be combined."""

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refused

from fedjax_priv.base import ClientData
from fedjax_priv.channels import constant, rayleigh, recorded, turned
from fedjax_priv.engine.mesh import clients_mesh
from fedjax_priv.layers.noise_as_one import deviation_of_sum, numbers_for_noise
from fedjax_priv.status import Status
from fedjax_priv.systems import wireless
from helpers import same_bits, towards_target

KEY = jax.random.key(5)
K, D, ROUNDS, CLIP, N0, LEVEL = 6, 5, 6000, 1.0, 0.3, 1.5
SIGMA2 = np.array([0.5, 0.0, 0.9, 0.2, 0.4, 1.3])
GAIN = np.array([[0.6, 0.8, 1.0, 1.1, 0.9, 1.5]])
DECIBELS = np.array([3.0, 40.0, 5.0, 40.0, 6.0, 2.0])
G = np.random.default_rng(5).normal(size=(K, D))
DATA = ClientData(jnp.asarray(-G, jnp.float32), jnp.ones(K, jnp.int32))  # at w = 0 the update is -x_k


def system(**how):
    usual = dict(
        clip=CLIP, noise_variance=SIGMA2, receiver_noise=N0, fading=recorded(GAIN), snr_db=DECIBELS, level=LEVEL,
        participation=0.7, known_count=False, server=optax.sgd(1.0), mesh=None,
    )  # fmt: skip
    return wireless(towards_target(), **{**usual, **how})


@functools.partial(jax.jit, static_argnames="drawn")
def rounds(drawn):
    """First rounds of many runs: what is received, who sent at which amplitude, and their energies."""
    one = system(noise_drawn=drawn, observe=lambda view: view.received.value[0])

    def of(key):
        info = one.step(key, one.init(key, jnp.zeros(D), DATA), DATA)[1]
        return info.observed, info.measured["amplitude"], info.measured["energy"]

    return jax.lax.map(of, jax.random.split(KEY, ROUNDS), batch_size=500)


def given_who_sent(drawn):
    """Received numbers without their mean, given who sent, and their variance."""
    received, amplitude, _ = map(np.asarray, rounds(drawn))
    clipped = G / np.maximum(np.linalg.norm(G, axis=1, keepdims=True) / CLIP, 1)
    return received - LEVEL * amplitude @ clipped, LEVEL**2 * np.square(amplitude) @ SIGMA2 + N0


def second_moments(noise, variance):
    """By how many standard errors squares over their variance are off 1, in the rounds with least and most variance."""
    loud = variance > np.median(variance)
    z = np.square(noise) / variance[:, None]
    return [(z[some].mean() - 1) * np.sqrt(z[some].size / 2) for some in (loud, ~loud)]


@pytest.mark.parametrize("drawn", ["by client", "as one"])
def test_what_is_received_has_the_law_of_the_sum(drawn):
    """Power control, other noise of each client, a level and coins: the first four moments of a standard normal."""
    noise, variance = given_who_sent(drawn)
    z = noise / np.sqrt(variance)[:, None]
    for power, moment, of_square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105)):
        error = np.sqrt((of_square - moment**2) / z.size)
        assert abs((z**power).mean() - moment) < 4 * error, power
    assert np.abs(second_moments(noise, variance)).max() < 4
    assert np.abs(np.corrcoef(z.T) - np.eye(D)).max() < 5 / np.sqrt(ROUNDS)


def test_noise_that_forgets_who_sent_is_another_law():
    """The control: the same variance in every round."""
    noise, variance = given_who_sent("as one")
    assert np.abs(second_moments(noise * np.sqrt(variance.mean() / variance)[:, None], variance)).min() > 10


def test_energy_is_the_mean_of_that_of_single_draws():
    (_, sent, energy), (_, same, expected) = rounds("by client"), rounds("as one")
    assert same_bits(sent, same)
    sent = np.asarray(sent) > 0
    for k in range(K):
        found, mean = np.asarray(energy)[sent[:, k], k], np.asarray(expected)[sent[:, k], k]
        assert np.ptp(mean) < 1e-5 * mean[0]
        error = found.std(ddof=1) / np.sqrt(len(found))
        assert abs(found.mean() - mean[0]) <= 5 * error + 1e-5 * mean[0]
    assert (np.asarray(expected)[~sent] == 0).all()


def test_the_same_bits_for_every_block_and_number_of_devices():
    def first(**how):
        one = system(noise_drawn="as one", **how)
        return jax.jit(lambda data: one.step(KEY, one.init(KEY, jnp.zeros(D), data), data)[1])(DATA)

    found, other = first(block=1), first(block=4, mesh=clients_mesh(jax.devices()[:2]))
    assert same_bits(found.direction, other.direction)
    assert int(found.status) == Status.OK and np.isfinite(found.direction).all()


def test_without_noise_nothing_is_drawn_for_clients():
    """Also where the variance is traced, as in a sweep."""

    @functools.partial(jax.jit, static_argnames="drawn")
    def direction(variance, drawn):
        one = system(noise_drawn=drawn, noise_variance=variance, receiver_noise=0.0, snr_db=None)
        return one.step(KEY, one.init(KEY, jnp.zeros(D), DATA), DATA)[1].direction

    np.testing.assert_allclose(direction(0.0, "as one"), direction(0.0, "by client"), rtol=1e-6)
    assert np.abs(direction(0.1, "as one") - direction(0.1, "by client")).max() > 0.01


def test_a_round_draws_one_noise():
    """Of d numbers, two from each block of the generator; the control draws for the clients of a block, too."""

    def sizes_of_normals(drawn):
        one = system(noise_drawn=drawn, block=4)
        text = jax.jit(one.step).lower(KEY, one.init(KEY, jnp.zeros(D), DATA), DATA).as_text()
        return {
            math.prod(map(int, shape.split("x")))
            for shape in re.findall(r"stablehlo.log .*?: tensor<([\dx]+)xf32>", text)
        }

    assert sizes_of_normals("as one") == {-(-D // 2)} < sizes_of_normals("by client")


@pytest.mark.parametrize("drawn", ["by client", "as one"])
def test_a_variance_that_is_negative_fails_the_round(drawn):
    """Traced, as in a sweep: it must not become a round without noise."""

    @jax.jit
    def status(variance):
        one = system(noise_drawn=drawn, noise_variance=variance, snr_db=None)
        return one.step(KEY, one.init(KEY, jnp.zeros(D), DATA), DATA)[1].status

    assert int(status(0.1)) == Status.OK and int(status(-0.1)) != Status.OK


def test_noise_of_any_strength_fits_the_sum():
    """Shares of the largest variance travel, not variances."""
    loud = system(noise_drawn="as one", noise_variance=np.full(K, 1e8), snr_db=None)
    assert int(jax.jit(loud.step)(KEY, loud.init(KEY, jnp.zeros(D), DATA), DATA)[1].status) == Status.OK


@pytest.mark.parametrize("by_round", [False, True])
def test_noise_arrives_at_any_level(by_round):
    """The noise of users is as strong against the receiver's at a level that a fixed-point sum can hardly hold."""
    data = ClientData(jnp.zeros((K, 10_000)), jnp.ones(K, jnp.int32))

    @jax.jit
    def run(small):
        one = system(
            noise_drawn="as one", noise_variance=0.5, receiver_noise=0.01 * small**2, snr_db=None,
            level=(lambda round, gain: small * gain.min()) if by_round else small,
            participation=1.0, known_count=True, fading=constant(1.0),
        )  # fmt: skip
        return one.step(KEY, one.init(KEY, jnp.zeros(10_000), data), data)[1]

    for small in (1e-7, 3e-11):
        info = run(small)
        assert int(info.status) == Status.OK
        assert K * float(info.direction.std()) == pytest.approx(np.sqrt(0.5 * K + 0.01), rel=0.03)


def test_noise_is_never_lost_beside_that_of_others():
    """A variance of 1e-16 of the largest, of the only client that sends."""
    one = system(
        noise_drawn="as one", noise_variance=np.append(np.full(K - 1, 1e-16), 1.0), receiver_noise=1e-20, level=1.0,
        snr_db=None, participation=np.append(np.ones(K - 1), 0.0), known_count=True, fading=constant(0.7),
    )  # fmt: skip
    data = ClientData(jnp.zeros((K, 10_000)), jnp.ones(K, jnp.int32))
    info = jax.jit(one.step)(KEY, one.init(KEY, jnp.zeros(10_000), data), data)[1]
    assert np.sqrt(K - 1) * float(info.direction.std()) == pytest.approx(1e-8, rel=0.05)


test_it_is_refused_where_the_server_receives_more_than_one_sum = refused(
    ({"access": "orthogonal"}, "noise_drawn must be 'by client' unless uploads add up with known gains, got 'as one'"),
    ({"fading": turned(rayleigh(), deviation=0.5)}, "noise_drawn must be 'by client' unless"),
    by=lambda how: system(**{"noise_drawn": "as one", "snr_db": None} | how),
)


@pytest.mark.parametrize("deviation", [1.0, 3e-5, 1e-9])
@pytest.mark.parametrize("level", [1.0, 1e-3, 1e-12])
def test_noise_is_never_less_than_stated_however_small_its_share(deviation, level):
    """Numbers travel in steps of 2^-45, and what is beyond is cut off."""
    level = jnp.float32(level)
    sent = np.asarray(numbers_for_noise(jnp.full(4, deviation, jnp.float32), 1.0, level), np.float64)
    sums = jnp.asarray(np.floor(sent * 2.0**45).sum(0, keepdims=True) / 2.0**45, jnp.float32)
    found = float(deviation_of_sum(sums, 1.0, jnp.array([4]))[0, 0])
    assert found >= float(level) * 2 * deviation * (1 - 1e-6)
