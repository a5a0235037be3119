"""Votes in whole rounds against their closed forms, what attackers can do, and what the ledger says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.attacks import mimic, sign_flip
from fedjax_priv.base import ClientData
from fedjax_priv.channels import constant, recorded
from fedjax_priv.clients import everyone
from fedjax_priv.ledger import ledger, planned
from fedjax_priv.ledger.entry import worst
from fedjax_priv.runs.failures import EveryRoundFailed
from fedjax_priv.runs.simulation import simulate
from fedjax_priv.systems import majority_vote, over_the_air_vote, two_tone_vote
from fedjax_priv.systems.over_the_air.truncated_draw import truncated
from fedjax_priv.theory import gaussian, votes
from fedjax_priv.theory.wireless import truncation_level
from helpers import targets, towards_target

KEY = jax.random.key(3)
AGAINST = lambda key, x, honest, byzantine: -jnp.ones_like(x)  # the truth is +


def voters(number, wrong, d=20_000):
    """Clients whose coordinates point up, but for random ones: `ClientData`; at w = 0 the update is -x."""
    down = np.random.default_rng(number).random((number, d)) < wrong
    return ClientData(jnp.asarray(np.where(down, 1.0, -1.0), jnp.float32), jnp.ones(number, jnp.int32))


def directions(system, data, rounds=1):
    """`[rounds, d]`: first rounds of so many runs."""
    return infos(system, data, rounds)[0]


def infos(system, data, rounds):
    """Directions `[rounds, d]`, and what is measured."""
    d = data.examples.shape[1]

    def one(key):
        info = system.step(key, system.init(key, jnp.zeros(d), data), data)[1]
        return info.direction, info.measured

    return jax.device_get(jax.jit(lambda: jax.lax.map(one, jax.random.split(KEY, rounds)))())


def agrees(found, exact):
    """Within 3 standard errors: of coordinates of a round, or of rounds whose coordinates share their gains."""
    wrong = (found < 0).mean(1)
    each = wrong.std(ddof=1) if len(wrong) > 1 else np.sqrt(exact * (1 - exact) * len(found) / found.size)
    return abs(wrong.mean() - exact) < 3 * each / np.sqrt(len(wrong))


def vote(**how):
    return over_the_air_vote(towards_target(), **{"truncation": 0.0, "fading": constant(0.5), "mesh": None} | how)


@pytest.mark.parametrize(("number", "wrong", "level", "digits"), [(10, 0.3, 1.0, 0.102533), (11, 0.3, 0.3, 0.165192)])
def test_a_round_of_aligned_votes_errs_as_often_as_predicted(number, wrong, level, digits):
    found = directions(vote(level=level), voters(number, wrong))
    assert set(np.unique(found)) == {-1.0, 1.0} and agrees(found, digits)
    assert not agrees(found, votes.vote_error(number, wrong, level) - _ties(number) / 2)  # a tie that counts as right


def _ties(number):
    return votes._number_wrong(number, 0.3)[number // 2] * (2 if number % 2 else 1)


def test_votes_through_rayleigh_fading_with_silent_clients():
    level = float(truncation_level(1.0, 0.2, energy_received=1.0))
    system = over_the_air_vote(towards_target(), level=level, truncation=0.2, mesh=None)
    assert agrees(directions(system, voters(20, 0.3, d=10_000), rounds=40), 0.0517777)


def test_who_is_just_strong_enough_votes():
    """`h^2 >= g`, as theory and `wireless` have it."""
    data, fading = voters(3, 0.3, d=9), recorded(np.array([[0.25, 0.5, 1.0]]))

    @jax.jit
    def votes_at(least):
        system = vote(truncation=least, fading=fading)
        return system.step(KEY, system.init(KEY, jnp.zeros(9), data), data)[1].measured["amplitude"]

    for least, sends in ((0.25, [0, 1, 1]), (0.0, [1, 1, 1]), (0.26, [0, 0, 1])):
        np.testing.assert_array_equal(votes_at(least), sends)


def test_nobody_inverts_a_gain_of_zero():
    draw = everyone()

    def faded(*args):
        who, state = draw.apply(*args)
        return who._replace(gain=jnp.array([0.0, 1e-30, 0.5])), state  # the second one squared is 0 in float32

    weak = truncated(draw._replace(apply=faded), 0.0)
    who, _ = weak.apply(KEY, weak.init(KEY, 3), jnp.int32(0), jnp.ones(3, jnp.int32))
    assert who.selected.tolist() == [False, False, True]


def test_energies_and_uses_of_the_channel_are_measured():
    """Clients below the threshold are silent; the others send c^2 d / h^2."""
    gain = np.array([[0.2, 0.5, 1.0, 2.0]])
    system = vote(level=0.7, truncation=0.2, fading=recorded(gain))
    data = voters(4, 0.3, d=9)
    _, info = jax.jit(system.step)(KEY, system.init(KEY, jnp.zeros(9), data), data)
    sends = gain[0] ** 2 > 0.2
    measured = {name: np.asarray(a) for name, a in info.measured.items()}
    np.testing.assert_allclose(measured["energy"], np.where(sends, 0.49 * 9 / gain[0] ** 2, 0), rtol=1e-6)
    np.testing.assert_array_equal(measured["channel_uses"], 9.0 * sends)
    np.testing.assert_array_equal(measured["amplitude"], sends)
    np.testing.assert_array_equal(measured["join_probability"], sends)
    assert (np.asarray(info.bits["upload"].up) == 0).all()


def test_byzantine_clients_that_vote_and_one_that_shouts():
    """Four votes, or one client at the amplitude of four: 0.260248. Without power to spare it has one vote."""
    four = directions(vote(num_byzantine=4, attack=AGAINST), _with(voters(16, 0.3), 4))
    of_one = lambda power: vote(num_byzantine=1, attack=AGAINST, byzantine_power=power)
    one = jax.jit(lambda power: first_direction(of_one(power), _with(voters(16, 0.3), 1)))
    loud, alone = (np.asarray(one(power)) for power in (64.0, 4.0))
    assert agrees(four, 0.260248) and agrees(loud, 0.260248)
    assert agrees(alone, votes.vote_error(16, 0.3, 1.0, against=1)) and not agrees(alone, 0.260248)


def first_direction(system, data):
    return system.step(KEY, system.init(KEY, jnp.zeros(data.examples.shape[1]), data), data)[1].direction[None]


def _with(data, byzantine):
    """Byzantine clients come first."""
    rows = jnp.concatenate([jnp.zeros((byzantine, data.examples.shape[1])), data.examples])
    return ClientData(rows, jnp.ones(len(rows), jnp.int32))


def test_two_tones_err_as_often_as_predicted():
    """Seven right, three wrong: 7 / 22, with gains that all coordinates of a round share."""
    rows = np.where(np.arange(10)[:, None] < 7, -1.0, 1.0) * np.ones((10, 60))
    data = ClientData(jnp.asarray(rows, jnp.float32), jnp.ones(10, jnp.int32))
    system = two_tone_vote(towards_target(), energy=2.0, receiver_noise=0.5, mesh=None)
    found, measured = infos(system, data, rounds=500)
    assert agrees(found, 7 / 22)
    assert not agrees(found, 8 / 22)
    np.testing.assert_allclose(measured["energy"], 120.0, rtol=1e-6)
    np.testing.assert_array_equal(measured["channel_uses"], np.full((500, 10), 240.0))


def test_the_majority_in_the_clear():
    """One bit a coordinate, whole steps, and 0 where it ties."""
    data = targets(6, 9)
    system = majority_vote(towards_target(), num_clients=6, mesh=None)
    _, info = jax.jit(system.step)(KEY, system.init(KEY, jnp.zeros(9), data), data)
    expected = np.sign(np.sign(-np.asarray(data.examples)).sum(0))
    np.testing.assert_array_equal(info.direction, expected)
    assert (expected == 0).any() and (np.asarray(info.bits["upload"].up) == 9).all()


FIVE, ROUNDS = targets(5, 9), 3
GAIN = np.full((ROUNDS, 5), 1.0)
GAIN[0, 1] = 0.1  # client 1 is silent in the first round


@functools.cache
def five():
    """Who sent: the same, whatever is sent."""
    system = vote(truncation=0.2, fading=recorded(GAIN))
    return planned(system, KEY, jnp.zeros(9), FIVE, ROUNDS)


def epsilons(**how):
    (entry,) = ledger(vote(truncation=0.2, fading=recorded(GAIN), **how), five(), FIVE, delta=1e-5)
    return entry


@pytest.mark.parametrize("attack", [None, mimic()])
def test_signs_that_attackers_may_copy_are_hidden_under_a_condition(attack):
    """Two copies of a client's signs move the sum by three times what the figure counts; own noise is in each copy."""
    how = {} if attack is None else {"attack": attack, "num_byzantine": 2}
    told = lambda text: text.endswith("; Byzantine clients know no other's update")
    assert told(epsilons(level=0.05, **how).proved.why) == (attack is not None)
    own = epsilons(level=10.0, clip=0.3, noise_variance=4.0, **how)
    assert own.proved.why.startswith("noise before the sign") and not told(own.proved.why)
    assert told(own.note) == (attack is not None)


