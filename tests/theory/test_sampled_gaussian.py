"""Sampled Gaussian rounds against dp-accounting's loss distributions, printed figures and lower bounds."""

import functools
from inspect import unwrap
from typing import Any, cast

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from refusals import each, refused
from scipy.stats import binom, norm

from fedjax_priv.theory import _roots, gaussian, sampled_gaussian
from fedjax_priv.theory.sampled_gaussian import Neighbours, Round, Sampling
from fedjax_priv.theory.sampled_gaussian.rounds import mechanism

DELTA = 1e-5
FIXED: Sampling = "fixed size"
TABLE = [  # z, rate, T, then eps: Poisson add/remove, replacement; fixed size add/remove, replacement
    (1.0, 0.01, 1000, 1.8282, 2.8434, 13.3608, 14.821),
    (1.0, 0.1, 100, 7.0466, 10.5164, 31.371, 34.172),
    (0.8, 0.05, 200, 7.7022, 10.3260, 44.590, 48.466),
]
ZEROED = [(13.142, 10.369), (28.986, 17.436), (42.976, 25.512)]  # of the table's rows: a loose bound, a lower bound


def epsilon(z, rate, rounds, sampling: Sampling = "poisson", neighbours: Neighbours = "add/remove", **more):
    return sampled_gaussian.epsilon(DELTA, [(Round(z, rate, sampling, **more), rounds)], neighbours)


@pytest.mark.parametrize(("z", "rate", "rounds", "added", "replaced", "taken", "swapped"), TABLE)
def test_printed_figures(z, rate, rounds, added, replaced, taken, swapped):
    assert epsilon(z, rate, rounds) == pytest.approx(added, abs=1.5e-4)
    assert epsilon(z, rate, rounds, neighbours="replacement") == pytest.approx(replaced, abs=1.5e-4)
    assert epsilon(z, rate, rounds, FIXED) == pytest.approx(taken, abs=6e-4)
    assert epsilon(z, rate, rounds, FIXED, "replacement") == pytest.approx(swapped, abs=6e-4)


def test_the_central_limit_is_approached_and_reports_too_little():
    """Figures of the paper's formula; as T grows at q sqrt(T) fixed, the exact eps falls to it from above."""
    limit = lambda *rounds: sampled_gaussian.central_limit_sensitivity(list(rounds))
    assert limit((Round(1.0, 0.01), 1000)) == pytest.approx(0.41452, abs=5e-6)
    assert gaussian.epsilon(DELTA, 0.41452) == pytest.approx(1.6177, abs=5e-5)
    parts = limit((Round(1.0, 0.01), 500), (Round(2.0, 0.02), 500))
    assert parts**2 == pytest.approx(limit((Round(1.0, 0.01), 500)) ** 2 + limit((Round(2.0, 0.02), 500)) ** 2)
    mu = np.sqrt(0.1 * np.expm1(1.0))
    excess = []
    for count in (100, 1000, 10_000):
        rate = np.sqrt(0.1 / count)
        assert limit((Round(1.0, rate), count)) == pytest.approx(mu, rel=1e-12)
        excess.append(epsilon(1.0, rate, count) - gaussian.epsilon(DELTA, mu))
    assert excess[0] > 1.5 * excess[1] > 2 * excess[2] > 0
    assert limit((Round(1.0, 1.0), 4)) > 2  # everyone, at once: the Gaussian mechanism itself has 2
    assert limit((Round(0.01, 0.1), 1)) == np.inf


@functools.cache
def by_dp_accounting(z, rate, rounds, relation="ADD_OR_REMOVE_ONE"):
    one = pld.from_gaussian_mechanism(
        z, sampling_prob=rate, neighboring_relation=dp_accounting.NeighboringRelation[relation]
    )
    return one.self_compose(rounds).get_epsilon_for_delta(DELTA)


