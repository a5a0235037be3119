"""The statistics of audits: published anchors, errors as rare as they say, and power against too little noise."""

import functools
from inspect import unwrap

import numpy as np
import pytest
from refusals import refused
from scipy import stats
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from fedjax_priv.audit import compare, one_run, two_worlds
from fedjax_priv.audit.bounds import curve_guesses, gaussian_curve, one_event
from fedjax_priv.audit.bounds.guessing import Errors, count_errors, no_errors
from fedjax_priv.audit.bounds.many_runs import NEVER
from fedjax_priv.theory import gaussian

DELTA = 1e-5


def worlds(mu, trials, seed, coordinates=1):
    """The first coordinate tells the inputs apart by `mu` standard deviations, the others do not."""
    noise = np.random.default_rng(seed).normal(size=(2, trials, coordinates))
    noise[0, :, 0] += mu
    return noise


def curve(mu, deltas=(DELTA, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4)):
    """The claim of a Gaussian mechanism."""
    return list(zip(gaussian.epsilon(np.array(deltas), mu).tolist(), deltas, strict=True))


def test_the_rates_are_those_of_clopper_and_pearson():
    """Of both errors together, so each has half of the probability of error."""
    found = Errors(10, 1000, 100, 900).rates(0.95)
    exact = [stats.binomtest(*each).proportion_ci(0.95, "exact").high for each in ((10, 1000), (100, 900))]
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    assert Errors(5, 5, 0, 5).rates(0.9) == pytest.approx((1.0, 1 - 0.05 ** (1 / 5)))


def test_published_errors_make_the_published_bound():
    """Nasr et al. (2023): 10 false alarms and 100 misses in 1,000 runs each, with their code's constants."""
    rates = Errors(10, 1000, 100, 1000).rates(0.95)
    assert float(gaussian_curve.mu(*rates)) == pytest.approx(3.26345, abs=1e-5)
    assert float(gaussian_curve.epsilon(*rates, DELTA)) == pytest.approx(18.607, abs=1e-3)
    assert float(one_event.epsilon(*rates, DELTA)) == pytest.approx(3.872, abs=1e-3)
    middle = Errors(308, 1000, 308, 1000).rates(0.95)  # of mu = 1, tested in the middle
    assert float(gaussian_curve.mu(*middle)) == pytest.approx(0.8378, abs=1e-4)
    assert float(gaussian_curve.epsilon(*middle, DELTA)) == pytest.approx(3.570, abs=1e-3)


@pytest.mark.parametrize(
    ("runs", "mu", "eps"), [(100, 3.5928, 3.2813), (1000, 5.3598, 5.6006), (10_000, 6.7504, 7.9048)]
)
def test_the_most_that_runs_can_show(runs, mu, eps):
    rates = no_errors(2 * runs, 2 * runs).rates(0.95)
    assert float(gaussian_curve.mu(*rates)) == pytest.approx(mu, abs=1e-4)
    apart = np.ones(2 * runs), np.zeros(2 * runs)
    found = two_worlds(*apart, delta=DELTA)
    assert found.epsilon == found.limit == pytest.approx(eps, abs=1e-4)
    found = two_worlds(*apart, delta=DELTA, gaussian=True)
    assert found.epsilon == found.limit == pytest.approx(gaussian.epsilon(DELTA, mu), rel=1e-4)


def test_either_order_of_the_inputs_can_be_the_likelier():
    """Rare events of the first input, or of the second: 1 - beta against alpha, and 1 - alpha against beta."""
    assert one_event.epsilon(0.001, 0.9, 0.0) == pytest.approx(np.log(0.1 / 0.001))
    assert one_event.epsilon(0.9, 0.001, 0.0) == pytest.approx(np.log(0.1 / 0.001))
    assert one_event.epsilon(0.6, 0.6, 0.0) == 0.0


def test_a_gaussian_bound_is_worth_more_than_one_event():
    """At eps 2, delta 1e-4 and 1,000 runs, of which half count: 0.96 for 0.39 on average."""
    mu = np.interp(2.0, gaussian.epsilon(1e-4, np.linspace(0.01, 3, 3000)), np.linspace(0.01, 3, 3000))
    each = [
        [two_worlds(*worlds(mu, 1000, seed)[..., 0], delta=1e-4, gaussian=kind).epsilon for kind in (False, True)]
        for seed in range(20)
    ]
    event, whole = np.mean(each, axis=0)
    assert event < 0.5 and 0.85 < whole < 1.1


