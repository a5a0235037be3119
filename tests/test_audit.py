"""The auditor, audited: from below on mechanisms whose eps is known, and above the claim of broken ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.audit import direction_canary, one_run, one_run_p_value, scores, two_worlds
from fedjax_priv.channels import constant
from fedjax_priv.systems import wireless
from fedjax_priv.theory import gaussian
from fedjax_priv.theory.wireless import rigorous_epsilon

KEY = jax.random.key(21)
DELTA, TRIALS = 1e-3, 60_000


def gaussian_worlds(sensitivity, trials=TRIALS, seed=0):
    noise = np.random.default_rng(seed).normal(size=(2, trials))
    return noise[0] + sensitivity, noise[1]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_gaussian_mechanism_is_met_from_below(epsilon):
    """The exact sensitivity for this eps; the bound lies within a factor of 2.5."""
    grid = np.linspace(0.05, 3, 2000)
    sensitivity = grid[np.argmin(np.abs(gaussian.epsilon(DELTA, grid) - epsilon))]
    found = two_worlds(*gaussian_worlds(sensitivity), delta=DELTA)
    assert epsilon / 2.5 < found.epsilon < epsilon
    swapped = two_worlds(*gaussian_worlds(sensitivity)[::-1], delta=DELTA)
    assert epsilon / 2.5 < swapped.epsilon < epsilon
    broken = two_worlds(*gaussian_worlds(2 * sensitivity), delta=DELTA)  # half the noise
    assert broken.epsilon > epsilon


def test_bounds_hold_as_often_as_they_say():
    """Of 200 audits of a mechanism with eps = 0 at most 5% may be above it."""
    above = [two_worlds(*gaussian_worlds(0.0, 400, seed), confidence=0.95).epsilon > 0 for seed in range(200)]
    assert sum(above) <= stats.binom(200, 0.05).ppf(0.9999)


def test_worlds_that_never_meet():
    found = two_worlds(np.ones(1000), np.zeros(1000), confidence=0.9)
    low = 0.05 ** (1 / 500)  # Clopper and Pearson's where all of 500 are hits
    assert found.epsilon == pytest.approx(np.log(low / (1 - low)), rel=1e-6)
    assert found.why == "500 of 500 against 0 of 500 runs"


def randomised_response(epsilon, canaries, seed):
    rng = np.random.default_rng(seed)
    included = rng.random(canaries) < 0.5
    truth = rng.random(canaries) < 1 / (1 + np.exp(-epsilon))
    return np.where(truth == included, 1.0, 0.0) + 1e-3 * rng.random(canaries), included


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_run_of_randomised_response(epsilon):
    """The mechanism the theorem is tight for."""
    found = one_run(*randomised_response(epsilon, 4000, 0), guesses=4000)
    assert 0.75 * epsilon < found.epsilon < epsilon
    assert one_run(*randomised_response(2 * epsilon, 4000, 0), guesses=4000).epsilon > epsilon


def test_p_value_without_delta_is_a_binomial_tail_and_grows_with_delta():
    p = one_run_p_value(70, 100, 200, 0.4, 0.0)
    assert p == pytest.approx(stats.binom(100, np.exp(0.4) / (1 + np.exp(0.4))).sf(69))
    assert p < one_run_p_value(70, 100, 200, 0.4, 1e-5) < one_run_p_value(70, 100, 200, 0.4, 1e-3)
    assert one_run_p_value(0, 100, 200, 0.4, 0.0) == 1.0
    assert one_run_p_value(70, 100, 200, 0.4, 1.0) == 1.0


USERS, PARAMS, CLIP, NOISE, P, N0 = 5, 3, 1.0, 1.0, 0.8, 0.5


def audited(noise=NOISE, clip=CLIP, participation=P):
    u, _ = direction_canary(KEY, USERS, PARAMS, 1.0)
    make = lambda local, observe: wireless(
        local, clip=clip, noise_variance=noise, receiver_noise=N0, participation=participation, fading=constant(),
        observe=observe, mesh=None,
    )  # fmt: skip
    worlds = scores(
        make, direction_canary(KEY, USERS, PARAMS, 3.0 * CLIP), lambda view: view.received.value[0] @ u[0], KEY,
        trials=20_000, at_once=1000,
    )  # fmt: skip
    return two_worlds(*worlds, delta=DELTA).epsilon


def test_a_system_stands_its_audit_and_a_broken_one_does_not():
    """The claim is the exact figure of the channel; noise cut to a ninth, or clipping left out, is caught."""
    claimed = rigorous_epsilon(
        DELTA, num_users=USERS, participation=P, clip=CLIP, noise_variance=NOISE, receiver_noise=N0
    )
    assert claimed / 4 < audited() < claimed
    assert audited(noise=NOISE / 9) > claimed
    assert audited(clip=100.0) > claimed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: two_worlds(np.zeros(3), np.zeros(9)), "first must be at least 4 finite scores, got"),
        (lambda: two_worlds(np.zeros(9), np.full(9, np.nan)), "second must be at least 4 finite scores, got"),
        (lambda: two_worlds(np.zeros(9), np.zeros(9), delta=1.0), r"delta must be a number in \[0, 1\), got 1.0"),
        (lambda: two_worlds(np.zeros(9), np.zeros(9), confidence=0.0), r"confidence must be a number in \(0, 1\)"),
        (lambda: one_run(np.zeros(9), np.zeros(9), guesses=2), "included must be bool"),
        (lambda: one_run(np.zeros(9), np.zeros(9, bool), guesses=3), "guesses must be an even number up to 9, got 3"),
        (lambda: direction_canary(KEY, 0, 3, 1.0), "num_clients must be an integer >= 1, got 0"),
        (
            lambda: scores(lambda *_: None, (jnp.zeros((2, 3)), jnp.zeros((3, 3))), lambda view: 0, KEY, trials=9),
            "updates must be two tables of one shape",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
