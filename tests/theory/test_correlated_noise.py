"""Matrices of correlated noise: printed numbers, brute force over participations, dense float64 matrices, scipy."""

import itertools
from inspect import unwrap

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from dp_accounting.pld import privacy_loss_distribution
from refusals import each, refused
from scipy.stats import norm

from fedjax_priv.theory import correlated_noise as cn
from fedjax_priv.theory import gaussian, sampled_gaussian
from fedjax_priv.theory.correlated_noise import Schedule, Workload
from fedjax_priv.theory.correlated_noise.optimal import _banded_loss
from fedjax_priv.theory.correlated_noise.sensitivity import padded
from fedjax_priv.theory.sampled_gaussian import Round

N, K, B = 14, 3, 4
SHORT = Schedule(N, B, K)
ONCE = Schedule(1024, 1024)
OFTEN = Schedule(1024, 128, 8)


def dense(column, n):
    column = np.pad(np.asarray(column, float)[:n], (0, max(0, n - len(column))))
    return np.tril(scipy.linalg.toeplitz(column))


def brute_force(matrix, schedule):
    """The largest sum over a set of rounds of |C^T C|, root; over all sets of at most k rounds at least b apart."""
    gram = np.abs(matrix.T @ matrix)
    best = 0
    for k in range(1, schedule.participations + 1):
        for rounds in itertools.combinations(range(schedule.num_rounds), k):
            if min(np.diff(rounds), default=schedule.separation) >= schedule.separation:
                best = max(best, gram[np.ix_(rounds, rounds)].sum())
    return np.sqrt(best)


def bisr(bands, n=1024):
    return cn.column_of_inverse(cn.inverse_square_root(bands), n)


def figures(column, schedule):
    """Sensitivity, max and rms error at equal privacy."""
    sensitivity, errors = cn.toeplitz_sensitivity(column, schedule), cn.toeplitz_error(column, schedule.num_rounds)
    return sensitivity, sensitivity * errors.max(), sensitivity * cn.root_mean_square(errors)


def test_coefficients_as_printed():
    np.testing.assert_allclose(cn.square_root(4), [1, 1 / 2, 3 / 8, 5 / 16])
    np.testing.assert_allclose(cn.inverse_square_root(4), [1, -1 / 2, -1 / 8, -1 / 16])
    np.testing.assert_allclose(cn.square_root(4, Workload(0.9)), [1, 0.95, 0.90375, 0.8609375])
    np.testing.assert_allclose(bisr(2, 4), [1, 0.5, 0.25, 0.125])
    np.testing.assert_allclose(bisr(4, 5), [1, 0.5, 0.375, 0.3125, 0.234375])
    np.testing.assert_allclose(cn.buffered_column([0.3, 0.2], [0.9, 0.5], 3), [1, 0.5, 0.37])


@pytest.mark.parametrize("workload", [Workload(), Workload(0.9), Workload(0.5, 0.97)])
def test_square_roots_are_those_of_the_optimizer(workload):
    """A by running the optimizer on each direction alone."""
    n, ran = 9, np.zeros((9, 9))
    for start in range(n):
        velocity, iterate = 0.0, 0.0
        for t in range(n):
            velocity = workload.momentum * velocity + (t == start)
            iterate = workload.decay * iterate + velocity
            ran[t, start] = iterate
    np.testing.assert_allclose(dense(cn.workload_column(n, workload), n), ran)
    root, inverse = (dense(column(n, workload), n) for column in (cn.square_root, cn.inverse_square_root))
    np.testing.assert_allclose(root @ root, ran)
    np.testing.assert_allclose(root @ inverse, np.eye(n), atol=1e-14)
    errors = np.linalg.norm(ran @ np.linalg.inv(dense(cn.square_root(3, workload), n)), axis=1)
    np.testing.assert_allclose(cn.toeplitz_error(cn.square_root(3, workload), n, workload), errors)


