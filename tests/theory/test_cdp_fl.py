import math
from inspect import unwrap

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy import stats

from fedjax_priv.theory import cdp_fl as theory
from fedjax_priv.theory import gaussian, zcdp

DELTA = 1e-4
SIGMA_5 = 4.901994e-3
FIG_5 = theory.Training(13, 10, clip=1.0, num_selected=10, num_samples=2440, batch_size=244, sigma=SIGMA_5)
FIG_6 = FIG_5._replace(rounds_taken=32, local_steps=5, batch_size=488)
FIG_7 = FIG_5._replace(local_steps=2, batch_size=1220)
MANY = st.integers(1, 60)


@pytest.mark.parametrize(("training", "sigma"), [(FIG_5, 4.902e-3), (FIG_6, 3.845e-3), (FIG_7, 9.804e-4)])
def test_noise_of_the_paper_s_figures(training, sigma):
    assert theory.sigma_for_epsilon(training._replace(sigma=None), 10.0, DELTA) == pytest.approx(sigma, abs=5e-7)


@given(
    taken=MANY, passes=st.integers(1, 5), batches=MANY, batch=MANY, selected=MANY, clip=st.floats(0.01, 50),
    epsilon=st.floats(1e-3, 1e3), delta=st.floats(1e-12, 0.5),
)  # fmt: skip
def test_theorem_1_and_its_inverse(taken, passes, batches, batch, selected, clip, epsilon, delta):
    training = theory.Training(taken, passes * batches, clip, selected, batches * batch, batch)
    sigma = theory.sigma_for_epsilon(training, epsilon, delta)
    rho = 2 * taken * passes * batches * clip**2 / (selected * batches * batch * batch * sigma**2)
    assert theory.epsilon(training._replace(sigma=sigma), delta) == pytest.approx(epsilon, rel=1e-9)
    assert rho + 2 * math.sqrt(rho * math.log(1 / delta)) == pytest.approx(epsilon, rel=1e-9)


def test_theorem_1_of_many_devices_at_once_and_of_one_upload():
    taken = np.array([0, 12, 13])
    training = FIG_5._replace(rounds_taken=taken)
    found = theory.epsilon(training, DELTA)
    assert found[0] == 0 and found[1] < found[2] == pytest.approx(10, rel=1e-6)
    alone = theory.epsilon(training._replace(num_selected=1), DELTA)
    np.testing.assert_array_equal(theory.upload_epsilon(training, DELTA), alone)
    np.testing.assert_array_equal(theory.sigma_for_epsilon(training, 5.0, DELTA) > 0, taken > 0)


def test_dp_sgd_divides_by_the_devices_that_are_summed():
    found = theory.dp_sgd_epsilon(FIG_5, 16, DELTA)
    assert found.corrected == pytest.approx(10, rel=1e-6), "one step a round of the same batches"
    rho = 2 * 13 / (16 * 244**2 * SIGMA_5**2)
    assert found.printed == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e4)))
    proved = theory.proved_rho(FIG_5._replace(local_steps=1))
    assert zcdp.epsilon(proved.rho, DELTA) == pytest.approx(found.corrected, rel=1e-12) and proved.row == 2


def test_logistic_regression_is_proved_and_a_network_is_not():
    logistic = theory.proved_rho(FIG_5, lipschitz=theory.lipschitz_constant(4.0, 0.5, convex=True))
    assert zcdp.epsilon(logistic.rho, DELTA) == pytest.approx(10, rel=1e-6)
    network = theory.proved_rho(FIG_5)
    assert network.rho == pytest.approx(10 * logistic.rho, rel=1e-12) and network.row == 1
    assert theory.proved_epsilon(logistic, DELTA).epsilon == pytest.approx(9.091, abs=5e-4)
    found = theory.proved_epsilon(network, DELTA)
    assert found.epsilon == pytest.approx(39.82, abs=5e-3) and found.exact
    assert found.assumptions == network.assumptions == (theory.ASSUMPTIONS[1],)


