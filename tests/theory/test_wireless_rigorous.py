"""The rigorous accountant against enumeration, closed forms, dp-accounting, and sampled privacy losses."""

import functools
import itertools
import math
from inspect import unwrap

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy import stats

from fedjax_priv.theory import _accountant, gaussian
from fedjax_priv.theory import wireless as theory
from fedjax_priv.theory.wireless import profiles
from fedjax_priv.theory.wireless.rounds import checked

CLIP, SIGMA2, N0 = 1.0, 0.5, 0.3
ROUND = theory.Round(4, 0.4, CLIP, SIGMA2, N0)
UNEQUAL = np.array([0.3, 0.8, 0.5, 0.6, 0.45])
EPSILONS = (0.0, 0.3, 1.0, 2.5)
Y = np.linspace(-16, 16, 64_001)  # the received signal


def of(p, **changes):
    return ROUND._replace(num_users=len(p), participation=p, **changes)


def densities(gradients, p):
    """`[K + 1, y]` of R and y together, from all sets of users."""
    found = np.zeros((len(p) + 1, Y.size))
    for taken in itertools.product([False, True], repeat=len(p)):
        here = np.array(taken, bool)
        chance, scale = np.prod(np.where(here, p, 1 - p)), math.sqrt(here.sum() * SIGMA2 + N0)
        found[here.sum()] += chance * stats.norm.pdf(Y, here @ gradients, scale)
    return found


def divergence(first, second, eps):
    rows = max(len(first), len(second))
    first, second = (np.vstack([law, np.zeros((rows - len(law), Y.size))]) for law in (first, second))
    return np.maximum(first - math.exp(eps) * second, 0).sum() * (Y[1] - Y[0])


def worst_pair(p, user):
    """Gradients L of one user and -L of all others, and what takes its place."""
    gradients = np.full(len(p), -CLIP)
    without = densities(np.delete(gradients, user), np.delete(p, user))
    replaced = densities(gradients, p)
    gradients[user] = CLIP
    return densities(gradients, p), replaced, without


@pytest.mark.parametrize("p", [np.array([0.4]), np.full(3, 0.35), UNEQUAL[:3], UNEQUAL[:4], UNEQUAL], ids=str)
def test_one_round_is_what_all_sets_of_users_give(p):
    """The three sums: replacement, and removal in both orders, of the worst user."""
    remove, add = profiles.removal(checked(of(p)))
    pairs = [worst_pair(p, user) for user in range(len(p))]
    for eps in (-1.2, -0.2, *EPSILONS):
        replaced, removed, added = (
            max(divergence(*order(pair), eps) for pair in pairs)
            for order in (lambda x: (x[0], x[1]), lambda x: (x[0], x[2]), lambda x: (x[2], x[0]))
        )
        tolerance = {"rel": 1e-6, "abs": 1e-9 if eps >= 0 else 0}
        assert remove(eps) == pytest.approx(removed, **tolerance)
        assert add(eps) == pytest.approx(added, **tolerance)
        if eps >= 0:
            assert theory.rigorous_delta(of(p), eps) == pytest.approx(replaced, **tolerance)
            both = theory.rigorous_delta(of(p), eps, adjacency="removal")
            assert both == pytest.approx(max(removed, added), **tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_no_gradients_leak_more(seed):
    rng = np.random.default_rng(seed)
    p, gradients, user = rng.uniform(0.1, 0.9, 4), rng.uniform(-CLIP, CLIP, 4), rng.integers(4)
    here = densities(gradients, p)
    gone = densities(np.delete(gradients, user), np.delete(p, user))
    gradients[user] = rng.choice([-CLIP, CLIP])
    there = densities(gradients, p)
    for eps in EPSILONS:
        for other, adjacency in ((there, "replacement"), (gone, "removal")):
            bound = theory.rigorous_delta(of(p), eps, adjacency=adjacency) + 1e-9
            assert divergence(here, other, eps) <= bound and divergence(other, here, eps) <= bound


@pytest.mark.parametrize("rounds", [1, 7, 400])
def test_everybody_taking_part_is_the_gaussian_mechanism(rounds):
    setting = ROUND._replace(num_users=50, participation=1.0)
    sensitivity = 2 * CLIP / math.sqrt(50 * SIGMA2 + N0) * math.sqrt(rounds)
    expected = gaussian.epsilon(1e-5, sensitivity)
    found = theory.rigorous_epsilon(setting, 1e-5, rounds=rounds)
    assert expected * (1 - 1e-9) <= found <= expected * (1 + 1e-4)
    assert theory.rigorous_delta(setting, expected, rounds=rounds) == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize("rounds", [1, 30])
def test_without_receiver_noise_it_is_that_of_dp_accounting(rounds):
    setting = theory.Round(9, 1.0, clip=0.5, noise_variance=2.0)
    loss = privacy_loss_distribution.from_gaussian_mechanism(math.sqrt(9 * 2.0), value_discretization_interval=1e-3)
    expected = loss.self_compose(rounds).get_epsilon_for_delta(1e-6)
    assert theory.rigorous_epsilon(setting, 1e-6, rounds=rounds) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("count", "rounds"), [(3, 1), (3, 20), (6, 20), (6, 300)])