@pytest.mark.parametrize(("z", "rate", "rounds"), [(1.0, 0.1, 100), (2.0, 0.02, 10)])
def test_between_dp_accounting_and_three_percent_more(z, rate, rounds):
    """Noise of z/2 is the pair of a cohort of fixed size, whose client takes another's place."""
    for noise, found in (
        (z, epsilon(z, rate, rounds)),
        (z / 2, epsilon(z, rate, rounds, FIXED)),
    ):
        known = by_dp_accounting(noise, rate, rounds)
        assert known * (1 - 1e-4) <= found <= known * 1.03
    known = by_dp_accounting(z, rate, rounds, "REPLACE_ONE")
    assert known * (1 - 1e-4) <= epsilon(z, rate, rounds, neighbours="replacement") <= known * 1.03


def test_zero_out_of_a_fixed_size_lies_just_above_what_one_data_set_attains():
    """All others send what is opposite to the client's: nothing below that data set's eps is valid."""
    for (z, rate, rounds, *_), (loose, attained) in zip(TABLE, ZEROED, strict=True):
        assert attained <= epsilon(z, rate, rounds, FIXED, "zero-out") < min(1.04 * attained, loose)


def test_different_rounds():
    mixed = [(Round(1.0, 0.01), 500), (Round(2.0, 0.02), 500)]
    assert sampled_gaussian.epsilon(DELTA, mixed) == pytest.approx(1.61508, abs=1e-4)
    spent = sampled_gaussian.delta(1.61508, mixed)
    assert spent == pytest.approx(DELTA, rel=1e-3)


def test_everyone_is_a_gaussian_mechanism():
    assert epsilon(2.0, 1.0, 1) == pytest.approx(gaussian.epsilon(DELTA, 0.5))
    assert epsilon(2.0, 1.0, 16) == pytest.approx(gaussian.epsilon(DELTA, 2.0), abs=1e-3)
    assert epsilon(2.0, 1.0, 16, neighbours="replacement") == pytest.approx(gaussian.epsilon(DELTA, 4.0), abs=1e-3)


@pytest.mark.parametrize(("z", "rounds"), [(0.05, 3), (0.5, 1000), (1.0, 1000)])
def test_figures_of_many_hundreds_are_bounds_to_three_digits(z, rounds):
    exact = gaussian.epsilon(DELTA, np.sqrt(rounds) / z)
    assert exact <= epsilon(z, 1.0, rounds) < 1.002 * exact


def test_tiny_masses_warn_of_nothing():
    """Warnings are errors here. A client comes with probability 3e-7, below delta."""
    assert sampled_gaussian.epsilon(1e-6, [(Round(50.0, 1e-7), 3)]) == 0


def test_one_round_is_exact():
    assert epsilon(1.5, 0.2, 1) == pytest.approx(by_dp_accounting(1.5, 0.2, 1), abs=1e-5)


def test_a_capacity_costs_what_cutting_the_cohort_may_tell():
    few = functools.partial(epsilon, 1.0, 0.05, 10, population=200)
    event = dp_accounting.TruncatedSubsampledGaussianDpEvent(200, 0.05, 16, 1.0)
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3).compose(event, 10)
    without, cut = epsilon(1.0, 0.05, 10), few(capacity=16)
    assert without * 1.1 < cut < accountant.get_epsilon(DELTA) * 1.001  # its pair is the looser one of replacement
    assert few(capacity=40) == pytest.approx(without, rel=1e-6)
    assert few(capacity=200) == without
    assert cut < few(capacity=16, neighbours="replacement")
    assert without * 1.02 < few(capacity=16, neighbours="zero-out") < cut


def exact_delta(one, neighbours, eps):
    """Of one round in which all others send the same vector, and the client another one at right angles."""
    shift, least, u = 1 / one.noise_multiplier, one.quorum, np.arange(one.population)
    chance = binom.pmf(u, one.population - 1, one.rate)
    (along, step), (across, width) = (
        np.linspace(-7.0, end + 7, size, retstep=True) for end, size in ((u[-1] * shift, 1501), (shift, 501))
    )
    opened = np.where(u >= least, u, 0)
    at = lambda places, weight: (norm.pdf(along[:, None] - places * shift) * weight).sum(1)
    own = at(u, one.rate * chance * (u + 1 >= least))
    rest = at(opened, (1 - one.rate) * chance) + at(0 * u, one.rate * chance * (u + 1 < least))
    other = -shift if neighbours == "replacement" else 0.0
    first, second = (
        own[:, None] * norm.pdf(across - x) + rest[:, None] * norm.pdf(across) for x in (shift, other)
    )  # fmt: skip
    return np.maximum(first - np.exp(eps) * second, 0).sum() * step * width


