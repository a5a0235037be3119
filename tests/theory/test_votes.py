"""How often a vote is wrong: printed digits, simulation, and what would be wrong if ties counted as right."""

from inspect import unwrap

import numpy as np
import pytest
from refusals import each, refused
from scipy import special

from fedjax_priv.theory import gaussian
from fedjax_priv.theory import votes as theory
from fedjax_priv.theory.wireless import truncation_level

RUNS = 200_000


def simulated(voters, wrong, level, against=0):
    """Signs and noise drawn one by one, N0 = 1; the truth is +."""
    rng = np.random.default_rng(3)
    signs = 1 - 2 * (rng.random((RUNS, voters)) < wrong)
    return (level * (signs.sum(1) - against) + rng.normal(size=RUNS) < 0).mean()


def errors_apart(found, expected):
    return abs(found - expected) / np.sqrt(expected * (1 - expected) / RUNS)


CASES = [(10, 0.3, 1.0, 0, 0.102533), (11, 0.3, 0.3, 0, 0.165192), (50, 0.45, 0.1, 0, 0.341096),
         (16, 0.3, 1.0, 4, 0.260248)]  # fmt: skip


@pytest.mark.parametrize(("voters", "wrong", "level", "against", "digits"), CASES)
def test_votes_over_noise(voters, wrong, level, against, digits):
    exact = theory.vote_error(voters, wrong, level, against=against)
    assert exact == pytest.approx(digits, abs=6e-7)
    assert errors_apart(simulated(voters, wrong, level, against), exact) < 3
    if not against:
        assert exact <= theory.vote_error_bound(voters, wrong, level)


def test_a_tie_that_counted_as_right_would_show():
    """Control of the test above, which a tie counted as right fails: of ten voters five are wrong one time in ten."""
    law = theory._number_wrong(10, 0.3)
    ties = law[5] / 2
    assert ties > 0.05 and errors_apart(simulated(10, 0.3, 1.0), theory.vote_error(10, 0.3, 1.0) - ties) > 3
    clear = theory.vote_error(10, 0.3)
    assert clear == pytest.approx(law[6:].sum() + ties) and theory.vote_error(0, 0.3) == 0.5


def test_unequal_voters_are_a_poisson_binomial():
    q = np.array([0.1, 0.45, 0.3, 0.8])
    rng = np.random.default_rng(0)
    wrong = (rng.random((RUNS, 4)) < q).sum(1)
    found = ((wrong > 2) + (wrong == 2) / 2).mean()
    assert errors_apart(found, theory.vote_error(4, q)) < 3
    assert theory.vote_error(4, np.full(4, 0.3), 0.7) == pytest.approx(theory.vote_error(4, 0.3, 0.7), rel=1e-12)


def test_many_voters_err_as_a_normal_law_says():
    r, q = 1_000_000, 0.4995
    expected = special.ndtr(-(1 - 2 * q) * r / np.sqrt(4 * r * q * (1 - q)))
    assert theory.vote_error(r, q) == pytest.approx(expected, rel=1e-4)


def test_votes_through_rayleigh_fading():
    """K = 20, q = 0.3, g = 0.2, P = 1; the level spends P on average, and truncation costs votes."""
    level = truncation_level(1.0, 0.2, energy_received=1.0)
    assert level == pytest.approx(0.904376, abs=6e-7)
    exact = theory.faded_vote_error(20, 0.3, threshold=0.2, energy=1.0)
    assert exact == pytest.approx(0.0517777, abs=6e-8)
    assert theory.vote_error(20, 0.3) == pytest.approx(0.0325534, abs=6e-8)
    rng = np.random.default_rng(1)
    square = rng.exponential(size=(RUNS, 20))
    signs = 1 - 2 * (rng.random((RUNS, 20)) < 0.3)
    y = level * (signs * (square >= 0.2)).sum(1) + rng.normal(size=RUNS)
    assert errors_apart((y < 0).mean(), exact) < 3
    spent = np.where(square >= 0.2, level**2 / square, 0).mean(1)
    assert spent.mean() == pytest.approx(1.0, abs=3 * spent.std() / np.sqrt(RUNS))