@pytest.mark.parametrize(("n", "error"), [(16, 1.943879), (256, 2.831050), (1024, 3.272554), (2048, 3.493229)])
def test_max_error_of_the_square_root(n, error):
    assert figures(cn.square_root(n), Schedule(n, n))[1] == pytest.approx(error, abs=6e-7)
    assert figures([1.0], Schedule(n, n))[1] == pytest.approx(np.sqrt(n))


def test_control_a_sign_error_is_seen_in_the_error_and_not_in_the_sensitivity():
    wrong = cn.column_of_inverse(np.abs(cn.inverse_square_root(1024)), 1024)
    right = cn.toeplitz_sensitivity(cn.square_root(1024), ONCE)
    assert right == pytest.approx(1.8090, abs=6e-5)
    assert cn.toeplitz_sensitivity(wrong, ONCE) == pytest.approx(1.1269, abs=6e-5)
    assert right * cn.toeplitz_error(wrong, 1024).max() == pytest.approx(113.77, abs=6e-3)


def test_control_telescoping_noise():
    """z_t - z_{t-1} is the inverse of the prefix sum, which a client moves far more than the square root."""
    telescoping = cn.column_of_inverse([1.0, -1.0], 1024)
    moved = cn.toeplitz_sensitivity(telescoping, ONCE)
    assert moved == pytest.approx(32) and moved / cn.toeplitz_sensitivity(cn.square_root(1024), ONCE) > 17.68


TABLE = {
    "identity": ([1.0], 2.82843, 90.510, 64.031),
    "square root": (cn.square_root(1024), 7.57609, 13.705, 13.024),
    "BSR 8": (cn.square_root(8), 3.70770, 37.944, 26.973),
    "BSR 32": (cn.square_root(32), 4.16363, 21.559, 15.666),
    "BSR 128": (cn.square_root(128), 4.56955, 13.105, 10.294),
    "BISR 2": (bisr(2), 3.26599, 52.332, 37.077),
    "BISR 4": (bisr(4), 3.60267, 36.224, 25.765),
    "BISR 8": (bisr(8), 3.87346, 26.356, 18.918),
    "BISR 32": (bisr(32), 4.39159, 15.384, 11.666),
}


@pytest.mark.parametrize("name", TABLE)
def test_figures_of_eight_participations(name):
    column, *printed = TABLE[name]
    assert (np.abs(np.subtract(figures(column, OFTEN), printed)) <= [5.1e-6, 5.1e-4, 5.1e-4]).all()


def test_a_buffered_matrix():
    column = cn.buffered_column([0.3, 0.2], [0.95, 0.5], 256)
    np.testing.assert_allclose(figures(column, Schedule(256, 256)), [1.484918, 3.719948, 2.947226], atol=6e-7)


@pytest.mark.parametrize(
    ("schedule", "sensitivity", "plain", "reduced"),
    [
        (ONCE, np.sqrt(11), (10.4881, 7.4169), (7.9895, 5.6499)),
        (OFTEN, np.sqrt(176), (41.952, 29.668), (31.958, 22.600)),
    ],
)
def test_figures_of_trees(schedule, sensitivity, plain, reduced):
    assert cn.tree_sensitivity(schedule) == pytest.approx(sensitivity)
    for printed, variance_reduced in ((plain, False), (reduced, True)):
        errors = sensitivity * cn.tree_error(1024, variance_reduced=variance_reduced)
        np.testing.assert_allclose([errors.max(), cn.root_mean_square(errors)], printed, rtol=0, atol=6e-4)


@pytest.mark.parametrize(
    ("column", "printed"),
    [(cn.square_root(N), 3.024868), (cn.square_root(4), 2.113018), (bisr(3, N), 2.403180)],
)
def test_brute_force_over_participations(column, printed):
    assert brute_force(dense(column, N), SHORT) == pytest.approx(printed, abs=6e-7)
    assert cn.toeplitz_sensitivity(column, SHORT) == pytest.approx(printed, abs=6e-7)
    once = cn.toeplitz_sensitivity(column, SHORT._replace(participations=1))
    assert once < printed / 1.5  # control: a client that takes part once


