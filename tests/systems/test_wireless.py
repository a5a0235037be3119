"""The estimate of the server against its law, what the server sees, and what breaks no guarantee."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv.base import ClientData
from fedjax_priv.channels import constant, recorded, rician
from fedjax_priv.clients import bernoulli, channel_aware
from fedjax_priv.status import Status
from fedjax_priv.systems import wireless
from fedjax_priv.theory.wireless import (
    Round,
    count_law,
    estimate_moments_known,
    estimate_moments_unknown,
    estimate_weights_known,
    estimate_weights_unknown,
)
from helpers import engine, refuses, towards_target

KEY = jax.random.key(11)
K, D, ROUNDS = 6, 4, 6000
CLIP, SIGMA2, N0 = 100.0, 0.5, 2.0
SPREAD = np.array([0.5, 0.1, 0.3, 0.45, 0.05, 0.2])
G = np.random.default_rng(5).normal(size=(K, D)) / 3
DATA = ClientData(jnp.asarray(-G, jnp.float32), jnp.arange(K) % D + 1)  # at w = 0 the update is -x_k


def system(**how):
    usual = dict(clip=CLIP, noise_variance=SIGMA2, receiver_noise=N0, server=optax.sgd(1.0), block=4, mesh=None)
    return wireless(towards_target(), **{**usual, **how})


@functools.partial(jax.jit, static_argnames=("access", "known_count"))
def drawn(numbers, access, known_count):
    """First rounds of many runs: `(estimates, senders, (view, measured, status))`."""
    one = system(**numbers, access=access, known_count=known_count, observe=lambda view: view)

    def round_of(key):
        _, info = one.step(key, one.init(key, jnp.zeros(D), DATA), DATA)
        return info.direction, (info.measured["amplitude"] > 0).sum(), (info.observed, info.measured, info.status)

    return jax.lax.map(round_of, jax.random.split(KEY, ROUNDS), batch_size=500)


def rounds_of(participation, access="multiple", known_count=True, *, clip=CLIP, variance=SIGMA2, receiver_noise=N0):
    numbers = {"clip": clip, "noise_variance": variance, "receiver_noise": receiver_noise}
    numbers = {name: jnp.float32(value) for name, value in numbers.items()}
    numbers["participation"] = jnp.broadcast_to(jnp.asarray(participation, jnp.float32), (K,))
    return drawn(numbers, access, known_count)


def estimates(*args, **how):
    found, senders, _ = rounds_of(*args, **how)
    return np.asarray(found, np.float64), np.asarray(senders)


def statuses(*args, **how):
    return np.unique(rounds_of(*args, **how)[2][2]).tolist()


def stepped(one):
    return one.step(KEY, one.init(KEY, jnp.zeros(D), DATA), DATA)


def first_round(one):
    return jax.jit(lambda: stepped(one))()


def within(sample, expected, errors=5.0):
    error = sample.std(0, ddof=1) / np.sqrt(len(sample))
    assert (np.abs(sample.mean(0) - expected) <= errors * error).all(), (sample.mean(0), expected, error)


@pytest.mark.parametrize("p", [0.3, 1.0])
@pytest.mark.parametrize("known", [True, False])
def test_estimate_has_its_mean_and_second_moment(p, known):
    found, senders = estimates(p, known_count=known)
    moments = (estimate_moments_known if known else estimate_moments_unknown)(Round(K, p, CLIP, SIGMA2, N0), G)
    within(found, moments.mean)
    within(np.square(found).sum(1), moments.second)
    np.testing.assert_allclose(moments.mean, G.mean(0), atol=1e-12)
    assert np.abs(np.bincount(senders, minlength=K + 1) / ROUNDS - count_law(K, p)).max() < 5 * 0.5 / np.sqrt(ROUNDS)


@pytest.mark.parametrize("known", [True, False])
def test_unequal_participation_weighs_clients_as_the_page_says(known):
    found, _ = estimates(SPREAD, known_count=known)
    weights = (estimate_weights_known if known else estimate_weights_unknown)(K, SPREAD)
    within(found, weights @ G)
    error = found.std(0, ddof=1) / np.sqrt(ROUNDS)
    assert (np.abs(weights @ G - G.mean(0)) > 5 * error).any()  # and not the plain mean


def test_orthogonal_links_add_a_noise_for_each_that_sends():
    p = 0.3
    found, _ = estimates(p, access="orthogonal", known_count=False)
    moments = estimate_moments_unknown(Round(K, p, CLIP, SIGMA2 + N0), G)
    within(found, moments.mean)
    within(np.square(found).sum(1), moments.second)


def test_an_empty_round_is_no_failure():
    """Known: the estimate is 0. Unknown: the receiver's noise over m."""
    for known in (True, False):
        found, senders = estimates(0.3, known_count=known)
        empty = found[senders == 0]
        assert len(empty) > 300
        if known:
            assert (empty == 0).all()
        else:
            within(np.square(empty).sum(1), D * N0 / (0.3 * K) ** 2)
    assert statuses(0.0) == [Status.OK] and (estimates(0.0)[0] == 0).all()


