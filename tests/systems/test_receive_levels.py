"""Levels at which clients are received: what they change, what they do not, and who sends."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_priv.base import ClientData
from fedjax_priv.channels import recorded, rician
from fedjax_priv.layers import planned_levels, weakest, within_budget
from fedjax_priv.status import Status
from fedjax_priv.systems import wireless
from helpers import refuses, towards_target

KEY = jax.random.key(3)
K, D, ROUNDS = 6, 4, 3
G = np.random.default_rng(5).normal(size=(K, D)) / 3
DATA = ClientData(jnp.asarray(-G, jnp.float32), jnp.arange(K) + 1)
GAIN = np.random.default_rng(1).uniform(0.3, 1.5, size=(ROUNDS, K))


def rounds_of(rounds=ROUNDS, **how):
    """`(directions, measured)` of some rounds from 0, where the update of client k is `-G_k`."""
    usual = dict(clip=0.5, noise_variance=0.01, receiver_noise=0.7, fading=recorded(GAIN), block=4, mesh=None)
    one = wireless(towards_target(), **{**usual, "server": optax.sgd(0.0), **how})
    state = one.init(KEY, jnp.zeros(D), DATA)
    _, info = jax.lax.scan(lambda state, _: one.step(KEY, state, DATA), state, length=rounds)
    return info.direction, info.measured, info.status


@functools.partial(jax.jit, static_argnames=("power_control", "access"))
def at_level(level, noise, power_control, access="multiple"):
    """Sixteen dB below the energy that everybody would need, less than which some have."""
    decibels = None if access == "orthogonal" else jnp.linspace(-16.0, -10.0, K)
    return rounds_of(
        level=level, receiver_noise=noise, power_control=power_control, snr_db=decibels, participation=0.8,
        access=access, noise_variance=3e-3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("control", "access"),
    [("gradient", "multiple"), ("signal", "multiple"), ("gradient", "orthogonal")],
)
def test_a_level_is_the_same_as_less_noise_and_more_power(control, access):
    """Level c, N0, P against level 1, N0 / c^2, P / c^2: alike but for energies, which differ by c^2."""
    c = 0.6
    low, told, status = at_level(c, 0.7, control, access)
    high, same, _ = at_level(1.0, 0.7 / c**2, control, access)
    assert (status == 0).all() and (told["level"] == np.float32(c)).all()
    np.testing.assert_allclose(low, high, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(told["amplitude"], same["amplitude"], rtol=1e-5)
    np.testing.assert_allclose(told["energy"], c**2 * np.asarray(same["energy"]), rtol=1e-4)
    np.testing.assert_array_equal(told["join_probability"], same["join_probability"])
    if access == "multiple":
        assert ((told["amplitude"] > 0) & (told["amplitude"] < 1)).sum() > 0
    other, *_ = at_level(c, 0.7 / c**2, control, access)
    assert np.abs(other - high).max() > 0.01  # the noise has to change with the level


def test_a_level_of_one_is_the_system_without():
    plain, told, _ = jax.jit(lambda: at_level.__wrapped__(1, 0.7, "gradient"))()
    level, same, _ = at_level(1.0, 0.7, "gradient")
    np.testing.assert_allclose(plain, level, rtol=1e-5, atol=1e-6)
    assert "level" not in told and (same["level"] == 1).all()


def test_everybody_reaches_the_weakest_level_and_no_higher_one():
    """Under the power limit that the level is made for, nobody is limited, and the level is not that of the senders."""
    decibels, noise, variance = jnp.linspace(-12.0, -6.0, K), 0.7, 0.01
    power = np.asarray(noise * 10 ** (decibels / 10))
    lowest = weakest(power, max_norm=0.5, noise_variance=variance, num_params=D)
    how = dict(snr_db=decibels, power_control="bound")

    @jax.jit
    def at(factor, p):
        return rounds_of(level=lambda r, h: factor * lowest(r, h), participation=p, **how)

    _, told, status = at(1.0, 0.5)
    expected = (GAIN * np.sqrt(power * D)).min(1) / np.sqrt(0.5**2 + D * variance)
    np.testing.assert_allclose(told["level"], np.broadcast_to(expected[:, None], (ROUNDS, K)), rtol=1e-5)
    sent = told["amplitude"] > 0
    assert (status == 0).all() and 0 < sent.sum() < sent.size
    np.testing.assert_allclose(told["amplitude"][sent], 1, rtol=1e-6)
    _, above, _ = at(1.05, 1.0)
    assert (above["amplitude"].min(1) < 0.96).all()


def test_weak_channels_do_not_send_and_the_server_divides_by_who_does():
    least, c, count = 0.36, 0.5, 4.5
    there = least < GAIN**2
    assert 0 < there.sum() < there.size
    how = dict(truncation=least, level=c, noise_variance=0.0, receiver_noise=0.0, clip=100.0)
    found, told, _ = jax.jit(lambda: rounds_of(**how))()
    np.testing.assert_array_equal(told["amplitude"] > 0, there)
    np.testing.assert_array_equal(told["join_probability"], there.astype(np.float32))
    mean = there @ G / there.sum(1, keepdims=True)
    found = np.asarray(found)
    np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-6)
    fixed, *_ = jax.jit(lambda: rounds_of(**how, known_count=False, expected_count=count))()
    np.testing.assert_allclose(fixed, there @ G / count, rtol=1e-5, atol=1e-6)
    assert np.abs(found - G.mean(0)).max() > 0.01


def test_who_has_power_left_depends_on_the_level():
    """Under "signal", h^2 P / (d c^2) has to exceed sigma^2: 0.07 at level 1, 0.28 at level 1/2, against 0.1."""
    for level, joins in ((1.0, 0), (0.5, 1)):
        one = wireless(
            towards_target(), noise_variance=0.1, receiver_noise=0.7, snr_db=-10.0, power_control="signal",
            level=level, fading=recorded(np.ones((1, K))), mesh=None,
        )  # fmt: skip
        who, _ = jax.jit(lambda one=one: one.draw(KEY, (), jnp.int32(0), DATA.count))()
        assert (who.participation == joins).all() and (who.selected == bool(joins)).all()


def test_a_threshold_for_all_is_unfair_to_users_far_away():
    """Two groups 28 dB apart: a threshold of each group's own weighs them alike, one for both does not."""
    rounds, loss = 3000, 10 ** (-np.where(np.arange(K) < K // 2, 28.0, 0.0) / 10)
    rng = np.random.default_rng(2)
    gains = np.sqrt(rng.exponential(size=(rounds, K)) * loss)

    @jax.jit
    def shares(least):
        _, told, _ = rounds_of(rounds, fading=recorded(gains), truncation=least)
        return (told["amplitude"] > 0).mean(0)

    g = 0.610058
    own, common = shares(jnp.asarray(g * loss, jnp.float32)), shares(jnp.full(K, np.float32(g * loss.mean())))
    sends, spread = np.exp(-g), 5 * 0.5 / np.sqrt(rounds)
    assert np.abs(own - sends).max() < spread
    assert (np.abs(common - sends) > spread).all() and common[: K // 2].max() < 0.01 < common[K // 2 :].min()


@pytest.mark.parametrize("known", [True, False])
def test_nobody_sends_once_a_budget_of_levels_is_spent(known):
    """Two rounds of 0.36, and no third: the model stays, even if an optimizer remembers; coins are tossed as before."""
    usual = dict(
        clip=0.5, noise_variance=0.01, receiver_noise=0.7, fading=recorded(GAIN), participation=0.9, mesh=None,
        known_count=known,
    )  # fmt: skip

    @jax.jit
    def models(budget):
        one = wireless(towards_target(), **usual, level=within_budget(0.6, budget), server=optax.sgd(0.1, 0.9))

        def step(state, _):
            state, info = one.step(KEY, state, DATA)
            return state, (state.params, info.measured, info.status, info.counted)

        return jax.lax.scan(step, one.init(KEY, jnp.zeros(D), DATA), length=ROUNDS)[1]

    params, told, status, counted = models(0.8)
    assert (status != 0).tolist() == [False, False, True] and (params[1] != params[0]).all()
    np.testing.assert_array_equal(params[2], params[1])
    np.testing.assert_allclose(told["level"][:2], 0.6, rtol=1e-6)
    assert (told["join_probability"][2] == 0).all() and not counted[2].any() and (told["energy"][2] == 0).all()
    more, _, fine, whole = models(1.2)
    assert (fine == 0).all() and (more[2] != params[2]).all()
    np.testing.assert_array_equal(more[:2], params[:2])
    np.testing.assert_array_equal(whole[:2], counted[:2])


def test_planned_levels_keep_the_energy_of_every_user_within_its_budget():
    """With the caps of power, in blocks; the sum of energies reaches the limit for the weakest user at most."""
    power, energy = 0.3, 0.9
    lowest = weakest(power, max_norm=0.5, noise_variance=0.0, num_params=D)
    how = dict(noise_variance=0.0, snr_db=float(10 * np.log10(power / 0.7)), clip=0.5)

    @jax.jit
    def spent(budget):
        levels = planned_levels(
            np.array([0.5, 0.7, 1.0]), budget, max_norm=0.5, energy=energy, expected_inverse=3.0, at_most=lowest
        )
        return rounds_of(level=levels, **how)

    _, told, status = spent(100.0)
    assert (status == 0).all() and (told["amplitude"] > 1 - 1e-5).all()
    most = np.asarray(told["level"][:, 0]) ** 2 @ (0.25 / GAIN.min(1) ** 2)
    assert told["energy"].sum(0).max() <= most <= energy and most > 0.5 * energy
    assert (np.asarray(told["level"][:, 0]) <= (GAIN * np.sqrt(power * D)).min(1) / 0.5 * (1 + 1e-6)).all()
    _, less, _ = spent(0.01)
    assert (np.asarray(less["level"][:, 0]) ** 2).sum() == pytest.approx(0.01, rel=1e-3)


def test_a_level_that_is_none_fails_the_round():
    *_, status = jax.jit(lambda: rounds_of(level=lambda round, gain: 1.5 - round.astype(jnp.float32)))()
    assert (status & int(Status.NOT_FINITE) != 0).tolist() == [False, False, True]
    assert (at_level(-1.0, 0.7, "gradient")[2] & int(Status.NOT_FINITE) != 0).all()


test_bad_arguments = refuses(
    lambda how: jax.eval_shape(lambda: rounds_of(**how)),
    ({"level": 0.0}, "level must be a finite number > 0, got 0.0"),
    ({"level": lambda gain: gain}, r"level must be a function of \(round, gain\)"),
    ({"level": lambda round, gain: gain}, "level must be one number for all clients of a round, got shape"),
    ({"truncation": -0.1}, "truncation must be a finite number > 0, got -0.1"),
    ({"truncation": np.ones(K + 1)}, "truncation must be a number, or one per client"),
    ({"expected_count": 2.0}, "expected_count must be None where known_count is True, got 2.0"),
    ({"expected_count": -2.0, "known_count": False}, "expected_count must be a finite number > 0, got -2.0"),
    ({"level": weakest, "fading": rician()}, r"level must be a function of \(round, gain\)"),
)


test_bad_powers = refuses(
    lambda how: weakest(**{"power": 1.0, "max_norm": 1.0, "noise_variance": 0.1, "num_params": 3, **how}),
    ({"power": 0.0}, "power must be a finite number > 0, got 0.0"),
    ({"noise_variance": -1.0}, "noise_variance must be a finite number >= 0, got -1.0"),
    ({"num_params": 0}, "num_params must be an integer >= 1, got 0"),
)


def test_the_level_of_a_model_of_more_numbers_than_an_int32():
    """`h sqrt(d P) / sqrt(L^2 + d sigma^2)`, about `h sqrt(P) / sigma`."""
    level = weakest(4.0, max_norm=1.0, noise_variance=0.25, num_params=2**31)
    assert float(level(jnp.array(0), jnp.array([0.5, 2.0]))) == pytest.approx(2.0, rel=1e-6)