def test_at_a_fixed_count_it_stays_below_renyi(count, rounds):
    """Sampling without replacement, for which dp-accounting has a bound, and a loose one."""
    noise = math.sqrt(count * SIGMA2 + 9.0)
    fixed = profiles.Counts(
        np.array([count]), np.ones(1), np.ones(1), np.array([count / 20]), np.array([2 * CLIP / noise]), 0.0
    )
    found = _accountant.epsilon_after(1e-5, [(profiles.replacement_at(fixed), rounds)])
    accountant = rdp_privacy_accountant.RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    event = dp_event.SampledWithoutReplacementDpEvent(20, count, dp_event.GaussianDpEvent(noise / (2 * CLIP)))
    bound = accountant.compose(event, rounds).get_epsilon(1e-5)
    assert 0.05 * bound < found < bound


def sampled_deltas(first, second, rng, rounds, count=200_000):
    """Eps, delta and its error, from losses log(first/second) of outcomes of `first`; R and y are drawn from tables."""
    chance = first.ravel() / first.sum()
    drawn = rng.choice(first.size, size=(count, rounds), p=chance)
    with np.errstate(divide="ignore"):
        losses = (np.log(first.ravel()[drawn]) - np.log(second.ravel()[drawn])).sum(1)
    for eps in (0.5, 2.0, 4.0):
        failures = np.maximum(-np.expm1(eps - losses), 0)
        yield eps, failures.mean(), failures.std() / math.sqrt(count)


@pytest.mark.parametrize("order", [0, 1])
def test_composed_removal_is_that_of_sampled_losses(order):
    p, rounds, rng = np.full(3, 0.4), 6, np.random.default_rng(order)
    law, _, without = worst_pair(p, 0)
    without = np.vstack([without, np.zeros(Y.size)])
    first, second = (law, without) if order == 0 else (without, law)
    exact, _ = _accountant.composed([(profiles.removal(checked(of(p))), rounds)])[order]
    for eps, delta, error in sampled_deltas(first, second, rng, rounds):
        assert abs(delta - exact(eps)) < 5 * error + 1e-4


def test_composed_replacement_covers_sampled_losses():
    p, rounds, rng = UNEQUAL[:3], 6, np.random.default_rng(2)
    first, second, _ = worst_pair(p, 1)
    for one, other in ((first, second), (second, first)):
        for eps, delta, error in sampled_deltas(one, other, rng, rounds):
            assert delta - 5 * error < theory.rigorous_delta(of(p), eps, rounds=rounds) < 3 * delta


@pytest.mark.parametrize("adjacency", ["replacement", "removal"])
@pytest.mark.parametrize("rounds", [1, 5])
def test_delta_is_the_inverse_of_epsilon(adjacency, rounds):
    setting, how = ROUND._replace(num_users=30, participation=0.3), {"rounds": rounds, "adjacency": adjacency}
    targets = np.array([1e-3, 1e-5, 1e-7])
    eps = theory.rigorous_epsilon(setting, targets, **how)
    assert eps.shape == (3,) and (np.diff(eps) > 0).all()
    np.testing.assert_allclose(theory.rigorous_delta(setting, eps, **how), targets, rtol=1e-6)


@settings(max_examples=8)
@given(
    p=st.floats(0.05, 1),
    noise=st.floats(0.05, 5),
    more=st.floats(1.01, 4),
    adjacency=st.sampled_from(["replacement", "removal"]),
)
def test_more_noise_and_less_signal_leak_less(p, noise, more, adjacency):
    base, eps = theory.Round(12, p, 1.0, noise, 1.0), np.array([0.1, 1.0])
    loud = theory.rigorous_delta(base, eps, adjacency=adjacency)
    assert loud[1] <= loud[0]
    for change in ({"clip": 1 / more}, {"noise_variance": noise * more}, {"receiver_noise": more}):
        assert (theory.rigorous_delta(base._replace(**change), eps, adjacency=adjacency) <= loud + 1e-15).all()


