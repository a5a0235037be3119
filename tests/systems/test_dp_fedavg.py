"""DP-FedAvg against NumPy: clipped, weighted sums over a public number, and noise whoever comes."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refused

from fedjax_priv.base import Local
from fedjax_priv.server_noise import ServerNoise
from fedjax_priv.server_noise.sum_with_noise import FLOAT32_CAVEAT
from fedjax_priv.status import Status
from fedjax_priv.systems import dp_fedavg, fedavg
from fedjax_priv.systems.central_noise.split_noise import split_noise
from helpers import Q, one_round, remembering, rounds_of, same_bits, targets, towards_target

KEY = jax.random.key(8)
N, D = 6, 5
DATA = targets(N, D)
COUNT = np.asarray(DATA.count)


def made(local=None, **how):
    local = towards_target() if local is None else local
    return dp_fedavg(local, **{"num_clients": N, "clip": 1.5, "noise_multiplier": 0.0, "mesh": None, "block": 4} | how)


def summed(data=DATA, who=None, weight=None, clip=1.5):
    """The clipped sum over `who` in float64, at parameters 0, where the update is minus the target."""
    update = -np.asarray(data.examples, np.float64) * (1 if weight is None else weight[:, None])
    norm = np.linalg.norm(update, axis=1, keepdims=True)
    clipped = update * np.minimum(1, clip / norm)
    assert (norm > clip).any() and (norm < clip).any()
    return clipped[np.arange(N) if who is None else who].sum(0)


SAMPLED = {
    "everyone": ({}, N), "poisson": ({"sampling_rate": 0.4}, 0.4 * N), "fixed size": ({"cohort_size": 4}, 4),
    "cyclic": ({"sampling_rate": 0.7, "separation": 2}, 0.7 * N / 2), "apart": ({"cohort_size": 2, "separation": 3}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLED)
def test_the_sum_is_divided_by_the_expected_number(name):
    """Over several rounds, in which not the same number comes; the control divides by the number that came."""
    how, expected = SAMPLED[name]
    states, infos = rounds_of(made(server=optax.sgd(0.0), **how), KEY, jnp.zeros(D), DATA, 8)
    came = np.asarray(infos.counted)
    assert not np.asarray(infos.status).any() and not np.asarray(states.params).any()
    sums = np.stack([summed(who=who[here]) for who, here in zip(np.asarray(infos.client), came, strict=True)])
    np.testing.assert_allclose(infos.direction, sums / expected, atol=2e-6)
    number = came.sum(1)
    assert (len(set(number)) > 1) == ("sampling_rate" in how)
    if "sampling_rate" in how:
        by_number = sums / np.maximum(number, 1)[:, None]
        assert np.abs(infos.direction - by_number).max() > 1e-2


def test_weights_are_capped_and_their_mean_is_public():
    cap, mean = 4.0, 0.7
    assert (cap < COUNT).any() and (cap > COUNT).any()
    _, _, info = one_round(made(weight_cap=cap, mean_weight=mean), DATA)
    expected = summed(weight=np.minimum(COUNT / cap, 1)) / (mean * N)
    np.testing.assert_allclose(info.direction, expected, atol=2e-6)


@pytest.fixture(scope="module")
def noisy():
    """Directions of rounds with updates of 0 in which mostly nobody comes."""
    silent = Local(lambda n, params: (), lambda key, m, params, data, who: (0 * data.examples, m, data.examples[:, 0]))
    system = made(silent, noise_multiplier=1.3, sampling_rate=0.05, server=optax.sgd(0.0))
    wide = targets(N, 400)
    return rounds_of(system, KEY, jnp.zeros(400), wide, 40)[1]


def test_noise_has_the_deviation_that_is_stated_whoever_comes(noisy):
    number = np.asarray(noisy.counted).sum(1)
    assert {0, 1} <= set(number) and not np.asarray(noisy.status).any()
    scaled = np.asarray(noisy.direction) * (0.05 * N) / (1.3 * 1.5)
    for here in (number == 0, number > 0):
        assert abs(np.square(scaled[here]).mean() - 1) < 5 * np.sqrt(2 / scaled[here].size)


def test_noise_is_fresh_in_every_round(noisy):
    """The control is the correlation of a round with itself."""
    related = np.corrcoef(noisy.direction)
    assert np.abs(related - np.eye(len(related))).max() < 6 / np.sqrt(400)


BAD = {"NaN": jnp.nan, "infinite": jnp.inf, "too long": 3e38}


def with_bad(value):
    return DATA._replace(examples=DATA.examples.at[2].set(value))


@functools.cache
def first_round(secure=False):
    """`(data, key) -> (state, info)`."""
    how = {"secure": True, "elide": True, "observe": lambda view: view.uploads} if secure else {}
    system = made(remembering(), **how)
    return jax.jit(lambda data, key=KEY: system.step(key, system.init(key, jnp.zeros(D), data), data))


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_an_update_that_cannot_be_clipped_counts_as_nothing(secure):
    """Nor does its client's memory move."""
    for value in BAD.values():
        after, info = first_round(secure)(with_bad(value))
        assert int(info.status) == 0 and np.isfinite(info.loss).all()
        assert after.memory.tolist() == [1, 1, 0, 1, 1, 1]
        np.testing.assert_allclose(info.direction, summed(who=np.delete(np.arange(N), 2)) / N, atol=1e-5)


