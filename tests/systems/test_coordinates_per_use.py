"""Two coordinates in each complex use of the channel: moments, what the server gets, and what it costs. d is odd."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

from fedjax_priv.analysis import OnAir, air_resources, link_measures
from fedjax_priv.base import ClientData
from fedjax_priv.channels import estimated, rayleigh, recorded_antennas, turned
from fedjax_priv.clients import bernoulli
from fedjax_priv.layers import blind_mean, complex_symbols, stack, waveform
from fedjax_priv.layers.blind_combining import taken_of
from fedjax_priv.systems import blind_wireless, wireless
from fedjax_priv.systems.over_the_air.analog_uploads import analog_uploads
from fedjax_priv.testing import run_layer
from fedjax_priv.theory.wireless import (
    combined_coefficients,
    combined_error,
    estimated_coefficient,
    misaligned_error,
    turned_coefficient,
)
from helpers import cohort_of, heard_alike, refuses, same_bits, towards_target

KEY = jax.random.key(9)
K, D, SIGMA2, N0, C, LEAST, M, V = 6, 5, 0.05, 0.02, 0.9, 0.2, 4, 0.3
G = np.random.default_rng(5).normal(size=(K, D)) @ np.diag([1.0, 0.3, 0.6, 0.9, 0.8])
DATA = ClientData(jnp.asarray(-G, jnp.float32), jnp.arange(K) + 1)
PILOTS = estimated(rayleigh(), pilot_energy=0.4, receiver_noise=N0)  # v = 0.1
FADING = {"phase": turned(rayleigh(), deviation=0.8), "mmse": PILOTS}
ACROSS = np.zeros((D, D))  # x -> the coordinates of j x; the last is alone, and what leaves it is not looked at
ACROSS[[0, 1, 2, 3], [1, 0, 3, 2]] = [-1, 1, -1, 1]


USUAL = dict(clip=100.0, noise_variance=SIGMA2, receiver_noise=N0, coordinates_per_use=2, server=optax.sgd(0.0),
             block=4, mesh=None)  # fmt: skip


def system(fading, **how):
    return wireless(towards_target(), fading=fading, **{**USUAL, "level": C, "truncation": LEAST, **how})


def blind(**how):
    return blind_wireless(
        towards_target(), **{**USUAL, "antennas": M, "amplitude": C, "pilot_energy": 2 * N0 / V, **how}
    )


def one_round(one, key=KEY):
    return one.step(key, one.init(key, jnp.zeros(D), DATA), DATA)[1]


@functools.cache
def rounds_of(name, seed, **how):
    """`(directions, measured)` of first rounds of many runs."""
    one = blind(**how) if name == "blind" else system(FADING[name], **how)

    @jax.jit
    def run(keys):
        def of(key):
            info = one_round(one, key)
            return info.direction, {name: value for name, value in info.measured.items() if value.ndim == 1}

        return jax.lax.map(of, keys, batch_size=2000)

    found, told = run(jax.random.split(jax.random.key(seed), 10_000))
    return np.asarray(found, np.float64), {name: np.asarray(value) for name, value in told.items()}


def misses(sample, expected):
    """Standard errors between means and what they should be, the largest."""
    return np.max(abs(sample.mean(0) - expected) / (sample.std(0) / np.sqrt(len(sample))))


def of_pairs(error, **how):
    """The sum over causes, of the pairs and of the coordinate that is alone."""
    square = np.square(G).mean(0)
    both = [
        error(mean_square=square[:4].sum(), num_params=4, coordinates_per_use=2, **how),
        error(mean_square=square[4], num_params=1, coordinates_per_use=1, **how),
    ]
    return np.sum(both, 0)


@pytest.mark.parametrize("name", ["phase", "mmse"])
def test_real_and_imaginary_parts_mix_through_the_phase(name):
    """The Gram matrix of the error, within 3 standard errors; one without the mixing, or of one per use, is far off."""
    mean, real, imaginary = turned_coefficient(0.8)
    if name == "mmse":
        of = estimated_coefficient(0.1, LEAST)
        mean, real, imaginary = of.mean, of.variance / 2, of.variance / 2
    found, told = rounds_of(name, seed=5)
    sends = told["amplitude"] > 0
    found, sends = (each[sends.any(1)] for each in (found, sends))
    error = found - sends @ G / sends.sum(1, keepdims=True)
    expected = lambda sends, mixed=imaginary: grams(sends, mean, real, mixed)
    products = error[:, :, None] * error[:, None]
    assert misses(error, 0) < 4 and misses(products, expected(sends)) < 4
    assert misses(products, expected(sends, 0.0)) > 5
    alike = expected(sends, 0.0) + np.diag(np.diag(expected(sends) - expected(sends, 0.0)))
    assert misses(products, alike) > 5  # more noise, but white
    total = of_pairs(functools.partial(misaligned_error, mean, real, imaginary), senders=K, noise_variance=SIGMA2,
                     receiver_noise=N0, level=C)  # fmt: skip
    assert np.trace(expected(np.ones((1, K)))) == pytest.approx(total.sum())


def grams(sends, mean, real, imaginary):
    """Second moments of the error, given who sends: of updates as they are heard, of own noise, of the receiver's."""
    number = sends.sum(1, keepdims=True)
    once, twice = (np.einsum("rk,ki,kj->rij", sends / number**2, of, of).mean(0) for of in (G, G @ ACROSS.T))
    own, heard = SIGMA2 * (1 / number).mean(), N0 / C**2 * (1 / number**2).mean()
    along = real * once + (real + mean**2) * own * np.eye(D) + heard * np.eye(D)
    return (along + imaginary * (twice + own * ACROSS @ ACROSS.T)) / mean**2