@given(selected=st.integers(2, 40), batches=st.integers(1, 40), passes=st.integers(1, 6), share=st.floats(0, 1))
def test_where_theorem_1_is_proved(selected, batches, passes, share):
    def both(steps, parts, lipschitz):
        training = theory.Training(7, steps, 1.3, selected, parts * 3, 3, 0.4)
        proved = theory.proved_rho(training, lipschitz=lipschitz)
        return zcdp.epsilon(proved.rho, DELTA), theory.epsilon(training, DELTA)

    proved, claimed = both(batches, batches, math.sqrt(1 + share * (1 / (selected - 1) - 1e-9)))
    assert proved == pytest.approx(claimed, rel=1e-12)
    proved, claimed = both(passes * (batches + selected), batches + selected, share)
    assert proved <= claimed * (1 + 1e-12)
    proved, claimed = both(1, 1, None)
    assert proved == pytest.approx(claimed, rel=1e-12)


def test_linear_losses_and_whole_passes():
    """Gap 2 eta k G / gamma under noise of variance r tau eta^2 sigma^2: gamma/m times the claim."""
    r, gamma, batches, passes, sigma = 4, 5, 6, 3, 0.7
    steps, m = passes * batches, gamma * batches
    exact = zcdp.gaussian_rho(2 * passes / gamma, math.sqrt(r * steps) * sigma)
    assert theory.epsilon(theory.Training(1, steps, 1.0, r, m, gamma, sigma), DELTA) == pytest.approx(
        zcdp.epsilon(exact * m / gamma, DELTA), rel=1e-12
    )


def test_adversaries():
    def rho(**view):
        return theory.proved_rho(theory.Training(3, 4, 1.0, 10, 20, 5, 1.0), **view).rho * 25 / 6  # in rho_1 and rounds

    assert rho(lipschitz=1.0) == pytest.approx(1 / 10)
    assert rho(lipschitz=1.0, dropped=3) == pytest.approx(1 / 7)
    assert rho(lipschitz=1.0, dropped=3, adversary="device") == pytest.approx(1 / 6)
    assert rho(lipschitz=1.0, dropped=3, adversary="coalition", colluding=5) == pytest.approx(1 / 2)
    assert rho(lipschitz=1.0, adversary="coalition", colluding=9) == pytest.approx(1)
    assert rho(lipschitz=1.0, adversary="everybody") == rho(adversary="everybody", dropped=9) == pytest.approx(1)


def test_rounds_that_differ_are_added_up():
    """Device 0 takes part in rounds 0 and 2, of which the latter loses four uploads; device 1 in round 1."""
    taken, dropped = np.array([[1, 0, 1], [0, 1, 0]]), np.array([0, 9, 4])
    taken[1, 1] = 0
    proved = theory.proved_rho(FIG_5._replace(rounds_taken=taken), dropped=dropped, lipschitz=1.0)
    step = theory.step_rho(1.0, 244, SIGMA_5)
    np.testing.assert_allclose(proved.rho, step * np.array([[1 / 10, 0, 1 / 6], [0, 0, 0]]))
    np.testing.assert_array_equal(proved.row, [[3, 0, 3], [0, 0, 0]])
    found = theory.proved_epsilon(proved, DELTA, axis=-1)
    np.testing.assert_allclose(found.rho, [step * 16 / 60, 0])
    np.testing.assert_allclose(found.epsilon, [zcdp.epsilon(step * 16 / 60, DELTA, "tight"), 0], rtol=1e-12, atol=1e-9)
    assert found.assumptions == (theory.ASSUMPTIONS[3],)


def test_the_exact_conversion_is_used_where_it_says_more():
    """At c = 4 row 3 saves a 16th of rho, less than the exact conversion of row 1 does of eps."""
    proved = theory.proved_rho(FIG_5, lipschitz=4.0)
    assert proved.rho == pytest.approx(proved.gaussian_rho * 15 / 16, rel=1e-6) and proved.row == 3
    found = theory.proved_epsilon(proved, DELTA)
    assert found.exact and found.row == 1 and found.rho == proved.gaussian_rho
    assert found.epsilon < zcdp.epsilon(proved.rho, DELTA, "tight")