@pytest.mark.parametrize("neighbours", ["zero-out", "replacement"])
def test_a_quorum_costs_what_an_unopened_sum_may_tell(neighbours):
    """Where the client's own coin opens the sum, it hides behind no round without it: Poisson's figure is too small."""
    one = Round(1.0, 0.2, population=20, quorum=3)
    claimed, poisson = (
        float(sampled_gaussian.epsilon(DELTA, [(of, 1)], neighbours)) for of in (one, one._replace(quorum=None))
    )
    opened = one._replace(quorum=1)  # the client alone is opened too, and so is nobody
    assert exact_delta(opened, neighbours, poisson) == pytest.approx(DELTA, rel=0.01)
    attained = exact_delta(one, neighbours, poisson)
    assert attained > DELTA * (1.5 if neighbours == "replacement" else 1.01)
    assert exact_delta(one, neighbours, claimed) < DELTA


FULL = {
    "add/remove": (((0, 2), (0, 0)), ((0, 0), (0, 2))), "replacement": (((0, 2), (0, 0)),),
    "zero-out": (((-1, 1), (-1, 0)), ((0, 1), (0, 0))),
}  # fmt: skip
FREE = {
    "add/remove": (((0, 1), (0, 0)), ((0, 0), (0, 1))), "zero-out": (((0, 1), (0, 0)), ((0, 0), (0, 1))),
    "replacement": (((0, 1), (0, -1)),),
}  # fmt: skip
"""Means of what is seen, with the client out and in, in both inputs; of each order."""


@pytest.mark.parametrize("neighbours", FULL)
@pytest.mark.parametrize("capacity", [3, 5])
def test_profiles_of_a_capacity_are_averages_by_hand(neighbours, capacity):
    """Over how many others come: a full cohort is one of fixed size, with what the client takes the place of."""
    n, q = 10, 0.3
    number = np.arange(n)
    chance, full = binom.pmf(number, n - 1, q), number >= capacity
    at, step = np.linspace(-12.0, 12.0, 12_001, retstep=True)
    seen = lambda means, rate: (1 - rate) * norm.pdf(at - means[0]) + rate * norm.pdf(at - means[1])
    beyond = lambda eps, pair, rate: np.maximum(seen(pair[0], rate) - np.exp(eps) * seen(pair[1], rate), 0).sum() * step
    orders = mechanism(Round(1.0, q, capacity=capacity, population=n), neighbours)
    for order, whole, usual in zip(orders, FULL[neighbours], FREE[neighbours], strict=True):
        for eps in (0.0, 0.4, 1.5):
            by_hand = chance[~full].sum() * beyond(eps, usual, q)
            by_hand += sum(c * beyond(eps, whole, q * capacity / (u + 1)) for u, c in enumerate(chance) if full[u])
            assert order(eps) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize(("neighbours", "shift"), [("zero-out", 0.5), ("replacement", 1.0)])
@pytest.mark.parametrize("capacity", [None, 6])
def test_profiles_of_a_quorum_are_averages_by_hand(neighbours, shift, capacity):
    """2 of 19 others stay with a chance that each comes and stays; where the cohort is full nothing changes."""
    usual = Round(2.0, 0.2, population=20, capacity=capacity, stays=0.8)
    free = mechanism(usual._replace(capacity=None), neighbours)
    turning = binom.pmf(2, 19, 0.2 * 0.8)
    found = zip(free, *(mechanism(one, neighbours) for one in (usual, usual._replace(quorum=3))), strict=True)
    for fits, without, order in found:
        for eps in (-1.0, 0.0, 0.3, 1.0, 4.0):
            gaussian = norm.cdf(shift / 2 - eps / shift) - np.exp(eps) * norm.cdf(-shift / 2 - eps / shift)
            decided = 0.2 * gaussian + 0.8 * max(0.0, 1 - np.exp(eps))
            more = turning * max(0.0, decided - fits(eps))
            assert order(eps) == pytest.approx(without(eps) + more, rel=1e-9)