@pytest.mark.parametrize("seed", range(6))
def test_any_signs(seed):
    """Exact with at most b bands; from above otherwise."""
    rng = np.random.default_rng(seed)
    for bands, exact in ((B, True), (B + 1, False), (N, False)):
        column = np.append(1.0, rng.normal(size=bands - 1) / 2)
        found, truth = cn.toeplitz_sensitivity(column, SHORT), brute_force(dense(column, N), SHORT)
        assert found == pytest.approx(truth) if exact else found >= truth


def test_control_normalized_columns_break_the_formula():
    """Columns of norm 1, as factorizations for one epoch have them: two rounds of a client move more at the end."""
    matrix = dense(cn.square_root(N), N)
    matrix /= np.linalg.norm(matrix, axis=0)
    by_first_column = cn.toeplitz_sensitivity(matrix[:, 0], SHORT)
    assert brute_force(matrix, SHORT) > 1.02 * by_first_column


def nodes(n, leaves):
    """The matrix of trees: a row for each complete interval."""
    rows = []
    for start in range(0, n, leaves):
        size = min(leaves, n - start)
        for height in range(size.bit_length()):
            for index in range(size >> height):
                row = np.zeros(n)
                row[start + (index << height) :][: 1 << height] = 1
                rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(
    ("n", "b", "k", "leaves", "exact"),
    [
        (16, 4, 4, 16, True),
        (13, 2, 3, 13, False),
        (14, 3, 3, 5, False),
        (12, 1, 3, 8, False),
        (12, 1, 12, 4, True),
        (7, 1, 7, 7, True),  # a round is in no node of 4
        (11, 1, 11, 4, True),  # three are in a tree that is not full
    ],
)
def test_trees_by_brute_force(n, b, k, leaves, exact):
    schedule = Schedule(n, b, k)
    found, truth = cn.tree_sensitivity(schedule, leaves), brute_force(nodes(n, leaves), schedule)
    assert found >= truth - 1e-12
    if exact:
        assert found == pytest.approx(truth)