@pytest.mark.parametrize(("adversary", "steps", "uploads"), [("everybody", 30, 1), ("server", 1, 10)])
def test_rho_is_that_of_dp_accounting(adversary, steps, uploads):
    """Noise multiplier gamma sigma / (2G) for each use, sqrt(h) times that for the sum of single steps."""
    proved = theory.proved_rho(theory.Training(4, steps, 2.0, 10, 100, 10, 0.9), adversary=adversary)
    uses = 4 * math.ceil(steps / 10)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(GaussianDpEvent(math.sqrt(uploads) * 10 * 0.9 / (2 * 2.0)), uses)
    found = theory.proved_epsilon(proved, 1e-5)
    assert found.exact and found.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_amplification_at_the_noise_of_figure_5():
    found = theory.amplified_epsilon(FIG_5._replace(rounds_taken=np.array([0, 13])), DELTA)
    assert found[0] == 0 and found[1] == pytest.approx(0.801, abs=5e-4)


POINTS = np.linspace(-12, 12, 400_001)


def composed_delta(here, there, rounds, epsilon, width=2e-4):
    """Of `rounds` sums with densities on `POINTS`, from the law of the privacy loss rounded down, by FFT."""
    loss = np.floor(np.log(here / there) / width).astype(int)
    law = np.bincount(loss - loss.min(), weights=here * (POINTS[1] - POINTS[0]))
    size = rounds * len(law)
    total = np.fft.irfft(np.fft.rfft(law, 2 * size) ** rounds, 2 * size)[:size]
    losses = (np.arange(size) + rounds * loss.min()) * width
    return total @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0)


def sums(q, used):
    """Density of a sum with noise of deviation 1, of mean `used` if the sample is in the batch, else 0."""
    return q * stats.norm.pdf(POINTS, used) + (1 - q) * stats.norm.pdf(POINTS)


@pytest.mark.parametrize(("rounds", "least"), [(1, 0.999), (13, 0.955)])
def test_an_opponent_attains_nearly_all_of_the_amplified_epsilon(rounds, least):
    """All gradients are -G, and that of one sample may be G. Where the others are 0 instead, much less is seen."""
    found = theory.amplified_epsilon(FIG_5._replace(rounds_taken=rounds), DELTA)
    gap = math.sqrt(2 * theory.step_rho(1.0, 244, SIGMA_5) / 10)
    here, there = sums(0.1, gap), sums(0.0, gap)
    attained = lambda eps: max(composed_delta(here, there, rounds, eps), composed_delta(there, here, rounds, eps))
    assert attained(1.001 * found) < DELTA < attained(least * found)
    assert composed_delta(sums(0.1, gap / 2), sums(0.1, -gap / 2), rounds, 0.75 * found) < DELTA
    full = gaussian.epsilon(DELTA, math.sqrt(rounds) * gap)
    same = composed_delta(sums(1.0, gap), there, rounds, full)
    assert same == pytest.approx(DELTA, rel=0.02), "the law is composed as it should be"


@pytest.mark.parametrize("samples", [10, 7])
def test_a_full_batch_is_the_gaussian_mechanism(samples):
    full = theory.amplified_epsilon(theory.Training(5, 1, 1.0, 1, samples, 10, 0.4), DELTA)
    rho = 5 * theory.step_rho(1.0, 10, 0.4)
    exact = gaussian.epsilon(DELTA, math.sqrt(2 * rho))
    assert exact <= full < 1.001 * exact


def test_delta_before_the_draw():
    deltas = np.array([[0.0, 0.1, 0.3, 0.7], [0.0, 0.2, 0.2, 0.9]])
    chances = np.array([(3 / 4) ** 3, 3 * (3 / 4) ** 2 / 4, 3 * (3 / 4) / 16, 1 / 64])
    np.testing.assert_allclose(theory.delta_before_draw(deltas, 2, 8), deltas @ chances)
    np.testing.assert_allclose(theory.delta_before_draw(deltas, 8, 8), deltas[:, -1])