def test_a_long_update_is_clipped():
    _, info = first_round()(with_bad(1e15))
    expected = summed(who=np.delete(np.arange(N), 2)) - 1.5 / np.sqrt(D)
    np.testing.assert_allclose(info.direction, expected / N, atol=1e-5)


def test_without_a_bound_such_an_update_fails_the_round():
    run = jax.jit(fedavg(towards_target(), mesh=None).step)
    begun = fedavg(towards_target(), mesh=None).init(KEY, jnp.zeros(D), DATA)
    assert all(int(run(KEY, begun, with_bad(value))[1].status) for value in BAD.values())


def test_a_loss_that_is_not_finite_fails_no_round():
    loss = towards_target()._replace(
        apply=lambda key, m, p, data, who: (-data.examples, m, jnp.full(who.client.shape, jnp.nan))
    )
    _, _, info = one_round(made(loss), DATA)
    assert int(info.status) == 0 and not info.loss.any()
    np.testing.assert_allclose(info.direction, summed() / N, atol=2e-6)


def test_a_lost_client_is_one_that_was_not_sampled():
    _, _, info = one_round(made(dropout=0.5), DATA)
    assert 0 < info.counted.sum() < N
    np.testing.assert_allclose(info.direction, summed(who=np.flatnonzero(info.counted)) / N, atol=2e-6)


def test_a_secure_sum_is_that_of_rounded_updates_and_one_that_is_not_opened_is_empty():
    (_, plain), (_, secure) = (first_round(secure)(DATA) for secure in (False, True))
    assert int(secure.status) == 0 and 0 < np.abs(secure.direction - plain.direction).max() < 1e-5
    _, after, closed = one_round(made(remembering(), secure=True, sampling_rate=0.6, threshold=6, elide=True), DATA)
    assert int(closed.status) == 0 and not closed.direction.any() and not closed.counted.any()
    assert int(closed.group_status[0]) == Status.NOT_RECOVERED and not after.memory.any()


