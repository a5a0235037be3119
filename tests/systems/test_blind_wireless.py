"""Clients that know nothing of their channel, heard by several antennas: moments, both modes, measures and costs."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

from fedjax_priv.analysis import Broadcast, OnAir, air_resources, link_measures, run_seconds
from fedjax_priv.base import ClientData
from fedjax_priv.channels import SumPilots, antenna_array, multiple_access, rayleigh_antennas, recorded_antennas
from fedjax_priv.clients import everyone, heard_by_antennas
from fedjax_priv.layers import blind_mean, stack, waveform
from fedjax_priv.layers.blind_combining import common_amplitude
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import blind_wireless
from fedjax_priv.systems.over_the_air.analog_uploads import power_of_use
from fedjax_priv.theory.wireless import combined_coefficients, combined_error
from helpers import engine, refuses, towards_target

KEY = jax.random.key(9)
K, M, D, V, ROUNDS = 5, 8, 3, 0.3, 16_000
N0, SIGMA2, B = 0.45, 0.05, 1.5
ENERGY = 2 * N0 / V
G = np.random.default_rng(5).normal(size=(K, D)) @ np.diag([1.0, 0.6, 0.3])
DATA = ClientData(jnp.asarray(-G, jnp.float32), jnp.arange(K) + 1)


def misses(sample, expected):
    """Standard errors between means and what they should be, the largest."""
    return np.max(abs(sample.mean(0) - expected) / (sample.std(0) / np.sqrt(len(sample))))


def system(**how):
    usual = dict(
        antennas=M, clip=100.0, noise_variance=SIGMA2, receiver_noise=N0, amplitude=B, pilot_energy=ENERGY,
        server=optax.sgd(0.0), block=4, mesh=None,
    )  # fmt: skip
    return blind_wireless(towards_target(), **{**usual, **how})


def one_round(one, key=KEY):
    return one.step(key, one.init(key, jnp.zeros(D), DATA), DATA)[1]


def rounds_of(one, rounds=ROUNDS):
    """`(directions, measured)` of first rounds of many runs."""
    kept = ("received_amplitude", "amplitude", "energy", "gain", "channel_uses")

    @jax.jit
    def run(keys):
        def first(key):
            info = one_round(one, key)
            return info.direction, {name: info.measured[name] for name in kept}

        return jax.lax.map(first, keys, batch_size=2000)

    found, measured = run(jax.random.split(KEY, rounds))
    return np.asarray(found, np.float64), {name: np.asarray(a, np.float64) for name, a in measured.items()}


@pytest.mark.parametrize("kind", ["individual", "common"])
def test_clients_are_heard_with_the_moments_of_the_page(kind):
    """Of what the draw has, within 3 standard errors; without the pseudo-variance, or exact pilots, it is far off."""
    draw = heard_by_antennas(M, pilots=SumPilots(kind, ENERGY, N0))
    first = lambda key: draw.apply(key, draw.init(key, K), jnp.int32(0), DATA.count)[0].antennas
    gain, total, coefficient = jax.jit(jax.vmap(first))(jax.random.split(KEY, ROUNDS))
    h, s = (np.asarray(a, np.float64) @ [1, 1j] for a in (gain, total))
    assert (s == s[:, :1]).all()
    b = (s.conj() * h).mean(2)
    heard = np.asarray(coefficient, np.float64) @ [1, 1j]
    np.testing.assert_allclose(heard, b * M / np.linalg.norm(s[:, 0], axis=1)[:, None], atol=1e-4)
    of = combined_coefficients(K, M, error=V, pilots=kind)
    assert kind == "common" or of == (0.46875, 0.34375, 0.0625, -0.0625)
    real, imaginary = b.real - 1, b.imag
    for part, variance, covariance in (
        (real, of.real, of.real_covariance), (imaginary, of.imaginary, of.imaginary_covariance)
    ):  # fmt: skip
        assert misses(part[:, 0], 0) < 3 and misses(part[:, 0] ** 2, variance) < 3
        assert misses(part[:, 0] * part[:, 1], covariance) < 3
    assert misses(real[:, 0], 1) > 5 < misses(imaginary[:, 0] ** 2, of.real)
    assert misses(real[:, 0] ** 2, (of.real + of.imaginary) / 2) > 5  # K (1 + v) / 2M, without the pseudo-variance
    if kind == "individual":
        assert misses(real[:, 0] ** 2, combined_coefficients(K, M).real) > 5


def moments(kind="individual", **how):
    """Second moments `[D, D]` of the error, in closed form."""
    of = combined_coefficients(K, M, error=V, pilots=kind)
    mean = G.mean(0)
    apart = np.einsum("ki,kj->ij", G, G) / K**2
    turns = (of.real - of.real_covariance) * apart + of.real_covariance * np.outer(mean, mean)
    about = dict(mean_square=np.square(G).sum(1).mean(), square_of_mean=np.square(mean).sum(), num_params=D,
                 noise_variance=SIGMA2, receiver_noise=N0, amplitude=B, error=V, pilots=kind)  # fmt: skip
    error = combined_error(K, M, **{**about, **how})
    assert np.trace(turns) == pytest.approx(error.fading)
    return turns + (error.own_noise + error.receiver_noise) / D * np.eye(D)


@pytest.mark.parametrize(
    ("kind", "every"), [("individual", False), ("individual", True), ("common", False)]
)  # fmt: skip
def test_both_modes_have_the_two_moments_of_the_closed_form(kind, every):
    """Within 3 standard errors; an error that is white, or that of the other pilots or exact ones, is far off."""
    found, told = rounds_of(system(pilots=kind, every_antenna=every))
    error = found - G.mean(0)
    products = error[:, :, None] * error[:, None]
    expected = moments(kind)
    assert misses(error, 0) < 3 and misses(products, expected) < 3
    assert misses(products, np.trace(expected) / D * np.eye(D)) > 5
    assert misses(np.square(error).sum(1), np.trace(moments(kind, receiver_noise=0.0))) > 5
    heard = told["received_amplitude"]
    of = combined_coefficients(K, M, error=V, pilots=kind)
    assert misses(heard, 1) < 3.5 and misses(np.square(heard - 1), of.real) < 3.5
    assert (told["amplitude"] == 1).all() and misses(np.square(told["gain"]), 1) < 3.5


GAINS = np.array([[[1 + 1j, 0.5], [-0.5j, 2.0], [0.3, 1 - 1j], [1.0, 1j], [2.0, 0.2]]])


def test_the_server_has_what_every_antenna_hears():
    """`y_m = sum_k h_km b g_k` to the number; combined by hand, or by antennas, it estimates with weights E|h_k|^2."""
    one = system(antennas=2, fading=recorded_antennas(GAINS), every_antenna=True, receiver_noise=0.0,
                 noise_variance=0.0, pilot_energy=None, observe=lambda view: view)  # fmt: skip
    info = jax.jit(lambda: one_round(one))()
    heard = np.asarray(info.observed.received.value).reshape(2, 2, D)
    y = np.einsum("km,kd->md", GAINS[0], B * G)
    np.testing.assert_allclose(heard[:, 0] + 1j * heard[:, 1], y, rtol=1e-5)
    s = GAINS[0].sum(0)
    z = (s.conj()[:, None] * y).mean(0).real
    np.testing.assert_allclose(info.direction, z / (B * np.square(abs(GAINS)).mean((0, 2)).sum()), rtol=1e-5)
    assert info.observed.uploads == () and "antenna_gains" not in info.measured
    combined = system(antennas=2, fading=recorded_antennas(GAINS), receiver_noise=0.0, noise_variance=1e-12,
                      observe=lambda view: view)  # fmt: skip
    few = jax.jit(lambda: one_round(combined))()
    assert few.observed.received.value.shape == (1, D)
    np.testing.assert_allclose(few.direction, info.direction, rtol=1e-4)
    np.testing.assert_allclose(few.measured["received_amplitude"], info.measured["received_amplitude"], rtol=1e-4)
    stacked = np.concatenate([GAINS[0].real, GAINS[0].imag], axis=1)
    np.testing.assert_allclose(few.measured["antenna_gains"], stacked, rtol=1e-6)


def test_the_energy_is_that_of_the_power_that_everybody_has():
    power = np.array([10.0, 13.0, 12.0, 11.0, 20.0])

    @jax.jit
    def energies(clip, variance):
        one = system(amplitude=None, snr_db=power, clip=clip, noise_variance=variance)
        return jax.lax.map(lambda key: one_round(one, key).measured["energy"], jax.random.split(KEY, 2000),
                           batch_size=2000)  # fmt: skip

    np.testing.assert_allclose(energies(0.01, 0.0), D * N0 * 10, rtol=1e-4)
    b2 = D * N0 * 10 / (0.2**2 + D * 0.3)
    assert misses(np.asarray(energies(0.2, 0.3), np.float64), b2 * (0.2**2 + D * 0.3)) < 3.5


def test_who_has_the_least_power_for_its_own_noise_decides():
    """Not the least power for the largest noise: those are two clients."""
    power, variance, d, clip = np.array([1.0, 4.0, 9.0]), np.array([0.1, 2.0, 5.0]), 6, 0.7
    found = common_amplitude(jnp.asarray(power), max_norm=clip, noise_variance=variance)(d)
    assert float(found) == pytest.approx(np.sqrt((power * d / (clip**2 + d * variance)).min()), rel=1e-6)
    assert float(found) > 1.1 * np.sqrt(power.min() * d / (clip**2 + d * variance.max()))


def test_weights_are_mean_powers_of_links():
    """Path loss: the estimate is a weighted mean, not the plain one."""
    power = np.array([0.2, 1.0, 3.0, 0.5, 0.3])
    found, told = rounds_of(system(fading=rayleigh_antennas(power=power), noise_variance=0.0), 4000)
    assert misses(found, power @ G / power.sum()) < 3 and misses(found, G.mean(0)) > 5
    assert misses(told["received_amplitude"], power) < 3.5


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def twice(antennas, n, correlation, power=1.0):
    """Gains of two rounds."""
    draw = heard_by_antennas(antennas, rayleigh_antennas(correlation=correlation, power=power))
    who, state = draw.apply(KEY, draw.init(jax.random.key(2), n), jnp.int32(0), jnp.ones(n, int))
    later, _ = draw.apply(jax.random.key(1), state, jnp.int32(1), jnp.ones(n, int))
    return who.antennas.gain, later.antennas.gain


def test_gains_of_a_frozen_channel_stay_and_others_are_new():
    assert np.allclose(*twice(M, K, 1.0), rtol=1e-6) and not np.isclose(*twice(M, K, 0.0), rtol=1e-2).all(2).any()
    np.testing.assert_allclose(twice(M, 3, 0.0)[0], twice(M, K, 0.0)[0][:3], rtol=1e-6)
    assert rayleigh_antennas().anew and not rayleigh_antennas(correlation=0.5).anew


def test_half_of_a_correlated_gain_stays():
    first, later = (np.asarray(gain, np.float64) for gain in twice(100, 100, 0.5, 2.0))
    assert misses((first * later).ravel(), 0.5) < 3 and misses(np.square(later).ravel(), 1.0) < 3


@pytest.fixture(scope="module", params=["individual", "common"])
def run(request):
    rows = DATA._replace(examples=jnp.repeat(DATA.examples[:, None], K, 1))
    local = towards_target()
    first = lambda key, memory, params, data, who: local.apply(
        key, memory, params, data._replace(examples=data.examples[:, 0]), who
    )
    one = blind_wireless(local._replace(apply=first), antennas=M, receiver_noise=N0, pilots=request.param,
                         pilot_energy=ENERGY, mesh=None)  # fmt: skip
    return request.param, simulate(one, KEY, jnp.zeros(D), rows, rounds=3, progress=False)


def test_the_fading_error_is_in_the_measures_of_links(run):
    links = link_measures(run[1], receiver_noise=N0, access="multiple")
    expected = abs(1 - run[1].received_amplitude).mean("client")
    np.testing.assert_allclose(links.alignment_error, expected, rtol=1e-6)
    assert (links.alignment_error > 0.05).all() and (links.limited == 0).all()
    received = (run[1].gain ** 2 * run[1].energy).mean("client") / (2 * D * N0)
    np.testing.assert_allclose(links.received_snr_db, 10 * np.log10(received), rtol=1e-5)
    assert run[1].antenna_gains.shape == (3, K, 2 * M)
    assert set(run[1].antenna_gains.dims) == {"round", "client", "antenna_gains_place"}


def test_pilots_and_the_downlink_cost_uses_seconds_and_joules(run):
    """Individual pilots take turns, a common one is sent at once; the broadcast is at the weakest client's rate."""
    kind, result = run
    turns = 2 * (K if kind == "individual" else 1)
    down = Broadcast(hertz=500.0, snr_db=10.0)
    spent = air_resources(result, OnAir(100.0), receiver_noise=N0, noise_density=2 * N0, downlink=down)
    np.testing.assert_array_equal(spent.channel_uses, np.full((3, K), 2 * D + 2))
    np.testing.assert_allclose(spent.air_seconds, (2 * D + turns) / 200)
    np.testing.assert_allclose(spent.joules, result.energy + ENERGY, rtol=1e-5)
    uses = 32 * D / (np.log2(1 + 10 * np.square(result.gain.values.astype(float)).min(1)) / 2)
    np.testing.assert_allclose(spent.downlink_uses, uses, rtol=1e-6)
    np.testing.assert_allclose(spent.downlink_seconds, uses / 1000, rtol=1e-6)
    np.testing.assert_allclose(spent.downlink_joules, 10 * N0 * uses, rtol=1e-6)
    seconds = run_seconds(result, compute_seconds=1.0, air=OnAir(100.0), downlink=down)
    np.testing.assert_allclose(seconds, 1 + (2 * D + turns) / 200 + uses / 1000, rtol=1e-6)
    links = link_measures(result, receiver_noise=N0, access="multiple")
    np.testing.assert_array_equal(links.channel_uses, np.full(3, 2 * D + turns))
    np.testing.assert_allclose(links.energy, result.energy.sum("client") + K * ENERGY, rtol=1e-5)