def test_copies_of_a_clients_signs_are_in_the_sum_with_its_own():
    """Clients 0 and 1 copy the one that turns: of the honest votes, 2 or 1 of 5 are for what wins in the first sum."""
    turned = jnp.asarray([[1.0], [1.0], [1.0], [-1.0], [-1.0], [-1.0], [1.0]])
    data = ClientData(turned, jnp.ones(7, jnp.int32))
    copied = lambda key, x, honest, byzantine: jnp.broadcast_to(x[2], x.shape)
    found = [
        directions(vote(receiver_noise=0.0, num_byzantine=2, attack=copied), data._replace(examples=examples))
        for examples in (turned, turned.at[2].set(-1.0))
    ]
    assert found[0] == -found[1]


def test_the_ledger_has_the_smaller_of_two_figures():
    """s = 2 c sqrt(d / N0) for each round in which a client sent; own noise counts by 2 L / sigma, whatever c is."""
    quiet = epsilons(level=0.05, receiver_noise=2.0)
    s = 2 * 0.05 * np.sqrt(9 / 2.0)
    rounds = np.array([3, 2, 3, 3, 3])
    np.testing.assert_allclose(quiet.proved.epsilon, gaussian.epsilon(1e-5, s * np.sqrt(rounds)), rtol=1e-9)
    assert quiet.gaussian and quiet.proved.why.startswith("the receiver")
    noisy = {"clip": 0.3, "noise_variance": 4.0}
    loud = epsilons(level=10.0, **noisy)
    assert worst(loud.proved) == pytest.approx(gaussian.epsilon(1e-5, 0.3 * np.sqrt(3)))
    assert loud.proved.why.startswith("noise before the sign") and not loud.gaussian
    both = epsilons(level=0.05, receiver_noise=2.0, **noisy)
    assert worst(both.proved) == min(worst(quiet.proved), worst(loud.proved))
    assert quiet.note == "" and both.note.startswith("noise before the sign: eps ")
    assert epsilons(receiver_noise=0.0).proved.epsilon is None


