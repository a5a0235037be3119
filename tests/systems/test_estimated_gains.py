"""Users that do not know their gains: the law of the estimate, what is measured, and who refuses them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

from fedjax_priv.analysis import OnAir, air_resources, link_measures
from fedjax_priv.base import ClientData
from fedjax_priv.channels import constant, estimated, multiple_access, rayleigh, recorded, turned
from fedjax_priv.clients import bernoulli, round_robin
from fedjax_priv.systems import digital_fedavg, over_the_air_vote, two_tone_vote, wireless
from fedjax_priv.theory.wireless import estimated_coefficient, estimated_mean, turned_coefficient
from helpers import engine, refuses, towards_target

KEY = jax.random.key(5)
K, D, ROUNDS = 6, 3, 12_000
SIGMA2, N0, C, LEAST = 0.05, 0.02, 0.9, 0.2
G = np.random.default_rng(5).normal(size=(K, D)) @ np.diag([1.0, 0.6, 0.3])
DATA = ClientData(jnp.asarray(-G, jnp.float32), jnp.arange(K) + 1)
PILOTS = {"pilot_energy": 0.4, "receiver_noise": N0}  # v = 0.1


def system(fading, **how):
    usual = dict(clip=100.0, noise_variance=SIGMA2, receiver_noise=N0, level=C, server=optax.sgd(0.0), block=4)
    return wireless(towards_target(), fading=fading, **{**usual, "mesh": None, **how})


def stepped(one):
    return one.step(KEY, one.init(KEY, jnp.zeros(D), DATA), DATA)


def rounds_of(one, rounds=ROUNDS):
    """`(directions, measured)` of first rounds of many runs."""

    @jax.jit
    def run(keys):
        def first(key):
            _, info = one.step(key, one.init(key, jnp.zeros(D), DATA), DATA)
            return info.direction, info.measured

        return jax.lax.map(first, keys, batch_size=2000)

    found, measured = run(jax.random.split(KEY, rounds))
    return np.asarray(found, np.float64), {name: np.asarray(a, np.float64) for name, a in measured.items()}


def moments(name):
    """`(E u, Var Re u, fading)` of a row of the table."""
    if name == "phase":
        mean, real, _ = turned_coefficient(0.8)
        return mean, real, turned(rayleigh(), deviation=0.8)
    of = estimated_coefficient(0.1, LEAST, name)
    return of.mean, of.variance / 2, estimated(rayleigh(), estimator=name, **PILOTS)


@functools.cache
def truncated(name):
    return rounds_of(system(moments(name)[2], truncation=LEAST))


@pytest.mark.parametrize("name", ["phase", "least squares", "mmse"])
def test_the_estimate_is_unbiased_and_its_error_has_the_gram_matrix_of_the_page(name):
    """Within 3 standard errors; an error that is white, or of gains that are known, is far off."""
    mean, variance, _ = moments(name)
    found, told = truncated(name)
    sends = told["amplitude"] > 0
    number = sends.sum(1, keepdims=True)
    found, sends, number = (a[number[:, 0] > 0] for a in (found, sends, number))
    error = found - sends @ G / number
    assert (abs(error.mean(0)) < 3 * error.std(0) / np.sqrt(len(error))).all()
    products = error[:, :, None] * error[:, None]
    spread = products.std(0) / np.sqrt(len(error))
    turns = np.einsum("rk,ki,kj->rij", sends / number**2, G, G).mean(0) * variance / mean**2
    own = (1 / number).mean() * SIGMA2 * (variance + mean**2) / mean**2
    white = own + (1 / number**2).mean() * N0 / (C * mean) ** 2
    assert (abs(products.mean(0) - turns - white * np.eye(D)) < 3 * spread).all()
    alike = np.eye(D) * np.trace(turns) / D
    assert (abs(products.mean(0) - alike - white * np.eye(D)) > 5 * spread).any()
    assert (abs(products.mean(0) - white * np.eye(D)) > 5 * spread).any()


@pytest.mark.parametrize(("estimator", "truncation"), [("mmse", None), ("least squares", 0.9)])
def test_the_estimate_is_unbiased_for_gains_that_are_not_rayleigh(estimator, truncation):
    """All gains 1; the mean of Rayleigh gains would be off by 6 to 9%, far more than errors of 3,000 rounds."""
    v = 2 * N0 / PILOTS["pilot_energy"]
    mean = float(estimated_mean(np.ones(1), v, truncation or 0.0, estimator))
    fading = estimated(constant(), estimator=estimator, mean=mean, **PILOTS)
    found, told = rounds_of(system(fading, truncation=truncation, noise_variance=0.0), 3000)
    sends = told["amplitude"] > 0
    found, sends = found[sends.any(1)], sends[sends.any(1)]
    ratio = found @ G.mean(0) - (sends @ G @ G.mean(0)) / sends.sum(1)
    error = ratio.std() / np.sqrt(len(ratio))
    assert abs(ratio.mean()) < 4 * error
    of_rayleigh = 1.0 if estimator == "mmse" else 1 / (1 + v)
    assert abs(mean / of_rayleigh - 1) * (sends @ G @ G.mean(0) / sends.sum(1)).mean() > 6 * error


def as_run(told):
    arrays = {name: (("round", "client"), np.asarray(value)) for name, value in told.items()}
    return xr.Dataset(arrays, attrs={"num_params": D})


def test_the_amplitude_that_arrives_is_measured_after_the_channel():
    """A phase that errs by 0.8 rad shows in it, and in what is made of it; what clients intend does not."""
    _, told = truncated("phase")
    sends = told["amplitude"] > 0
    assert 0 < sends.sum() < sends.size and (told["amplitude"][sends] == 1).all()
    np.testing.assert_allclose(told["received_amplitude"], sends * told["coefficient_real"], atol=1e-5)
    links = link_measures(as_run(told), receiver_noise=N0, access="multiple")
    off = abs(1 - told["coefficient_real"])[sends]
    assert float(links.alignment_error.mean()) == pytest.approx(1 - np.exp(-0.32), abs=0.02)
    assert off.mean() == pytest.approx(float(links.alignment_error.mean()), abs=0.02) and (links.limited == 0).all()
    assert (links.channel_uses == 2 * D).all()
    plain = jax.eval_shape(lambda: stepped(system(rayleigh(), truncation=LEAST))[1].measured)
    off = {"received_amplitude", "coefficient_real", "coefficient_imaginary", "pilot_uses", "pilot_energy"}
    assert plain.keys().isdisjoint(off)
    intended = as_run({name: told[name] for name in told.keys() - off})
    assert link_measures(intended, receiver_noise=N0, access="multiple").alignment_error.max() < 1e-6


def test_a_received_amplitude_has_the_power_limit_in_it():
    gains = np.array([[0.1, 1.0, 1.0, 1.0, 1.0, 1.0]])
    fading = estimated(recorded(gains), pilot_energy=1e6, receiver_noise=N0, mean=1.0)
    one = system(fading, snr_db=0.0, power_control="bound", clip=0.5, level=1.0)
    info = jax.jit(lambda: stepped(one)[1])()
    assert float(info.measured["amplitude"][0]) < 0.2
    np.testing.assert_allclose(info.measured["received_amplitude"], info.measured["amplitude"], rtol=1e-2)


def test_pilots_cost_uses_seconds_and_energy():
    """Two real uses of each user in turns, whether it sends data or not."""
    told = {name: a[:5] for name, a in truncated("mmse")[1].items()}
    run = as_run(told)
    sends = told["amplitude"] > 0
    spent = air_resources(run, OnAir(hertz=100.0), receiver_noise=N0, noise_density=2 * N0)
    np.testing.assert_array_equal(spent.channel_uses, 2 * D * sends + 2)
    np.testing.assert_allclose(spent.air_seconds, (2 * D + 2 * K) / 200)
    np.testing.assert_allclose(spent.joules, told["energy"] + 0.4, rtol=1e-5)
    assert not sends.all() and (told["energy"][~sends] == 0).all()


def test_clients_join_and_are_chosen_by_what_they_know():
    draw = bernoulli(0.5, fading=moments("mmse")[2])
    assert draw.knowledge == round_robin(2, moments("mmse")[2]).knowledge is not None
    rotated = round_robin(2, moments("mmse")[2])
    who, _ = jax.jit(lambda: draw.apply(KEY, draw.init(KEY, K), jnp.int32(0), DATA.count))()
    few, _ = jax.jit(lambda: rotated.apply(KEY, (draw.init(KEY, K), ()), jnp.int32(1), DATA.count))()
    np.testing.assert_array_equal(few.client, [2, 3])
    np.testing.assert_array_equal(few.coefficient, who.coefficient[2:4])
    np.testing.assert_array_equal(few.gain, who.gain[2:4])


test_a_system_that_takes_gains_for_known_refuses_them = refuses(
    lambda make: jax.eval_shape(lambda: stepped(make(moments("mmse")[2]))),
    (lambda f: system(f, access="orthogonal"), "access must be 'multiple' where clients do not know their gains"),
    (lambda f: over_the_air_vote(towards_target(), fading=f, mesh=None), "channel must be true_gains"),
    (lambda f: two_tone_vote(towards_target(), fading=f, mesh=None), "channel must be true_gains"),
    (
        lambda f: digital_fedavg(towards_target(), num_params=D, cohort=bernoulli(1.0, fading=f), mesh=None),
        "channel must be true_gains",
    ),
    (
        lambda f: engine(cohort=bernoulli(1.0, fading=f), channel=multiple_access(), local=towards_target()),
        "channel must be true_gains",
    ),
)