@jax.jit
def by_one_antenna(power):
    one = system(antennas=1, fading=rayleigh_antennas(power=power), pilot_energy=None, noise_variance=0.0)
    return jax.lax.map(lambda key: one_round(one, key).measured, jax.random.split(KEY, 4000), batch_size=2000)


@pytest.mark.parametrize("power", [1.0, 0.1])
def test_the_error_of_alignment_is_that_of_the_closed_form_whatever_the_power(power):
    """One antenna: what is heard of a client is `a X - b Y`, X and Y exponential, a and b `(sqrt(K) +- 1) / 2`."""
    told = {name: np.asarray(a, np.float64) for name, a in by_one_antenna(power).items() if a.ndim == 2}
    links = link_measures(
        xr.Dataset({name: (("round", "client"), a) for name, a in told.items()}, attrs={"num_params": D}),
        receiver_noise=N0, access="multiple",
    )  # fmt: skip
    a = (np.sqrt(K) + 1) / 2
    assert misses(links.alignment_error.values, 2 * a**2 * np.exp(-1 / a) / np.sqrt(K)) < 3
    assert misses(links.alignment_error.values, 1.0) > 5


def traced(one):
    return jax.eval_shape(lambda: one_round(one))


def bare(cohort, channel, **how):
    return traced(engine(cohort=cohort, channel=channel, layers=stack(mean=blind_mean(**how), send=waveform())))