@pytest.mark.parametrize("leaves", [16, 11, 4])
def test_errors_of_trees_by_least_squares(leaves):
    """The best estimate of a sum from complete nodes of its rounds only: sums of different intervals do not help."""
    n = 16
    plain, reduced = cn.tree_error(n, leaves, variance_reduced=False), cn.tree_error(n, leaves)
    for t in range(1, n + 1):
        trees = [size for size in [leaves] * (t // leaves) + [t % leaves] if size]
        assert plain[t - 1] ** 2 == pytest.approx(sum(size.bit_count() for size in trees))
        best = [np.linalg.inv(m.T @ m).sum() for m in (nodes(size, size) for size in trees)]
        assert reduced[t - 1] ** 2 == pytest.approx(sum(best))


@pytest.mark.parametrize(("bands", "rms", "bsr"), [(4, 3.24059, 3.35113), (8, 2.66397, 2.71943)])
def test_optimal_bands(bands, rms, bsr):
    column = cn.optimal_banded(64, bands)
    assert column is cn.optimal_banded(64, bands) and np.linalg.norm(column) == pytest.approx(1)
    assert cn.root_mean_square(cn.toeplitz_error(column, 64)) == pytest.approx(rms, abs=6e-6)
    if bands == 4:
        np.testing.assert_allclose(column / column[0], [1, 0.67021, 0.56174, 0.47945], atol=6e-6)
    assert figures(cn.square_root(bands), Schedule(64, 64))[2] == pytest.approx(bsr, abs=6e-6)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 2


def test_optimal_bands_are_a_minimum_for_momentum_too():
    """A search that knows no gradient, on dense matrices, finds nothing better."""
    n, workload = 12, Workload(0.8, 0.95)
    a = dense(cn.workload_column(n, workload), n)
    loss = lambda later: (
        np.linalg.norm(a @ np.linalg.inv(dense([1.0, *later], n))) * np.linalg.norm([1.0, *later]) / np.sqrt(n)
    )
    found = cn.optimal_banded(n, 3, workload)
    ours = loss(found[1:] / found[0])
    theirs = scipy.optimize.minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert ours == pytest.approx(theirs.fun, rel=1e-9)
    assert ours < loss(cn.square_root(3, workload)[1:]) * 0.999
    np.testing.assert_allclose(cn.optimal_banded(n, 1), [1.0])


def test_optimal_bands_of_many_rounds():
    """No column nearby has a smaller error, and one whose error is no float64 ends no search."""
    n = 20_000
    column = cn.optimal_banded(n, 6)
    error = lambda c: cn.root_mean_square(cn.toeplitz_error(c / np.linalg.norm(c), n))
    for step in 1e-3 * np.random.default_rng(0).normal(size=(20, 6)):
        assert error(column + step) > error(column)
    far, slope = _banded_loss(np.array([-3.0]), cn.workload_column(2_000))
    assert far > 100 + np.log(error(column))
    assert slope == 0


def test_optimal_buffers():
    """Little is left to gain over the best of all Toeplitz matrices, and one given by hand is far away."""
    n = 256
    once = Schedule(n, n)
    weights, decays = cn.optimal_buffered(once, 2)
    ours = figures(cn.buffered_column(weights, decays, n), once)[2]
    best = cn.root_mean_square(cn.toeplitz_error(cn.optimal_banded(n, n), n))
    assert best <= ours < 1.003 * best
    assert figures(cn.buffered_column([0.3, 0.2], [0.95, 0.5], n), once)[2] > 1.1 * ours
    often = Schedule(n, 32)
    column = lambda schedule: cn.buffered_column(*cn.optimal_buffered(schedule, 1), n)
    assert figures(column(often), often)[2] < 0.99 * figures(column(once), often)[2]


def test_epsilon_and_its_inverse():
    """mu-GDP: delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    sensitivity = cn.toeplitz_sensitivity(cn.square_root(128), OFTEN)
    for neighbours, times in (("zero-out", 1), ("replacement", 2)):
        mu = times * sensitivity / 6.0
        eps = cn.epsilon(1e-5, 6.0, sensitivity, neighbours)
        delta = norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
        assert delta == pytest.approx(1e-5, rel=1e-8) and cn.mu(6.0, sensitivity, neighbours) == mu
        assert cn.noise_multiplier_for(float(eps), 1e-5, sensitivity, neighbours) == pytest.approx(6.0, rel=1e-9)
    assert cn.epsilon(1e-5, 1.0, 10.0) == pytest.approx(91.817, abs=6e-4)  # k = 100 rounds, columns of norm 1
    assert cn.epsilon(1e-5, 1.0, 1.0) == gaussian.epsilon(1e-5, 1.0)


def test_amplification_by_coins():
    """Ten groups, rate 0.1, 1,000 rounds: 100 rounds of DP-FedAvg, as dp-accounting has them."""
    schedule, column = Schedule(1000, 10), 3 * cn.optimal_banded(1000, 10)  # any multiple of C, with its noise
    rounds = cn.by_coins(Round(3.0, 0.1), column, schedule)
    assert rounds == [(Round(pytest.approx(1.0), 0.1), 100)]
    theirs = privacy_loss_distribution.from_gaussian_mechanism(1.0, sampling_prob=0.1).self_compose(100)
    assert sampled_gaussian.epsilon(1e-5, rounds) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-3)
    assert sampled_gaussian.epsilon(1e-5, rounds) == pytest.approx(7.0466, abs=2e-3)
    unamplified = cn.epsilon(1e-5, 3.0, cn.toeplitz_sensitivity(column, schedule))
    assert unamplified == pytest.approx(91.817, abs=6e-4)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7])
def test_the_sensitivity_is_of_the_sum_of_moved_columns(k):
    column = cn.square_root(20)
    moved = sum(np.concatenate([np.zeros(3 * i), column[: 20 - 3 * i]]) for i in range(k))
    assert cn.toeplitz_sensitivity(column, Schedule(20, 3, k)) == pytest.approx(np.linalg.norm(moved), rel=1e-14)


def test_columns_of_many_rounds_take_seconds():
    column = cn.square_root(2**17)
    assert column[-1] == pytest.approx(1 / np.sqrt(np.pi * 2**17), rel=1e-4)
    assert cn.toeplitz_sensitivity(np.ones(1), Schedule(2**17)) == pytest.approx(2**8.5)
    assert cn.toeplitz_sensitivity(column, Schedule(2**17)) > 2**8.5


COLUMN = "column must be finite numbers, the first > 0"
TWO = np.array([0.1, 0.2])
test_refusals = refused(
    *((lambda bad=bad: unwrap(cn.noise_multiplier_for)(
        **({"epsilon": 1.0, "delta": 0.1, "sensitivity": 1.0} | bad)), f"{name} must be one number in")
      for bad, name in each(epsilon=[TWO], delta=[TWO], sensitivity=[TWO])),
    (lambda: unwrap(cn.by_coins)(Round(1.0, 0.1)._replace(noise_multiplier=TWO), np.ones(1), Schedule(4)),
     "noise_multiplier must be one number in"),
    *((lambda bad=bad: cn.toeplitz_sensitivity(bad, SHORT), COLUMN) for bad in ([], [0.0], np.eye(1), [1.0, np.inf])),
    *((lambda bad=bad: unwrap(padded)(bad, 4), COLUMN) for bad in ("ab", ["a"])),
    (lambda: cn.square_root(0), "bands must be an integer >= 1"),
    (lambda: cn.square_root(3, Workload(1.0)), r"momentum must be in \[0, 1\)"),
    (lambda: cn.inverse_square_root(3, Workload(0.5, 0.0)), r"decay must be in \(0, 1\]"),
    (lambda: cn.column_of_inverse([0.0, 1.0], 4), "coefficients must be finite numbers, the first not 0"),
    (lambda: cn.buffered_column([1.0], [1.0], 4), r"decays must be in \[0, 1\)"),
    (lambda: cn.buffered_column([1.0], [0.1, 0.2], 4), "weights must be as many numbers as decays, 2"),
    (lambda: cn.optimal_banded(4, 5), "bands must be at most num_rounds = 4, got 5"),
    (lambda: cn.optimal_banded(2**20, 257), "bands must be at most 256 at num_rounds = 1048576, whose search takes"),
    (lambda: cn.by_coins(Round(), [1.0, 0.5, 0.1], Schedule(9, 2)), "column must be at most separation = 2 numbers"),
    (lambda: cn.by_coins(Round(sampling="fixed size"), [1.0], Schedule(9, 2)), 'sampling must be "poisson"'),
    (lambda: cn.by_coins(Round(), [1.0], Schedule(9, 2, 1)), "participations must be None: .*, got 1"),
    *((lambda of=of: unwrap(of)(4, 2, "no"), "variance_reduced must be one of True, False, got 'no'")
      for of in (cn.tree_error, cn.tree_rows)),
    (lambda: cn.tree_error(0), "num_rounds must be"), (lambda: cn.tree_error(4, 0), "leaves must be"),
    (lambda: unwrap(cn.mu)(1.0, 1.0, "add"), "neighbours must be one of 'zero-out', 'replacement', got 'add'"),
    *((lambda of=of: of(2**40), f"{name} must be an integer from 1 to 1048576, got")
      for of, name in [(cn.square_root, "bands"), (cn.workload_column, "num_rounds"), (cn.tree_error, "num_rounds"),
                       (lambda n: cn.column_of_inverse([1.0], n), "num_rounds"),
                       (lambda n: cn.tree_sensitivity(Schedule(n)), "num_rounds")]),
    (lambda: cn.optimal_buffered(SHORT, 2**40), "buffers must be an integer from 1 to 100, got"),
    *((lambda bad=bad: cn.tree_sensitivity(Schedule(4)._replace(**bad)), f"{name} must be")
      for bad, name in each(num_rounds=[0], separation=[0, 1.5], participations=[0])),
)  # fmt: skip