def attained_by_one_who_comes(one, eps):
    """The delta of one round in which all others send +C and the client -C, which is there or not."""
    shift, u = 1 / one.noise_multiplier, np.arange(one.population)
    chance = binom.pmf(u, one.population - 1, one.rate)[:, None]
    at, step = np.linspace(-9.0, u[-1] * shift + 9, 20_001, retstep=True)
    opened = lambda number, sent: norm.pdf(at - np.where(number >= one.quorum, sent * shift, 0)[:, None])
    out = (chance * opened(u, u)).sum(0)
    there = (1 - one.rate) * out + one.rate * (chance * opened(u + 1, u - 1)).sum(0)
    return max(np.maximum(a - np.exp(eps) * b, 0).sum() * step for a, b in ((there, out), (out, there)))


def test_who_comes_may_tell_more_than_a_quorum_of_zeros():
    """Why there is no row of add/remove: that of zero-out, which it is without a quorum, is too small."""
    one = Round(1.0, 0.5, population=20, quorum=10)
    with pytest.raises(ValueError, match="neighbours must be 'zero-out' or 'replacement' with a quorum"):
        sampled_gaussian.epsilon(DELTA, [(one._replace(quorum=None), 1), (one, 1)])
    zeros, usual = (
        float(sampled_gaussian.epsilon(DELTA, [(of, 1)], "zero-out")) for of in (one, one._replace(quorum=None))
    )
    assert attained_by_one_who_comes(one._replace(quorum=1), usual) <= DELTA
    assert attained_by_one_who_comes(one, zeros) > 5 * DELTA


def test_replacement_with_a_quorum_is_through_zeros():
    rounds = [(Round(1.0, 0.2, population=20, quorum=3), 1), (Round(1.0, 0.2), 2)]
    through = sampled_gaussian.replacement_epsilon(DELTA, rounds)
    assert through > float(sampled_gaussian.epsilon(DELTA, rounds, "replacement"))
    without = [(one._replace(quorum=None), number) for one, number in rounds]
    assert through > sampled_gaussian.replacement_epsilon(DELTA, without)


def test_a_quorum_that_is_never_missed_costs_nothing():
    of = lambda **how: float(
        sampled_gaussian.epsilon(DELTA, [(Round(1.0, 0.1, population=1000, **how), 50)], "zero-out")
    )
    usual, quorum = of(), functools.partial(of, quorum=80)
    assert of(quorum=30) == pytest.approx(usual, rel=1e-9) and of(quorum=1001) == usual
    assert usual * 1.01 < quorum() < quorum(quorum=100)
    assert quorum(quorum=60) < quorum(quorum=60, stays=0.6)  # 60 others stay as a rule
    assert quorum(quorum=80, capacity=120) > max(of(capacity=120), quorum())


def test_eps_after_each_round():
    found = sampled_gaussian.epsilon_by_round(DELTA, [(Round(1.0, 0.1), 6), (Round(2.0, 0.2), 2)])
    for done in (1, 3, 6):
        assert found[done - 1] == pytest.approx(epsilon(1.0, 0.1, done), rel=2e-3)
        assert found[done - 1] >= epsilon(1.0, 0.1, done) * (1 - 1e-5)
    assert found.shape == (8,) and (np.diff(found) >= 0).all()
    both = sampled_gaussian.epsilon(DELTA, [(Round(1.0, 0.1), 6), (Round(2.0, 0.2), 2)])
    assert found[-1] == both