def alone(cohort, **how):
    """The layer, without an engine that compares it with a channel."""
    who = cohort.apply(KEY, cohort.init(KEY, K), jnp.int32(0), DATA.count)[0]
    return blind_mean(**how).advertise(KEY, (), who)


test_bad_arguments = refuses(
    lambda make: make(),
    (lambda: system(snr_db=3.0), "amplitude must not be given with snr_db, got 1.5"),
    (lambda: system(amplitude=0.0), "amplitude must be a finite number > 0, got 0.0"),
    (lambda: system(antennas=0), "antennas must be an integer >= 1, got 0"),
    (lambda: system(pilots="common", pilot_energy=None), "pilot_energy must be given with pilots='common', got None"),
    (lambda: system(pilot_energy=-1.0), "pilot_energy must be a finite number > 0, got -1.0"),
    (lambda: traced(system(amplitude=None, snr_db=np.zeros(3))), "snr_db must be a number, or one per client"),
    (
        lambda: traced(system(fading=rayleigh_antennas(power=np.ones(3)))),
        "power must be a number, or one per client",
    ),
    (lambda: traced(system(fading=recorded_antennas(GAINS))), r"gains must be of 5 clients and 8 antennas, got"),
    (lambda: recorded_antennas(GAINS[0]), r"gains must be finite numbers \[rounds, clients, antennas\], got complex"),
    (lambda: system(clip=0.0), "clip must be a finite number > 0, got 0.0"),
    (lambda: inspect.unwrap(power_of_use)("a", 1.0), r"snr_db must be a number of dB in \[-300, 300\], got 'a'"),
    (lambda: bare(everyone(), antenna_array()), "channel must be antenna_array"),
    (lambda: bare(heard_by_antennas(2), multiple_access()), "layers must take of .* gives, None, got combined"),
    (lambda: bare(heard_by_antennas(2), antenna_array(every_antenna=True)), "layers must take .* each, got combined: "),
    (lambda: bare(heard_by_antennas(2), antenna_array(), every_antenna=True), "layers must .* combined, got each: "),
    (lambda: alone(everyone()), "cohort must have links to several antennas, of clients.heard_by_antennas"),
    (lambda: inspect.unwrap(heard_by_antennas)(2, pilots="common"), "pilots must be a SumPilots, such as .*, got str"),
    (lambda: inspect.unwrap(blind_mean)(pilots="common"), "pilots must be a SumPilots, such as .*, got str"),
    (lambda: heard_by_antennas(2, pilots=SumPilots("both", 1.0, 1.0)), "pilots must be one of 'individual', 'common'"),
    (lambda: blind_mean(pilots=SumPilots("common", 0.0, 1.0)), "pilot_energy must be a finite number > 0, got 0.0"),
    (lambda: blind_mean(pilots=SumPilots("common", 1.0, -1.0)), "receiver_noise must be a finite number >= 0"),
)