def in_the_ball(rows, bit):
    """In integers, of which a secure sum has 2^20 per clipping norm; all updates are clipped, and nearly as long."""
    squared = (((rows.astype(np.int64) + Q // 2) % Q - Q // 2) ** 2).sum(-1) / 2.0**40 - (1 + bit**2 / 4)
    assert squared.size == 10 * N and squared.max() <= 0
    assert squared.min() > -20 * np.sqrt(D) / 2**20


def test_an_upload_is_in_the_ball_once_it_is_rounded():
    long = DATA._replace(examples=150 * DATA.examples)
    keys = jax.random.split(KEY, 10)
    in_the_ball(np.stack([first_round(secure=True)(long, key)[1].observed for key in keys]), 0.0)


def test_an_upload_of_an_adaptive_norm_is_in_the_ball_once_it_is_rounded():
    how = {"clip_quantile": 0.5, "count_noise": 1.0, "noise_multiplier": 1.0}
    seen = made(secure=True, elide=True, clip=0.01, observe=lambda view: view.uploads, **how)
    rows = np.asarray(rounds_of(seen, KEY, jnp.zeros(D), DATA, 10)[1].observed)
    in_the_ball(rows, split_noise(1.0, 1.0).bit)


def reached(num_clients, rate):
    """The quantile of one in a million of the number of clients, by exact fractions."""
    below = itertools.accumulate(
        math.comb(num_clients, k) * rate**k * (1 - rate) ** (num_clients - k) for k in range(num_clients + 1)
    )
    return next(number for number, probability in enumerate(below) if probability >= Fraction(1, 10**6))


FEW, MANY = {"num_clients": 100, "sampling_rate": 0.1}, {"num_clients": 1000, "sampling_rate": 0.1}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (FEW, 6),  # of 10 expected
        (FEW | {"neighbours": 8}, 5),  # the majority of a client's holders
        (FEW | {"threshold": 9}, 9),
        (FEW | {"consistency": True}, 21),  # no two lists can be signed by so many of 40
        (FEW | {"capacity": 10}, 6),
        (MANY, reached(1000, Fraction(1, 10))),
        (MANY | {"sampling_rate": 0.3, "dropout": 0.1, "leave": 0.1}, reached(1000, Fraction(243, 1000))),
        (MANY | {"dropout": 0.6}, 51),
        ({"num_clients": 1000, "sampling_rate": 0.2, "separation": 2}, reached(500, Fraction(1, 5))),
        ({"num_clients": 5, "sampling_rate": 1.0}, 3),
        ({"num_clients": 50, "sampling_rate": 0.02}, 2),
        ({"num_clients": 50, "cohort_size": 20}, 11),
    ],
)
def test_the_threshold_of_a_secure_sum_is_one_that_rounds_reach(how, expected):
    """What nearly all rounds reach, a majority of those expected at least, and of those that may come at most."""
    assert made(secure=True, elide=True, **how).release.masks.quorum.threshold == expected


def test_secure_sums_of_few_clients_that_come_by_coins_are_opened():
    """100 clients at rate 0.1: as often as 6 or more come. A majority of the capacity comes in one round of 1,000."""
    rounds, system = 2000, made(secure=True, elide=True, **FEW)
    come = lambda number: system.draw(KEY, (), number, jnp.ones(100, jnp.int32))[0].selected.sum()
    number = np.asarray(jax.jit(jax.vmap(come))(jnp.arange(rounds)))
    protocol = system.release.masks.quorum
    opened = number >= protocol.threshold
    likely = 1 - sum(math.comb(100, k) * 0.1**k * 0.9 ** (100 - k) for k in range(6))
    assert 0.94 < likely < 0.95 and abs(opened.mean() - likely) < 4 * np.sqrt(likely * (1 - likely) / rounds)
    assert (number > protocol.group_size / 2).mean() < 0.01


@pytest.mark.parametrize(("name", "secure"), [("dropout", False), ("dropout", True), ("leave", True)])
def test_a_loss_that_is_traced_and_out_of_range_fails_the_round(name, secure):
    """All uploads are lost then, and noise alone would be a round like any other."""

    def status(chance):
        system = made(noise_multiplier=1.0, secure=secure, **{name: chance})
        return system.step(KEY, system.init(KEY, jnp.zeros(D), DATA), DATA)[1].status

    found = [int(jax.jit(status)(chance)) for chance in (0.1, 1.0, -0.1, jnp.nan)]
    assert found == [0, *[Status.NOT_FINITE] * 3]


def test_noise_of_a_round_that_failed_is_not_drawn_again():
    counting = ServerNoise(lambda d: jnp.int32(0), lambda key, state, d: (jnp.full(d, state, jnp.float32), state + 1))
    broken = optax.GradientTransformation(lambda p: (), lambda g, s, p=None: (jnp.nan * g, s))
    system = made(noise=counting, noise_multiplier=1.0, server=broken)
    before, after, info = one_round(system, DATA)
    assert int(info.status) == Status.NOT_FINITE and int(after.aggregate) == 1
    assert same_bits(after, before._replace(round=before.round + 1, aggregate=after.aggregate))
    _, again = jax.jit(system.step)(KEY, after, DATA)
    np.testing.assert_allclose(again.direction - info.direction, 1.5 / N, rtol=1e-5)


def test_what_it_states_of_itself():
    said = made(noise_multiplier=1.1, sampling_rate=0.5, capacity=4).release
    assert said[:2] == (1.1, 1.5) and said.population == N and not said.secure and said.correlation is None
    assert tuple(said.participation) == ("poisson", 0.5, 1, 4)
    assert tuple(made(cohort_size=3).release.participation) == ("fixed_size", 0.5, 1, None)
    assert tuple(made(cohort_size=2, separation=3).release.participation) == ("separated", 1 / 3, 3, None)
    assert made(sampling_rate=0.5, separation=2).release.participation[:3] == ("cyclic_poisson", 0.5, 2)
    assert made().release.participation.sampling == "everyone"
    assert FLOAT32_CAVEAT in made().caveats and "Mironov" in FLOAT32_CAVEAT


def test_bits_are_the_model_down_and_an_update_up():
    _, _, info = one_round(made(sampling_rate=0.5), DATA)
    bits, came = jax.device_get((info.bits, info.counted))
    assert (bits["model"].down == 32 * D * came).all() and (bits["upload"].up == 32 * D * came).all()
    assert bits.keys() == {"model", "upload"} and 0 < came.sum() < N


def of_traced(name):
    """A secure system by coins, as a sweep would build it."""
    return jax.eval_shape(lambda p: made(secure=True, sampling_rate=0.5, **{name: p}) and p, 0.1)


test_bad_arguments = refused(
    *(
        (lambda name=name: of_traced(name), f"{name} must be known when the program is")
        for name in ("dropout", "leave")
    ),
    *(
        (lambda how=how: made(**how), message)
        for how, message in (
            ({"sampling_rate": 1.5}, r"sampling_rate must be a number in \(0, 1\], got 1.5"),
            ({"sampling_rate": 0.5, "cohort_size": 3}, "cohort_size must not be given with sampling_rate, got 3"),
            (
                {"sampling_rate": 0.5, "capacity": 2},
                "capacity must be from 3, the expected number of clients, to their",
            ),
            ({"capacity": 2}, "capacity must not be given without sampling_rate, got 2"),
            ({"cohort_size": 7}, "cohort_size must be at most num_clients = 6, got 7"),
            ({"cohort_size": 4, "separation": 2}, "separation must be at most 1, the rounds that 6 clients last for"),
            ({"separation": 2}, "separation must be at most 1"),
            ({"sampling_rate": 0.5, "separation": 4}, "num_clients must be a multiple of separation = 4, got 6"),
            ({"clip": 0.0}, "clip must be a finite number > 0, got 0.0"),
            ({"noise_multiplier": -1.0}, "noise_multiplier must be a finite number >= 0, got -1.0"),
            ({"weight_cap": 0.0}, "weight_cap must be a finite number > 0"),
            ({"mean_weight": 1.5}, r"mean_weight must be a number in \(0, 1\], got 1.5"),
            ({"leave": 0.1}, "leave must be 0 with secure=False, got 0.1: nobody is asked for shares"),
            ({"clip_rate": 0.1}, "clip_rate must not be given without clip_quantile, got 0.1"),
            ({"count_noise": 2.0}, "count_noise must not be given without clip_quantile, got 2.0"),
            ({"threshold": 2}, "threshold must not be given with secure=False, got 2"),
            ({"cohort_size": 1, "secure": True}, "secure must be False in cohorts of one client"),
        )
    ),
)