@given(rate=st.floats(0, 5), first=st.floats(-3, 3), second=st.floats(-3, 3))
def test_lipschitz_constant(rate, first, second):
    """Of steps on losses 1.5 log(1 + e^2x), which are convex and 1.5-smooth, and of 1.5 cos x, which are not convex."""
    convex, other = (theory.lipschitz_constant(rate, 1.5, convex=convex) for convex in (True, False))
    assert convex == 1 or rate > 2 / 1.5
    sigmoid = lambda x: 3 / (1 + math.exp(-2 * x))
    for gradient, bound in ((sigmoid, convex), (lambda x: 1.5 * math.sin(x), other), (lambda x: 1.5 * x, convex)):
        moved = abs(first - second - rate * (gradient(first) - gradient(second)))
        assert moved <= bound * abs(first - second) + 1e-12


SMALL = theory.Training(2, 4, 1.0, 5, 12, 3, 1.0)


test_bad_arguments = refused(
    (lambda: unwrap(theory.delta_before_draw)(0.0, 1, 2), "delta must be an array .*, with a last axis"),
    (lambda: theory.delta_before_draw(np.zeros(0), 1, 2), "delta must be an array .*, with a last axis"),
    (lambda: theory.epsilon(SMALL._replace(local_steps=6), 0.1), "local_steps must be a multiple of num_samples"),
    (lambda: theory.epsilon(SMALL._replace(batch_size=5), 0.1), "batch_size must be a divisor of num_samples = 12"),
    (lambda: theory.epsilon(SMALL._replace(rounds_taken=-1), 0.1), "rounds_taken must be an integer >= 0, got -1"),
    (lambda: theory.epsilon(SMALL._replace(rounds_taken=1.5), 0.1), "rounds_taken must be an integer >= 0, got 1."),
    (lambda: theory.epsilon(SMALL._replace(sigma=0.0), 0.1), r"sigma must be in \(0, inf\), got 0.0"),
    (lambda: theory.epsilon(SMALL._replace(sigma=None), 0.1), r"sigma must be in \(0, inf\), got None"),
    (lambda: theory.epsilon(SMALL._replace(clip=0.0), 0.1), r"clip must be in \(0, inf\), got 0.0"),
    (lambda: theory.epsilon(SMALL._replace(num_selected=0), 0.1), "num_selected must be an integer >= 1, got 0"),
    (lambda: theory.epsilon(SMALL._replace(num_samples=0), 0.1), "num_samples must be an integer >= 1, got 0"),
    (lambda: theory.epsilon(SMALL, 1.0), r"delta must be in \(0, 1\), got 1.0"),
    (lambda: theory.upload_epsilon(SMALL._replace(local_steps=5), 0.1), "local_steps must be a multiple of"),
    (lambda: theory.sigma_for_epsilon(SMALL, 0.0, 0.1), r"epsilon must be in \(0, inf\), got 0.0"),
    (lambda: theory.dp_sgd_epsilon(SMALL, 4, 0.1), "num_selected must be at most num_devices = 4"),
    (lambda: theory.delta_before_draw(np.ones(3), 5, 4), "num_selected must be at most num_devices = 4"),
    (lambda: theory.delta_before_draw(np.full(3, 2.0), 1, 4), r"delta must be in \[0, 1\], got"),
    (lambda: unwrap(theory.proved_rho)(SMALL, adversary="client"),
     "adversary must be one of 'everybody', 'server', 'device', 'coalition', got 'client'"),
    (lambda: theory.proved_rho(SMALL, colluding=2), "colluding must be 0 unless adversary = 'coalition', got 2"),
    (lambda: theory.proved_rho(SMALL, adversary="device", dropped=4),
     "dropped must be below num_selected = 5 less the colluding devices, got 4"),
    (lambda: theory.proved_rho(SMALL, dropped=-1), "dropped must be an integer >= 0, got -1"),
    (lambda: theory.proved_rho(SMALL, lipschitz=-1.0), r"lipschitz must be in \[0, inf\), got -1.0"),
    (lambda: theory.proved_epsilon(theory.proved_rho(SMALL), 0.0), r"delta must be in \(0, 1\), got 0.0"),
    (lambda: theory.lipschitz_constant(-1.0, 1.0, convex=True), r"rate must be in \[0, inf\), got -1.0"),
)  # fmt: skip
