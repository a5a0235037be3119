"""Noise of the server on clipped sums: its figures stand their audit, and those of broken twins do not."""

import broken
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from audit.test_breaks import CONFIDENCE, DELTA, LOSS, PARAMS, TRIALS, run_of

from fedjax_priv.audit import Canary, Subject, direction_canary, findings, scores, two_worlds
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.base import ClientData, Draw
from fedjax_priv.clients import bounded_updates, everyone
from fedjax_priv.ledger import ledger
from fedjax_priv.server_noise import ServerNoise, sum_with_noise
from fedjax_priv.systems import dp_fedavg
from fedjax_priv.systems.central_noise import sampling
from fedjax_priv.theory import gaussian, sampled_gaussian

KEY, CLIENTS, ROUNDS, Z = jax.random.key(6), 3, 2, 5.0
CAUGHT = ("add/remove", "replacement")
BREAKS = {
    "sound": (), "none on one coordinate": CAUGHT, "the same every round": CAUGHT,
    "one draw for all coordinates": CAUGHT, "no clip": CAUGHT,
}  # fmt: skip
"""The kinds of neighbours whose figure is contradicted."""


def draw(key, state, d):
    frozen = jax.random.normal(broken.frozen_key(), (1, d))
    return broken.noise(jax.random.normal(key, (1, d)), frozen, broken.NOW["round"])[0], state


def in_ball(x, radius, real=bounded_updates.in_ball):
    y, good = real(x, radius)
    return broken.where("no clip", x, y), good


@pytest.fixture(scope="module", autouse=True)
def switches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_updates, "in_ball", in_ball)
        yield


@pytest.fixture(scope="module")
def known():
    noise = ServerNoise(lambda d: (), draw)
    make = lambda local, observe: dp_fedavg(
        local, num_clients=CLIENTS, noise_multiplier=Z, noise=noise, observe=observe, mesh=None, block=CLIENTS
    )
    local, data = sending(jnp.zeros((CLIENTS, PARAMS))), no_samples(CLIENTS)
    system = make(local, None)
    entries = [one for one in ledger(system, run_of(CLIENTS, ROUNDS), data, delta=DELTA) if one.view == "outsider"]
    return Subject(broken.rooted(make), local, LOSS, jnp.zeros(PARAMS), data, system.release), entries, {}


@pytest.mark.parametrize("broken_by", BREAKS)
def test_what_is_broken_is_contradicted_and_what_is_sound_is_not(broken_by, known, monkeypatch):
    subject, entries, cache = known
    broken.switched(monkeypatch, cache, list(BREAKS), broken_by)
    found = findings(subject, entries, KEY, trials=TRIALS, rounds=ROUNDS, delta=DELTA, confidence=CONFIDENCE)
    assert [one.neighbours for one in entries] == ["add/remove", "replacement"]
    assert tuple(e.neighbours for e, one in zip(entries, found, strict=True) if one.contradicts) == BREAKS[broken_by]
    assert all(one.limit > 1.5 * one.proved for one in found if one.proved is not None)


def only_with_samples():
    """A client without samples is not in the population."""
    draw = everyone()

    def apply(key, state, round, count):
        who, state = draw.apply(key, state, round, count)
        return who._replace(selected=jnp.asarray(count) > 0), state

    return Draw(draw.init, apply)


def absent_or_not(canary):
    """Client 0 sends minus what all others send, or is not there."""
    updates = jnp.broadcast_to(canary, (CLIENTS, canary.size)).at[0].multiply(-1)
    counts = jnp.ones((2, CLIENTS), jnp.int32).at[1, 0].set(0)
    data = lambda given: ClientData((jnp.zeros((CLIENTS, 1)),), given[1])
    inputs = tuple((updates, count) for count in counts)
    return Canary(inputs, lambda given: sending(given[0]), data, lambda params: canary)  # pyright: ignore


def of_the_number(noise, deviation, factor, real=sum_with_noise.noisy_sum):
    """A normaliser from the data: the sum and its noise are divided by the number that came."""
    sound = real(noise, deviation, factor)

    def apply(key, state, received):
        direction, state = sound.apply(key, state, received)
        return direction * CLIENTS / jnp.maximum(received.count.sum(), 1).astype(jnp.float32), state

    return sound._replace(apply=apply)


@pytest.mark.parametrize("divided_by", ["the expected number", "the number that came"])
def test_a_normaliser_from_the_data_halves_the_noise(divided_by, monkeypatch):
    """Whoever is absent moves the mean of three by 2/3 C, or the sum over three by C/3; the noise is z C/3."""
    from fedjax_priv.systems.central_noise import clipped_sum

    monkeypatch.setattr(sampling, "everyone", only_with_samples)
    if divided_by == "the number that came":
        monkeypatch.setattr(clipped_sum, "noisy_sum", of_the_number)
    make = lambda local, observe: dp_fedavg(
        local, num_clients=CLIENTS, noise_multiplier=1.0, observe=observe, mesh=None, block=CLIENTS
    )
    canary = absent_or_not(jnp.ones(4) / 2)
    worlds = scores(
        make, canary, lambda seen: seen.info.direction.sum() / 2, KEY, params=jnp.zeros(4), trials=20_000, at_once=1000
    )
    claimed, found = gaussian.epsilon(1e-3, 1.0), two_worlds(*worlds, delta=1e-3).epsilon
    assert (found > claimed) == (divided_by == "the number that came")
    gap, width = np.mean(worlds.second) - np.mean(worlds.first), np.std(worlds.first)
    assert gap / width == pytest.approx(2.0 if found > claimed else 1.0, abs=0.1)


@pytest.mark.parametrize("sampled", ["fixed size", "poisson"])
def test_cohorts_of_a_fixed_size_give_away_more_than_coins_of_the_same_rate(sampled):
    """All others send minus what client 0 sends, so that its place in the cohort counts twice (Lebeda et al. 2024)."""
    n, m, z, d = 6, 3, 0.8, 4
    how = {"cohort_size": m} if sampled == "fixed size" else {"sampling_rate": m / n}
    make = lambda local, observe: dp_fedavg(
        local, num_clients=n, noise_multiplier=z, observe=observe, mesh=None, block=n, **how
    )
    canary = direction_canary(KEY, n, d, 3.0, alone=sampled == "poisson", opposite=sampled == "fixed size")
    score = lambda seen: canary.toward(seen.before) @ seen.info.direction
    worlds = scores(make, canary, score, KEY, params=jnp.zeros(d), trials=20_000, at_once=1000)
    found = two_worlds(*worlds, delta=1e-3).epsilon
    own, other = (
        float(sampled_gaussian.epsilon(1e-3, [(sampled_gaussian.Round(z, m / n, how), 1)]))
        for how in ((sampled, "fixed size") if sampled == "poisson" else (sampled, "poisson"))
    )
    assert found < own
    assert (found > other) == (sampled == "fixed size")