def test_noise_of_a_link_that_fixed_point_cannot_hold_fails_the_round():
    """On the air the noise is added behind the sum, and may be as large."""

    orthogonal = {"access": "orthogonal", "known_count": False}
    assert statuses(0.3, **orthogonal) == [Status.OK]
    for noise in (1e10, -1.0):
        _, senders, (_, _, status) = rounds_of(0.3, **orthogonal, receiver_noise=noise)
        failed = np.asarray(status) == Status.NOT_FINITE
        assert not failed[senders == 0].any() and failed[senders > 0].mean() > 0.99
    on_air = [statuses(1.0, receiver_noise=noise) for noise in (1e10, -1.0)]
    assert on_air == [[Status.OK], [Status.NOT_FINITE]]


def test_the_server_sees_the_sum_and_not_who_sent():
    for known in (True, False):
        _, senders, (view, _, _) = rounds_of(0.5, known_count=known)
        assert (view.uploads, view.alive) == ((), ())
        assert (view.public["align"]["participation"] == 0.5).all()
        assert view.public["align"]["gain"].shape == (ROUNDS, K)
        assert view.received.value.shape == (ROUNDS, 1, D)
        assert (np.asarray(view.received.count)[:, 0] == (np.asarray(senders) if known else 1)).all()
        assert len(np.unique(senders)) > 3
    _, senders, (view, _, _) = rounds_of(0.5, access="orthogonal", known_count=False)
    assert view.uploads.shape == (ROUNDS, K, D) and (np.asarray(view.alive).sum(1) == np.asarray(senders)).all()


def test_a_client_without_power_beside_its_noise_does_not_join():
    """h^2 P <= d sigma^2 under "signal": everybody knows, so its p_k is 0, and m counts the others only."""
    gain = np.array([[0.5, 1.0, 2.0, 0.1, 0.9, 1.5]])
    power = N0 * 10 ** (-6 / 10)
    one = system(snr_db=-6.0, power_control="signal", fading=recorded(gain), known_count=False)
    _, info = first_round(one)
    able = gain[0] ** 2 * power > SIGMA2
    assert 0 < able.sum() < K
    assert (np.asarray(info.measured["join_probability"]) == able).all()
    assert ((np.asarray(info.measured["amplitude"]) > 0) == able).all()


@pytest.mark.parametrize("control", ["gradient", "bound", "signal"])
def test_power_limits_what_is_received(control):
    """Eq. 26 with P_k / d = N0 10^(dB/10), and its two forms with a guarantee."""
    gain, clip = np.array([[0.6, 0.8, 1.0, 1.1, 0.9, 1.5]]), 0.5
    decibels = np.array([-3.0, -1.0, 0.0, -4.0, 2.0, -6.0]) - 13
    one = system(snr_db=decibels, power_control=control, fading=recorded(gain), clip=clip, noise_variance=0.01)
    _, info = first_round(one)
    budget, noise = gain[0] ** 2 * D * N0 * 10 ** (decibels / 10), D * 0.01
    norm = np.minimum(np.linalg.norm(G, axis=1), clip) if control == "gradient" else clip
    spent = np.sqrt(budget - noise) / clip if control == "signal" else np.sqrt(budget / (norm**2 + noise))
    expected = np.minimum(1, spent)
    assert (budget > noise).all() and len(np.unique(expected)) > 2
    np.testing.assert_allclose(info.measured["amplitude"], expected, rtol=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_participation_that_is_not_known_fails_the_round(known):
    assert statuses(-0.1, known_count=known) == [Status.NOT_FINITE]


def in_two_rounds(**how):
    one = system(**how)
    round_of = lambda state, _: one.step(KEY, state, DATA)
    infos = jax.lax.scan(round_of, one.init(KEY, jnp.zeros(D), DATA), length=2)[1]
    return infos.status & int(Status.NOT_FINITE) > 0


def test_a_threshold_or_gains_that_are_not_known_fail_the_round():
    """Gains are recorded for the first of two rounds only."""
    status = jax.jit(lambda value: in_two_rounds(threshold=value, fading=recorded(np.ones((1, K)))))
    assert status(2.0).tolist() == [False, True] and status(-1.0).tolist() == [True, True]


def test_participation_by_round_or_powers_that_are_not_known_fail_the_round():
    @jax.jit
    def status(value, power):
        return in_two_rounds(participation=lambda round: value, snr_db=power, power_control="signal")

    assert [status(*of).tolist() for of in ((0.5, 60.0), (1.5, 60.0), (0.5, jnp.nan))] == [[False] * 2] + 2 * [
        [True] * 2
    ]


def test_who_joins_tells_nothing_of_the_channel():
    """Coins are independent of the gains of this round and the next."""
    n = 20_000
    draw = bernoulli(0.5, fading=rician(correlation=0.0))
    apply = jax.jit(lambda key, state: draw.apply(key, state, jnp.int32(0), jnp.ones(n, jnp.int32)))
    first, state = apply(KEY, draw.init(KEY, n))
    second, _ = apply(jax.random.fold_in(KEY, 1), state)
    for who in (first, second):
        for gain in (first.gain, second.gain):
            assert abs(np.corrcoef(np.asarray(who.selected, float), gain)[0, 1]) < 5 / np.sqrt(n)


def test_channel_aware_sampling_prefers_good_channels():
    gain, rounds = np.array([[0.2, 0.5, 1.0, 1.9, 2.0, 5.0]]), 4000
    draw = channel_aware(2.0, recorded(gain))
    joins = jax.jit(jax.vmap(lambda key: draw.apply(key, (), jnp.int32(0), DATA.count)[0].selected))
    expected = np.minimum(1, gain[0] / 2)
    share = np.asarray(joins(jax.random.split(KEY, rounds))).mean(0)
    assert (np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / rounds)).all()
    _, info = first_round(system(threshold=2.0, fading=recorded(gain)))
    np.testing.assert_allclose(info.measured["join_probability"], expected, rtol=1e-6)