def test_rounds_that_are_left_out_have_eps_of_the_next():
    found = sampled_gaussian.epsilon_by_round(DELTA, [(Round(2.0, 0.02), 300)])
    assert found.shape == (300,) and len(np.unique(found)) == 100
    assert found[149] == pytest.approx(epsilon(2.0, 0.02, 150), rel=2e-3)
    assert found[148] == found[149] > found[146]


def test_rounds_of_two_kinds_in_turn_take_no_longer_than_rounds_of_one():
    """Of 299 rounds, eps is computed after every third one, whatever they are; the last stride has two."""
    one, other = Round(2.0, 0.02), Round(1.5, 0.03)
    found = sampled_gaussian.epsilon_by_round(DELTA, [(one, 1), (other, 1)] * 149 + [(one, 1)])
    assert found.shape == (299,) and len(np.unique(found)) == 100
    for done, of_one in ((3, 2), (153, 77), (299, 150)):
        exact = sampled_gaussian.epsilon(DELTA, [(one, of_one), (other, done - of_one)])
        assert exact * (1 - 1e-5) <= found[done - 1] <= exact * (1 + 2e-3)
        assert found[done - 3 if done < 299 else done - 2] == found[done - 1]


def test_noise_and_rounds_for_an_eps():
    one = Round(rate=0.01)
    z = sampled_gaussian.noise_multiplier_for(1.0, DELTA, one, 1000)
    assert z == pytest.approx(1.41465, abs=2e-5)
    assert 1 - 1e-4 < epsilon(z, 0.01, 1000) <= 1
    assert sampled_gaussian.rounds_within(2.0, DELTA, Round(1.0, 0.01)) == 1202
    assert sampled_gaussian.rounds_within(0.1, DELTA, Round(1.0, 0.01)) == 0


def test_replacement_from_the_two_orders_is_valid_and_weaker():
    rounds = [(Round(1.0, 0.1), 100)]
    converted = sampled_gaussian.replacement_epsilon(DELTA, rounds)
    assert epsilon(1.0, 0.1, 100, neighbours="replacement") < converted < 2 * epsilon(1.0, 0.1, 100) + 1


def test_the_curve_of_one_round_is_that_of_the_best_test():
    """The likelihood ratio grows along the line, so the best test accuses below or above a point."""
    q, z, alarms = 0.3, 0.8, np.array([0.02, 0.1, 0.4, 0.8])
    accuse_without, accuse_with = sampled_gaussian.trade_off(alarms, [(Round(z, q), 1)])
    mixed = lambda t: (1 - q) * norm.sf(t / z) + q * norm.sf((t - 1) / z)
    points = np.linspace(-8, 8, 200_001)
    below = np.interp(alarms, 1 - mixed(points), points)  # accuse the world without the client below
    np.testing.assert_allclose(accuse_without, norm.sf(below / z), atol=2e-5)
    above = norm.isf(alarms) * z
    np.testing.assert_allclose(accuse_with, 1 - mixed(above), atol=2e-5)
    assert np.abs(accuse_without - accuse_with).max() > 0.005  # the orders differ


def test_a_figure_of_the_other_sampling_would_be_too_small():
    """What all others at -C attain in a cohort of fixed size is four times the Poisson figure of the same rate."""
    z, rate, rounds, added, *_ = TABLE[1]
    attained = by_dp_accounting(z / 2, rate, rounds)
    assert epsilon(z, rate, rounds, FIXED) > 0.999 * attained > 4 * added