@settings(max_examples=8)
@given(p=st.floats(0.2, 1), noise=st.floats(0.05, 5))
def test_what_is_left_of_theorem_1_holds_for_replacement(p, noise):
    delta_prime = 2 * math.exp(-2 * 200 * p**2) + 1e-5
    if delta_prime < 1:
        setting = theory.Round(200, p, 1.0, noise, 1.0)
        eps = theory.central_epsilon_sharp(setting, 1e-5, delta_prime)
        assert theory.rigorous_delta(setting, eps) <= delta_prime + p * 1e-5


def test_rounds_that_differ():
    eps = lambda **changes: theory.rigorous_epsilon(ROUND._replace(**changes), 1e-4, rounds=6)
    same, each = eps(), np.full((6, 1), 0.4)
    assert eps(participation=each) == pytest.approx(same, rel=1e-9)
    each[:3] = 0.2
    mixed = eps(participation=each)
    assert eps(participation=0.2) < mixed < same
    assert eps(participation=np.broadcast_to(each, (6, 4))) == pytest.approx(mixed, rel=1e-9)
    users = np.array([0.1, 0.4, 0.2, 0.3])
    assert eps(participation=np.tile(users, (6, 1))) == pytest.approx(eps(participation=users), rel=1e-9)
    assert eps(noise_variance=np.array([0.5] * 5 + [5.0])) < same


def test_removal_has_no_guarantee_where_all_users_take_part():
    likely, certain = (ROUND._replace(participation=p) for p in (0.9, 1.0))
    eps, delta = (functools.partial(f, adjacency="removal") for f in (theory.rigorous_epsilon, theory.rigorous_delta))
    assert eps(likely, 1e-5) == math.inf
    assert eps(certain, 0.9) == math.inf
    assert eps(certain, 0.9, rounds=3) == math.inf
    assert delta(likely, 100.0) == pytest.approx(0.9**4)
    assert delta(likely, 500.0, rounds=3) == pytest.approx(1 - (1 - 0.9**4) ** 3)
    assert eps(ROUND._replace(participation=0.0), 1e-5) == 0


def test_without_any_noise_there_is_no_guarantee():
    silent = theory.Round(4, 0.3, clip=1.0, noise_variance=0.0)
    assert theory.rigorous_delta(silent, 5.0) == pytest.approx(0.3)
    assert theory.rigorous_epsilon(silent, 0.2) == math.inf


def test_a_known_set_ends_amplification():
    p = UNEQUAL
    law = theory.count_law(4, np.delete(p, 1))
    expected = sum(0.8 * law[r] * gaussian.delta(1.3, 2 / math.sqrt((r + 1) * SIGMA2 + N0)) for r in range(5))
    assert theory.known_set_delta(of(p), 1.3) == pytest.approx(expected, rel=1e-12)
    assert theory.known_set_epsilon(of(p), expected) == pytest.approx(1.3)
    assert theory.known_set_epsilon(of(p), 1e-4, rounds=5) > theory.rigorous_epsilon(of(p), 1e-4, rounds=5)


@pytest.mark.parametrize("num_users", [50, 1000])
def test_a_known_set_is_worse_than_no_sampling_at_fig_2s_settings(num_users):
    setting = theory.Round(num_users, theory.optimal_participation(num_users, 1e-4), 1.0, 9.0, 3.0)
    everyone = theory.rigorous_unsampled_epsilon(setting, 1e-4)
    assert theory.rigorous_epsilon(setting, 1e-4) < everyone < theory.known_set_epsilon(setting, 1e-4)