@pytest.mark.parametrize(("kind", "every"), [("individual", False), ("common", True)])
def test_both_modes_of_many_antennas_have_the_moments_of_the_closed_form(kind, every):
    """Within 3 standard errors; without the mixing, or with a circular B, they are far off."""
    found, _ = rounds_of("blind", seed=9, pilots=kind, every_antenna=every)
    error = found - G.mean(0)
    of = combined_coefficients(K, M, error=V, pilots=kind)
    how = dict(noise_variance=SIGMA2, receiver_noise=N0, amplitude=C, error=V, pilots=kind)
    mean = np.square(G.mean(0))
    each = [
        combined_error(K, M, mean_square=(G[:, part] ** 2).sum(1).mean(), square_of_mean=mean[part].sum(),
                       num_params=len(G[0, part]), coordinates_per_use=number, **how)
        for part, number in ((slice(4), 2), (slice(4, 5), 1))
    ]  # fmt: skip

    def fading(variance, covariance, rows):
        return (variance - covariance) * rows.T @ rows / K**2 + covariance * np.outer(rows.mean(0), rows.mean(0))

    along, across = fading(of.real, of.real_covariance, G), fading(of.imaginary, of.imaginary_covariance, G @ ACROSS.T)
    assert np.trace(along + across) == pytest.approx(sum(one.fading for one in each))
    noise = [one.own_noise + one.receiver_noise for one in each]
    white = np.diag([noise[0] / 4] * 4 + [noise[1]])
    products = error[:, :, None] * error[:, None]
    assert misses(error, 0) < 4 and misses(products, along + across + white) < 4
    assert misses(products, along + white) > 5
    alike = fading((of.real + of.imaginary) / 2, 0.0, G) + fading((of.real + of.imaginary) / 2, 0.0, G @ ACROSS.T)
    assert misses(products, alike + white) > 5


SYMBOLS = np.pad(G, ((0, 0), (0, 1))) @ np.kron(np.eye(3), [[1], [1j]])


def test_the_server_gets_complex_symbols():
    """`y = c sum_k u_k g_k` to the number; the last imaginary part carries no coordinate, and arrives."""
    one = system(turned(rayleigh(), deviation=0.8), truncation=None, noise_variance=0.0, receiver_noise=0.0,
                 observe=lambda view: view)  # fmt: skip
    info = jax.jit(lambda: one_round(one))()
    u = np.asarray(info.measured["coefficient_real"]) + 1j * np.asarray(info.measured["coefficient_imaginary"])
    y = np.asarray(info.observed.received.value)[0] @ np.kron([[1], [1j]], np.eye(3))
    np.testing.assert_allclose(y, C * u @ SYMBOLS, rtol=1e-4)
    estimate = (y / (C * K * np.exp(-0.32)))[:, None].view(np.float64).ravel()
    np.testing.assert_allclose(info.direction, estimate[:D], rtol=1e-4)
    assert abs(estimate[D]) > 1e-3
    np.testing.assert_allclose(info.measured["received_amplitude"], u.real, rtol=1e-4)


GAINS = np.array([[[1 + 1j, 0.5], [-0.5j, 2.0], [0.3, 1 - 1j], [1.0, 1j], [2.0, 0.2], [0.1j, -0.3]]])