def test_two_tones():
    """7 / 22, against energies of two tones; more energy does not help."""
    exact = theory.two_tone_error(7, 3, energy=2.0, noise=0.5)
    assert exact == pytest.approx(7 / 22, rel=1e-12)
    rng = np.random.default_rng(2)
    normal = lambda n: (rng.normal(size=(RUNS, n)) + 1j * rng.normal(size=(RUNS, n))).sum(1) / np.sqrt(2)
    right, wrong = (np.abs(np.sqrt(2.0) * normal(n) + normal(1)) ** 2 for n in (7, 3))  # N = 1
    assert errors_apart((right < wrong).mean(), exact) < 3
    assert theory.two_tone_error(7, 3, energy=1e12) == pytest.approx(0.3)


def test_energies_and_levels_of_any_size():
    assert theory.two_tone_error(7, 3, energy=1e308) == pytest.approx(0.3)
    assert theory.two_tone_error(7, 3, energy=2e300, noise=5e299) == pytest.approx(7 / 22, rel=1e-12)
    assert theory.two_tone_error(7, 3, energy=1e-300, noise=1e308) == 0.5 == theory.two_tone_error(0, 0, 1.0)
    noiseless = np.exp(-0.8)  # (r (1 - 2 q))^2 / (2 r)
    assert theory.vote_error_bound(10, 0.3, 1e160) == pytest.approx(noiseless, rel=1e-12)
    assert theory.vote_error_bound(10, 0.3, 1e-200) == 1
    as_printed = np.exp(-((0.3 * 10 * 0.4) ** 2) / (2 * (0.3**2 * 10 + 2.0)))
    assert theory.vote_error_bound(10, 0.3, 0.3, noise=2.0) == pytest.approx(as_printed, rel=1e-12)


def test_what_a_vote_leaks():
    """All signs turned: 177.20 at d = 7,850, which is no privacy; attained by y = +-c sqrt(d) along one line."""
    s = theory.vote_sensitivity(7850, 1.0)
    assert s == pytest.approx(177.20, abs=5e-3)
    assert gaussian.epsilon(1e-5, s) == pytest.approx(16455, abs=1)
    shift = np.linalg.norm(0.3 * np.ones(7850) - 0.3 * -np.ones(7850)) / np.sqrt(2.0)
    assert theory.vote_sensitivity(7850, 0.3, 2.0) == pytest.approx(shift)


TWO = np.array([0.1, 0.2])
test_out_of_range = refused(
    *(
        (
            lambda bad=bad: unwrap(theory.faded_vote_error)(
                **({"users": 1, "wrong": 0.3, "threshold": 0.2, "energy": 1.0} | bad)
            ),
            f"{name} must be one number in",
        )
        for bad, name in each(wrong=[TWO], threshold=[TWO], energy=[TWO], noise=[TWO])
    ),
    (lambda: theory.vote_error(-1, 0.3), "voters"),
    (lambda: theory.vote_error(2**40, 0.3), "voters must be an integer from 0 to 1000000, got 1099511627776"),
    (lambda: theory.vote_error(10_001, np.full(10_001, 0.3)), "voters must be at most 10000 with one wrong per voter"),
    (
        lambda: theory.faded_vote_error(2**40, 0.3, threshold=0.2, energy=1.0),
        "users must be an integer from 1 to 10000",
    ),
    (lambda: theory.vote_error(3, 1.3), "wrong"),
    (lambda: theory.vote_error(3, np.array([0.1, 0.2])), "wrong"),
    (lambda: theory.vote_error(3, 0.3, 0.0), "level"),
    (lambda: theory.vote_error(3, 0.3, 1.0, 0.0), "noise"),
    (lambda: theory.vote_error(3, 0.3, against=-1), "against"),
    (lambda: theory.vote_error_bound(3, 0.6, 1.0), "wrong"),
    (lambda: theory.faded_vote_error(3, 0.3, threshold=0.0, energy=1.0), "threshold"),
    (lambda: theory.faded_vote_error(3, 0.3, threshold=0.2, energy=0.0), "energy"),
    (lambda: theory.faded_vote_error(0, 0.3, threshold=0.2, energy=1.0), "users"),
    (lambda: theory.two_tone_error(-1, 3, 1.0), "right"),
    (lambda: theory.vote_sensitivity(0, 1.0), "num_params"),
)