def test_the_informative_coordinate_is_found_among_many():
    both = worlds(4.0, 800, 0, coordinates=60)
    both[:, :, [0, 37]] = both[:, :, [37, 0]]
    alone = two_worlds(*both[:, :, 37], delta=DELTA)
    assert two_worlds(*both, delta=DELTA) == alone and alone.epsilon > 2
    lower = two_worlds(*-both, delta=DELTA)  # scores that are lower for the first input
    assert lower.epsilon > 2


@pytest.mark.parametrize("runs", [200, 500, 2000])
@pytest.mark.parametrize("gaussian", [True, False])
def test_no_number_of_runs_hides_the_best_test(runs, gaussian):
    """Of some numbers of runs, 500 and 2,000 among them, the upper end of a rate of 1 rounds to more than 1."""
    place = np.arange(1, runs + 1) / (runs + 1)
    scores = 40 + ndtri(np.repeat(place, 2))  # far from any threshold that is not chosen
    found = two_worlds(scores + 2, scores, delta=1e-4, gaussian=gaussian)
    assert found.epsilon > (5.0 if gaussian else 1.5)
    assert two_worlds(scores, scores, delta=1e-4, gaussian=gaussian).epsilon == 0


def test_the_runs_that_choose_a_test_do_not_count():
    """The first half of a score that tells only the choosing runs apart shows nothing."""
    first, second = worlds(0.0, 2000, 1)[..., 0]
    first[::2] += 10
    assert two_worlds(first, second, delta=DELTA).epsilon < 0.5
    first[1::2] += 10
    assert two_worlds(first, second, delta=DELTA).epsilon > 5


def test_a_test_is_chosen_among_those_that_show_nothing_yet():
    """Half of 100 runs leave no test that shows anything once its rates are raised; the one closest to it is taken, and
    shows more than nothing in .74 of cases, .53 if any is taken. Of inputs that are the same in few, and then wrongly.
    """
    shows = lambda mu: np.mean([two_worlds(*worlds(mu, 100, seed)).epsilon > 0 for seed in range(150)])
    assert shows(1.0) > 0.66
    assert shows(0.0) <= stats.binom(150, 0.05).ppf(0.999) / 150
    refuted = [compare(*worlds(1.0, 200, seed), curve(0.3)).contradicted for seed in range(150)]
    assert np.mean(refuted) > 0.65  # .5 if any is taken


MU = 1.0
CLAIM = curve(MU)


def shares(statistic, repeats=100):
    """How often a statistic that looks at runs of mu = 1, or of less noise, exceeds what it is held to."""
    return [np.mean([statistic(mu, seed) for seed in range(repeats)]) for mu in (MU, 2 * MU)]


EXACT = gaussian.epsilon(DELTA, MU)


@pytest.mark.parametrize(
    ("exceeds", "power"),
    [
        (lambda mu, seed: compare(*worlds(mu, 800, seed), CLAIM[:1], gaussian=True).contradicted, 0.99),
        (lambda mu, seed: compare(*worlds(mu, 800, seed), CLAIM).contradicted, 0.95),
        (lambda mu, seed: compare(*worlds(mu, 800, seed), CLAIM, gaussian=True).contradicted, 0.99),
        (lambda mu, seed: compare(*worlds(mu, 800, seed), [CLAIM[4]]).contradicted, 0.9),
    ],
    ids=["gaussian bound", "curve", "curve of a gaussian mechanism", "one pair of a curve"],
)
def test_what_is_true_is_rarely_contradicted_and_half_the_noise_is_seen(exceeds, power):
    """At 95% confidence; the mechanism's figures are exact, so there is no slack."""
    honest, broken = shares(exceeds)
    assert honest <= stats.binom(100, 0.05).ppf(0.999) / 100
    assert broken >= power


def test_one_event_needs_a_tenth_of_the_noise():
    """At delta 1e-5, 800 runs cannot tell half of the noise from all of it."""
    found = lambda mu: two_worlds(*worlds(mu, 800, 3)[..., 0], delta=DELTA).epsilon
    assert found(MU) < found(2 * MU) < EXACT < found(10 * MU)