def test_a_vote_that_does_not_count_was_heard_all_the_same():
    """In a round that fails the server has the sum of the signs, too."""
    data = targets(3, 9)
    broken = data._replace(examples=data.examples.at[0].set(jnp.nan))
    system = vote(truncation=0.2, fading=constant(), level=0.05)
    with pytest.warns(EveryRoundFailed):
        run = simulate(system, KEY, jnp.zeros(9), broken, rounds=2, progress=False)
    assert not run.counted.values.any() and (run.status.values != 0).all()
    (entry,) = ledger(system, run, broken, delta=1e-5)
    assert worst(entry.proved) == pytest.approx(gaussian.epsilon(1e-5, 2 * 0.05 * np.sqrt(9 * 2)))


def test_phases_that_nobody_knows_have_no_figure_but_that_of_own_noise():
    data = targets(5, 9)
    run = planned(two_tone_vote(towards_target(), mesh=None), KEY, jnp.zeros(9), data, 2)
    for noise, expected in (({}, None), ({"clip": 0.3, "noise_variance": 4.0}, gaussian.epsilon(1e-5, 0.3 * 2**0.5))):
        (entry,) = ledger(two_tone_vote(towards_target(), mesh=None, **noise), run, data, delta=1e-5)
        assert worst(entry.proved) == (expected if expected is None else pytest.approx(expected))


def test_updates_that_are_not_finite_fail_the_round():
    data = ClientData(jnp.asarray([[1.0, np.nan], [1.0, 2.0]], jnp.float32), jnp.ones(2, jnp.int32))
    system = majority_vote(towards_target(), num_clients=2, mesh=None)
    _, info = jax.jit(system.step)(KEY, system.init(KEY, jnp.zeros(2), data), data)
    assert np.asarray(info.counted).tolist() != [True, True]


test_bad_arguments = refused(
    ({"level": 0.0}, "level must be a finite number > 0"),
    ({"truncation": -1.0}, "truncation must be a finite number >= 0"),
    ({"byzantine_power": 0.0}, "byzantine_power must be a finite number > 0"),
    ({"noise_variance": 0.1}, "clip must be given with noise_variance"),
    ({"noise_variance": jnp.ones(3), "clip": 1.0}, "noise_variance must be a finite number >= 0, got Array"),
    ({"attack": sign_flip()}, "num_byzantine must be at least 1 with attack"),
    (
        {"attack": sign_flip(), "num_byzantine": np.zeros(3, bool)},
        "num_byzantine must be at least 1 with attack, got 0",
    ),
    ({"attack": sign_flip(), "num_byzantine": -1}, "num_byzantine must be an integer >= 0, got -1"),
    by=lambda how: over_the_air_vote(towards_target(), **how),
)