def test_participation_may_change_from_round_to_round():
    one = system(participation=lambda round: jnp.where(round == 0, 0.0, 1.0), known_count=True, fading=rician())
    step = jax.jit(one.step)
    state, info = step(KEY, one.init(KEY, jnp.zeros(D), DATA), DATA)
    first, gain = (info.measured["amplitude"] > 0).sum(), info.measured["gain"]
    _, info = step(KEY, state, DATA)
    assert (int(first), int((info.measured["amplitude"] > 0).sum())) == (0, K)
    assert (info.measured["gain"] != gain).all()


def test_numbers_that_a_sweep_varies_are_arguments_of_one_program():
    """More clients join at a higher probability, and without noise none sends more than its clip."""
    rounds_of(0.3)
    programs = drawn._cache_size()
    (_, few, (_, told, _)), (_, many, _) = (rounds_of(p, clip=0.1, variance=0.0) for p in (0.3, 0.9))
    assert (many >= few).all() and (many > few).any()
    received = lambda told: np.sqrt(told["energy"]) * told["gain"]
    assert (told["amplitude"] > 0).any() and received(told).max() <= 0.1 * (1 + 1e-5)
    assert received(rounds_of(0.3, clip=1.0, variance=0.0)[2][1]).max() > 0.2
    assert drawn._cache_size() == programs


test_bad_arguments = refuses(
    lambda how: system(**how),
    ({"participation": 0.5, "threshold": 2.0}, "participation must not be given with threshold, got 0.5"),
    ({"participation": 1.5}, r"participation must be a number in \[0, 1\], got 1.5"),
    ({"participation": 0.0}, r"participation must be in \[0, 1\], and above 0 for at least one client, got 0.0"),
    ({"participation": np.zeros(6)}, "participation must be .* above 0 for at least one client, got array"),
    ({"threshold": 0.0}, "threshold must be a finite number > 0, got 0.0"),
    ({"clip": -1.0}, "clip must be a finite number > 0, got -1.0"),
    ({"snr_db": np.inf}, r"snr_db must be a number of dB in \[-300, 300\], got inf"),
    ({"snr_db": 400.0}, r"snr_db must be a number of dB in \[-300, 300\], got 400.0"),
    ({"snr_db": 3.0, "receiver_noise": 0.0}, "receiver_noise must be a finite number > 0, got 0.0"),
    ({"noise_variance": -0.1}, "noise_variance must be a finite number >= 0, got"),
)


test_numbers_of_other_clients = refuses(
    lambda how: system(**how).init(KEY, jnp.zeros(D), DATA),
    ({"noise_variance": np.array([0.1, 0.2])}, "noise_variance must be a number, or one per client; shape"),
    ({"snr_db": np.ones(9)}, "snr_db must be a number, or one per client; shape"),
    ({"participation": np.array([0.5, 0.5])}, "participation must be a number, or one per client; shape"),
    ({"fading": constant(np.ones(2))}, "gain must be a number, or one per client; shape"),
)


def test_a_system_whose_layers_measure_nothing_says_so():
    one = engine()
    _, info = first_round(one)
    assert info.measured == {}


def test_who_is_just_strong_enough_sends():
    """`h^2 >= g`, as theory has it: a threshold at the weakest gain silences nobody."""

    @jax.jit
    def sends(gains):
        return stepped(system(fading=constant(gains), truncation=1.0))[1].measured["amplitude"] > 0

    assert sends(jnp.ones(K)).all()
    assert sends(jnp.array([1.0, 0.9, 1.1, 1.0, 0.5, 2.0])).tolist() == [True, False, True, True, False, True]