def sampled(mu, q, trials, seed):
    """With probability q the first input moves the score."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(2, trials))
    return noise[0] + mu * (rng.random(trials) < q), noise[1]


def amplified(mu, q):
    """Eps at some deltas of a sampled Gaussian mechanism, from its law: both orders."""
    x = np.linspace(-12, 12 + mu, 200_001)
    p, base = q * stats.norm.pdf(x - mu) + (1 - q) * stats.norm.pdf(x), stats.norm.pdf(x)
    step = x[1] - x[0]
    profile = lambda eps: max(
        np.maximum(one - np.exp(eps) * other, 0).sum() * step for one, other in ((p, base), (base, p))
    )
    grid = np.linspace(0, 12, 400)
    deltas = np.array([profile(eps) for eps in grid])
    return [(float(np.interp(-each, -deltas, grid)), each) for each in (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2)]


def test_the_curve_of_a_sampled_mechanism():
    """A true claim stands and the same without sampling is caught; a Gaussian bound would call the true claim false."""
    claim = amplified(6.0, 0.1)
    said = [compare(*sampled(6.0, 0.1, 2000, seed), claim).contradicted for seed in range(100)]
    assert np.mean(said) <= stats.binom(100, 0.05).ppf(0.999) / 100
    assert all(compare(*sampled(6.0, 0.4, 2000, seed), claim).contradicted for seed in range(10))
    wrong = [two_worlds(*sampled(6.0, 0.1, 2000, seed), delta=1e-4, gaussian=True).epsilon for seed in range(10)]
    true = claim[0][0]
    assert two_worlds(*sampled(6.0, 0.1, 2000, 0), delta=1e-4).epsilon < true
    assert np.mean(wrong) != pytest.approx(true, rel=0.1)


@pytest.mark.parametrize(("alpha", "beta"), [(0.01, 0.90764), (0.05, 0.74049), (0.3, 0.31718)])
def test_a_claim_is_refuted_below_its_trade_off_curve(alpha, beta):
    """Of a Gaussian mechanism with mu = 1, from its curve at many deltas."""
    claim = curve(1.0, np.linspace(0.002, 0.38, 300))
    excess = lambda beta: max(one_event.epsilon(alpha, beta, delta) - eps for eps, delta in claim)
    assert beta == pytest.approx(ndtr(ndtri(1 - alpha) - 1), abs=1e-5)
    assert excess(beta + 1e-4) <= 0 < excess(beta - 1e-3)


def test_a_curve_is_contradicted_where_its_printed_figure_cannot_be():
    """At delta 1e-5 the figure is above what 400 runs can show; at delta 0.1 they show plenty."""
    apart = worlds(3.0, 400, 0)
    assert compare(*apart, CLAIM[:1]) == (False, 592)
    assert compare(*apart, CLAIM) == (True, 0)


def test_a_gaussian_mechanism_has_to_keep_every_pair_of_a_claim():
    """One pair is that of much noise, the other that of little."""
    tight, loose = curve(0.3)[3:4], curve(4.0)[:1]
    said = [
        compare(*worlds(1.5, 1000, 0), claim, gaussian=True).contradicted for claim in (tight, loose, loose + tight)
    ]
    assert said == [True, False, True]


def test_how_many_runs_a_claim_needs():
    """The least number whose limit is above it."""
    few = worlds(0.0, 10, 0)
    needed = compare(*few, [(3.0, 0.0)]).needed
    limit = lambda trials: float(one_event.epsilon(*no_errors(trials, trials).rates(0.95), 0.0))
    assert limit(needed) > 3 >= limit(needed - 2 - needed // 50)
    assert compare(*few, [(3.0, 1e-5)], gaussian=True).needed < needed
    assert compare(*worlds(0.0, needed, 0), [(3.0, 0.0)]) == (False, 0)
    assert compare(*few, [(60.0, 0.0)]).needed == NEVER


@pytest.mark.parametrize("eps", [60.0, 150.0, 200.0, 286.0])
def test_how_many_runs_a_large_claim_of_a_gaussian_mechanism_needs(eps):
    """Without an error in k = n / 2 runs on each input, rates are at most -log(.025) / k, and mu is as large as their
    quantiles say: from the logarithm of the normal distribution function, far below what 1 - alpha can hold.
    """
    mu = brentq(lambda mu: float(gaussian.delta(eps, mu)) - DELTA, 1.0, 30.0)
    needed = 2 * np.log(40) / np.exp(log_ndtr(-mu / 2))
    found = compare(np.ones(200), np.zeros(200), [(eps, DELTA)], gaussian=True).needed
    assert found == (pytest.approx(needed, rel=0.02) if needed < NEVER else NEVER)


def test_one_run_makes_the_published_bound():
    """Mahloujifar, Melis and Chaudhuri (2024): 86 of 100 guesses about 1,000 canaries, with their code's recursion."""
    assert curve_guesses.gaussian_mu(86, 100, 1000, 0.95) == pytest.approx(0.49541, abs=1e-5)
    assert curve_guesses.gaussian_epsilon(86, 100, 1000, DELTA, 0.95) == pytest.approx(1.9727, abs=1e-4)
    assert curve_guesses.gaussian_mu(50, 100, 1000, 0.95) == 0.0