def test_power_limited_users():
    """At most the bound for any of them, in the worst case over sets as in the mean; equal if none is limited."""
    p, a = UNEQUAL[:4], np.array([1.0, 0.3, 0.7, 0.9])
    exact = np.zeros(4)
    for taken in itertools.product([False, True], repeat=4):
        here = np.array(taken)
        shift = 2 * a * CLIP / math.sqrt(N0 + SIGMA2 * (here @ a**2))
        exact += here * np.prod(np.where(here, p, 1 - p)) * gaussian.delta(0.8, shift)
    eps = functools.partial(theory.limited_epsilon, of(p))
    bound = theory.limited_delta(of(p), 0.8, amplitudes=a)
    assert exact.max() <= bound < 1.3 * exact.max()
    assert eps(bound, amplitudes=a) == pytest.approx(0.8)
    for rounds in (1, 3):
        unlimited = eps(1e-3, amplitudes=np.ones(4), rounds=rounds)
        assert unlimited == pytest.approx(theory.known_set_epsilon(of(p), 1e-3, rounds=rounds))
    each = eps(1e-3, amplitudes=np.tile(a, (3, 1)), rounds=3)
    assert each == pytest.approx(eps(1e-3, amplitudes=a, rounds=3))
    faded = eps(1e-3, amplitudes=np.array([a, a / 2, a / 4]), rounds=3)
    assert 0.3 * each < faded < each


def test_limited_amplitudes():
    energy, setting = 4 + 10 * 0.5, ROUND._replace(clip=2.0, noise_variance=0.5)
    found = theory.limited_amplitudes(setting, np.array([0.5, 2.0, 1.0]), energy / 4, num_params=10)
    np.testing.assert_allclose(found, [0.25, 1, 0.5])


PAPERS = theory.Round(200, 0.9, clip=0.1, noise_variance=0.1, receiver_noise=1.0)
CLAIM = {"delta_local": 1e-5, "delta_prime": 2 * math.exp(-2 * 180**2 / 200) + 1e-5}


def test_theorem_1_is_false_for_removal():
    found = theory.removal_counterexample(PAPERS, 7850, **CLAIM)
    assert found.claimed == pytest.approx(1.9e-5, rel=1e-3)
    assert found.exact == pytest.approx(0.0098, abs=5e-5)
    assert theory.rigorous_delta(PAPERS, found.epsilon, adjacency="removal") > found.exact
    assert theory.rigorous_delta(PAPERS, found.epsilon) < found.claimed, "for replacement it holds"


@pytest.mark.parametrize("d", [3, 400, 7850])
def test_counterexample_is_an_integral_over_the_power(d):
    found = theory.removal_counterexample(PAPERS, d, **CLAIM)
    center, width = 19.0 * d, 19.0 * math.sqrt(2 * d)
    power = np.linspace(max(0, center - 14 * width), center + 30 * width, 8001)
    there, gone = (
        sum(
            stats.binom.pmf(r, size, 0.9) * stats.chi2.pdf(power / (0.1 * r + 1), d) / (0.1 * r + 1)
            for r in range(120, size + 1)
        )
        for size in (200, 199)
    )
    both = [np.maximum(a - math.exp(found.epsilon) * b, 0) for a, b in ((there, gone), (gone, there))]
    assert found.exact == pytest.approx(max(np.trapezoid(x, power) for x in both), rel=1e-3, abs=1e-12)


def epsilon_of(delta=1e-5, rounds=3, **changes):
    return theory.rigorous_epsilon(ROUND._replace(**changes), delta, rounds=rounds)


test_bad_arguments = refused(
    ({"participation": np.full(5, 0.1)}, r"participation must be a number, \[K\], \[T, 1\] or \[T, K\]"),
    ({"participation": -0.1}, r"participation must be in \[0, 1\], got -0.1"),
    ({"noise_variance": np.ones(2)}, "noise_variance must be a number, or one per round: rounds = 3"),
    ({"noise_variance": -1.0}, r"noise_variance must be in \[0, inf\), got -1.0"),
    ({"receiver_noise": -1.0}, r"receiver_noise must be in \[0, inf\), got -1.0"),
    ({"clip": 0.0}, r"clip must be in \(0, inf\), got 0.0"),
    ({"rounds": 0}, "rounds must be an integer >= 1, got 0"),
    ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
    by=lambda change: epsilon_of(**change),
)
test_bad_amplitudes = refused(
    (1.0, "amplitudes must be"),
    (np.full(2, 1.1), r"amplitudes must be in \[0, 1\]"),
    by=lambda amplitudes: theory.limited_delta(ROUND._replace(num_users=2), 1.0, amplitudes=amplitudes),
)


def test_whether_the_set_is_known_is_a_truth_value():
    with pytest.raises(ValueError, match="^known_set must be one of True, False, got 'no'$"):
        unwrap(theory.epsilon_by_round)(ROUND, 1e-5, rounds=3, known_set="no")