REFUSED = [
    (Round(0.0, 0.1), r"noise_multiplier must be in \(0, inf\), got 0.0"),
    (Round(1.0, cast(Any, np.array([0.1, 0.2]))), r"rate must be one number in \[0, 1\], got array"),
    (Round(cast(Any, np.ones(2)), 0.1), r"noise_multiplier must be one number in \(0, inf\), got array"),
    (Round(1.0, 1.1), r"rate must be in \[0, 1\], got 1.1"),
    (Round(1.0, 0.1, cast(Any, "uniform")), "sampling must be one of 'poisson', 'fixed size', got 'uniform'"),
    (Round(1.0, 0.1, FIXED, 10, 100), 'capacity must be None where sampling is not "poisson", got 10'),
    (Round(1.0, 0.1, capacity=10), "population must be given with a capacity, got None"),
    (Round(1.0, 0.1, capacity=0, population=9), "capacity must be an integer >= 1, got 0"),
    (Round(1.0, 0.1, FIXED, quorum=3, population=9), 'quorum must be None where sampling is not "poisson", got 3'),
    (Round(1.0, 0.1, quorum=3), "population must be given with a quorum, got None"),
    (Round(1.0, 0.1, population=9, quorum=3, stays=1.5), r"stays must be in \[0, 1\], got 1.5"),
]
test_refused = refused(*REFUSED, by=lambda one: sampled_gaussian.epsilon(DELTA, [(one, 1)]))
test_the_central_limit_refuses = refused(
    (Round(1.0, 0.1, FIXED), "rounds must be of Poisson sampling without a capacity or a quorum, got Round"),
    (Round(1.0, 0.1, capacity=5, population=9), "rounds must be of Poisson sampling without a capacity or a quorum"),
    (Round(1.0, 0.1, quorum=2, population=9), "rounds must be of Poisson sampling without a capacity or a quorum"),
    (Round(0.0, 0.1), r"noise_multiplier must be in \(0, inf\), got 0.0"),
    by=lambda one: sampled_gaussian.central_limit_sensitivity([(one, 1)]),
)
TWO = np.array([0.1, 0.2])
test_refused_calls = refused(
    *(
        (
            lambda bad=bad: unwrap(sampled_gaussian.noise_multiplier_for)(
                **({"epsilon": 1.0, "delta": 0.1, "one": Round(1.0, 0.1), "rounds": 1} | bad)
            ),
            f"{name} must be one number in",
        )
        for bad, name in each(epsilon=[TWO], delta=[TWO])
    ),
    (
        lambda: sampled_gaussian.epsilon(DELTA, [(Round(), 2**40)]),
        "rounds must be at most 16777216 in all, got 1099511627776",
    ),
    (lambda: sampled_gaussian.epsilon(DELTA, []), "rounds must be at least one kind of rounds"),
    (lambda: unwrap(sampled_gaussian.epsilon)(DELTA, Round(1.0, 0.1)), r"rounds must be pairs \(Round, number of"),
    (lambda: unwrap(sampled_gaussian.epsilon)(DELTA, [Round(1.0, 0.1)]), r"rounds must be pairs \(Round, number"),
    *(
        (
            lambda bad=bad: sampled_gaussian.noise_multiplier_for(bad, DELTA, Round(), 1),
            r"epsilon must be in \(0, 1e\+06\]",
        )
        for bad in (0.0, 1e7, np.inf)
    ),
)


@pytest.mark.parametrize("z", [1e-5, 1e-12])
def test_hardly_any_noise_has_no_finite_eps_unless_hardly_anybody_is_drawn(z):
    """exp of a step of the loss overflowed; whoever is never drawn but with probability 2e-7 loses nothing at 1e-5."""
    assert sampled_gaussian.epsilon(DELTA, [(Round(z, 0.5), 2)]) == np.inf
    assert sampled_gaussian.epsilon_by_round(DELTA, [(Round(z, 0.5), 2)]).tolist() == [np.inf] * 2
    assert sampled_gaussian.epsilon(DELTA, [(Round(z, 1e-7), 2)]) < 1e-3


def test_little_noise_has_the_eps_of_the_gaussian_mechanism():
    z = 3e-4
    assert sampled_gaussian.epsilon(DELTA, [(Round(z, 1.0), 2)]) == pytest.approx(
        gaussian.epsilon(DELTA, 2**0.5 / z), rel=1e-3
    )


def test_the_least_noise_for_hardly_any_eps():
    """Beyond some noise eps is 0, and an eps below 1e-12 is first reached there."""
    assert _roots.least_scale(lambda x: 1 / x if x < 1e6 else 0.0, 1e-14, 1e-5) == pytest.approx(1e6, rel=2e-5)