def canaries(mu, number, seed):
    rng = np.random.default_rng(seed)
    included = rng.random(number) < 0.5
    return rng.normal(size=number) + mu * included, included


def test_one_run_of_a_gaussian_mechanism_is_below_it_and_above_the_other_bound():
    """mu = 1, 1,000 canaries, 100 guesses: .624 on average, above mu in 0.1% of runs, and eps 2.56 for 1.6."""
    bound = functools.cache(lambda right: curve_guesses.gaussian_mu(right, 100, 1000, 0.95))
    scores = [canaries(MU, 1000, seed) for seed in range(200)]
    kinds = [[one_run(*one, guesses=100, delta=DELTA, gaussian=kind) for one in scores[:4]] for kind in (False, True)]
    assert np.mean([one.epsilon for one in kinds[0]]) < 1.9
    assert 2.1 < np.mean([one.epsilon for one in kinds[1]]) < EXACT
    right = [int(one_run(*one, guesses=100, delta=0.0).why.split()[0]) for one in scores]
    mus = np.array([bound(each) for each in right])
    assert 0.59 < mus.mean() < 0.66 and (mus > MU).mean() <= 0.025
    caught = [one_run(*canaries(4 * MU, 1000, seed), guesses=100, delta=DELTA, gaussian=True) for seed in range(2)]
    assert all(one.epsilon > EXACT for one in caught)


def test_one_run_of_a_mechanism_without_privacy_shows_its_limit():
    scores = np.repeat([0.0, 1.0], 500)
    found = one_run(scores, scores == 1, guesses=100, delta=DELTA, gaussian=True)
    assert found.epsilon == found.limit > one_run(scores, scores == 1, guesses=100, delta=DELTA).epsilon


def test_the_errors_of_a_test_are_counted_as_they_fell():
    first, second = np.array([2.0] * 8 + [0.0, 0.0]), np.array([0.0] * 9 + [3.0])
    errors = count_errors(first, second, lambda alpha, beta: -alpha - beta)
    assert errors == (1, 5, 1, 5) and str(errors) == "1 of 5 and 1 of 5 runs guessed wrong"


test_bad_arguments = refused(
    (lambda: compare(np.zeros(9), np.zeros(9), []), r"claim must be pairs \(eps, delta\) with eps >= 0, got \[\]"),
    (lambda: compare(np.zeros(9), np.zeros(9), [(-1.0, 0.0)]), "claim must be pairs"),
    *((lambda bad=bad: unwrap(compare)(np.zeros(9), np.zeros(9), bad), r"claim must be pairs \(eps, delta\)")
      for bad in ([1.0, 2.0, 3.0], [1.0, 0.0], [(1.0, 0.0), (1.0,)], "ab")),
    (lambda: two_worlds(np.array([1.0, 2.0, 3.0, np.nan]), np.zeros(4)), "first .* got 1 of 4 that are not finite"),
    (lambda: compare(np.zeros(9), np.zeros(9), [(1.0, 1.0)]), r"delta must be a number in \[0, 1\), got 1.0"),
    (lambda: compare(np.zeros((9, 2)), np.zeros((9, 3)), [(1.0, 0.0)]), "second must have 2 scores a run, as first"),
    (lambda: two_worlds(np.zeros((9, 0)), np.zeros((9, 0))), "first must be at least 4 finite scores, got"),
)  # fmt: skip