def test_every_antenna_hears_complex_symbols_and_both_modes_are_one_round():
    how = dict(antennas=2, fading=recorded_antennas(GAINS), receiver_noise=0.0, noise_variance=0.0, pilot_energy=None)
    make = lambda every: blind(**how, every_antenna=every, observe=lambda view: view)
    each, few = jax.jit(lambda: [one_round(make(every)) for every in (True, False)])()
    heard = np.asarray(each.observed.received.value).reshape(2, 2, 3)
    y = C * np.einsum("km,ks->ms", GAINS[0], SYMBOLS)
    np.testing.assert_allclose(heard[:, 0] + 1j * heard[:, 1], y, rtol=1e-5, atol=1e-6)
    z = (GAINS[0].sum(0).conj()[:, None] * y).mean(0) / (C * np.square(abs(GAINS)).mean((0, 2)).sum())
    for info in (each, few):
        np.testing.assert_allclose(info.direction, z[:, None].view(np.float64).ravel()[:D], rtol=1e-4)
    assert few.observed.received.value.shape == (1, 6)
    np.testing.assert_allclose(each.measured["received_amplitude"], few.measured["received_amplitude"], rtol=1e-4)


def test_an_amplitude_by_the_number_of_parameters_is_that_of_the_update():
    """Not of symbols, which hold one number more."""
    pairs = heard_alike(blind_mean(lambda d: 0.1 * d, coordinates_per_use=2))
    got = run_layer(stack(it=pairs, send=waveform()), KEY, jnp.float32(G), cohort_of(K), jnp.ones(K, bool))
    np.testing.assert_allclose(got["received"].value, G.sum(0)[None], rtol=1e-4, atol=1e-5)


def test_nothing_mixes_where_phases_are_known():
    """Of the same rounds with one per use; where phases err, they are others."""

    @jax.jit
    def of_each(off):
        each = [system(turned(rayleigh(), deviation=off), receiver_noise=0.0, coordinates_per_use=n) for n in (1, 2)]
        return [one_round(one).direction for one in each]

    np.testing.assert_allclose(*of_each(0.0), rtol=1e-5)
    assert np.max(abs(np.subtract(*of_each(0.5)))) > 0.01


def test_a_round_has_the_same_bits_in_any_blocks():
    few, many = (jax.jit(lambda block=block: one_round(blind(block=block)).direction)() for block in (1, K))
    assert same_bits(few, many)


def as_run(told):
    arrays = {name: (("round", "client"), value[None]) for name, value in told.items()}
    return xr.Dataset(arrays, attrs={"num_params": D})


def test_half_the_uses_and_seconds_and_the_same_energy():
    """Three complex uses for five; at the same level a use carries the energy of two coordinates."""
    one, key = system(PILOTS, coordinates_per_use=1), jax.random.split(jax.random.key(5), 10_000)[0]
    told = jax.device_get(jax.jit(lambda: one_round(one, key).measured)())
    before, now = as_run(told), as_run({name: value[0] for name, value in rounds_of("mmse", seed=5)[1].items()})
    sends = before.amplitude > 0
    np.testing.assert_array_equal(now.channel_uses, 6 * sends)
    np.testing.assert_array_equal(before.channel_uses, 10 * sends)
    spent = [air_resources(run, OnAir(hertz=100.0), receiver_noise=N0) for run in (before, now)]
    assert float((spent[0] - spent[1]).air_seconds.item()) == pytest.approx(4 / 200)
    np.testing.assert_allclose(spent[0].joules, spent[1].joules, rtol=1e-5)
    links = [link_measures(run, receiver_noise=N0, access="multiple") for run in (before, now)]
    assert (links[0] - links[1]).channel_uses.item() == 4
    snr = (links[1] - links[0]).received_snr_db.item()
    assert snr == pytest.approx(10 * np.log10(10 / 6), abs=1e-4)
    of_blind = rounds_of("blind", seed=9, pilots="individual", every_antenna=False)[1]
    assert (of_blind["amplitude"] > 0).all() and (of_blind["channel_uses"] == 6).all()


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: system(rayleigh()), "coordinates_per_use must be 1 where gains are known, a real use each, got 2"),
    (
        lambda: inspect.unwrap(analog_uploads)(
            bernoulli(0.5), clip=1.0, noise_variance=0.1, access="multiple", coordinates_per_use=3
        ),
        "coordinates_per_use must be one of 1, 2, got 3",
    ),
    (lambda: inspect.unwrap(taken_of)(True, 0), "coordinates_per_use must be one of 1, 2, got 0"),
    (lambda: inspect.unwrap(complex_symbols)(PILOTS.knowledge, 4), "coordinates_per_use must be one of 1, 2, got 4"),
)
