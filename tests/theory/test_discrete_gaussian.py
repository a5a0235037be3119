"""The distributed discrete Gaussian: figures of the paper's set-up, sums over the exact law, Monte Carlo in NumPy."""

import math
from inspect import unwrap

import numpy as np
import pytest
from refusals import each, refused
from scipy import optimize, stats

from fedjax_priv.theory import discrete_gaussian as theory
from fedjax_priv.theory import gaussian, skellam

DELTA = 1e-5
BITS = (10, 12, 14, 16)
LAWS = ("discrete_gaussian", "skellam")


def sum_of(shares, bits=16, **how):
    """Vectors of 250 coordinates, padded, and of norm 10."""
    return theory.Sum(10.0, shares, 256, bits, **how)


def test_the_norm_after_rounding():
    assert theory.norm_bound(160.0, 256) == pytest.approx(160.7234, abs=5e-5)
    assert theory.norm_bound(1e-9, 4, 1e-300) == pytest.approx(2.0)  # every coordinate a step away


@pytest.mark.parametrize(
    ("squared", "shares", "exact", "bound"),
    [(0.5, 2, 0.014695, 0.071919), (0.5, 10, 0.003801, 0.105134), (1.0, 5, 1.36e-6, 5.416e-4)],
)
def test_tau_bounds_the_log_ratio_of_a_sum(squared, shares, exact, bound):
    """By convolution, within ten deviations."""
    assert theory.tau(math.sqrt(squared), shares) == pytest.approx(bound, rel=1e-4)
    k = np.arange(-60, 61)
    normal = lambda variance: np.exp(-(k**2) / (2 * variance)) / np.exp(-(k**2) / (2 * variance)).sum()
    total = normal(squared)
    for _ in range(shares - 1):
        total = np.convolve(total, normal(squared))[60:-60]
    near = np.abs(k) <= 10 * math.sqrt(shares * squared)
    found = np.abs(np.log(total[near] / normal(shares * squared)[near])).max()
    assert found == pytest.approx(exact, rel=5e-3) and found <= bound


def test_figures_of_one_sum():
    """A fine grid costs what the Gaussian does, but for the conversion; tau ends a coarse one, and not Skellam's."""
    fine, coarse = theory.Grid(0.0625, 2.0), theory.Grid(2.45, 1.6)
    assert theory.epsilon(sum_of(100), fine, DELTA) == pytest.approx(2.17934, abs=5e-6)
    assert theory.epsilon(sum_of(100), fine, DELTA, "skellam") == pytest.approx(2.17935, abs=5e-6)
    assert gaussian.epsilon(DELTA, 10 / 20) == pytest.approx(1.99309, abs=5e-6)
    assert theory.epsilon(sum_of(1000), coarse, DELTA) == pytest.approx(648.9, abs=0.05)
    assert theory.epsilon(sum_of(1000), coarse, DELTA, "skellam") == pytest.approx(2.0085, abs=5e-5)


def test_without_tau_a_coarse_grid_would_look_private():
    """s = 1/2 in a sum of 1000: the figure is that of tau, and 90 times what the Gaussian's part alone would say."""
    grid = theory.Grid(2.0, 1.0)
    norm = float(theory.norm_bound(5.0, 256))
    alone = skellam.ORDERS * norm**2 / (2 * 1000 * 0.25)
    assert theory.tau(0.5, 1000) > 70
    assert theory.epsilon(sum_of(1000), grid, DELTA) > 90 * skellam.epsilon(alone, DELTA)


def test_fewer_shares_and_replaced_vectors_cost_more():
    grid = theory.Grid(0.0625, 2.0)
    all_of_them, half = (theory.rdp(160.7, 256, 32.0, n) for n in (100, 50))
    assert (half > 1.9 * all_of_them).all()
    replaced = theory.epsilon(sum_of(100, neighbours="replacement"), grid, DELTA)
    assert replaced > 1.9 * theory.epsilon(sum_of(100), grid, DELTA)
    assert theory.epsilon(sum_of(50), grid, DELTA) > 1.3 * theory.epsilon(sum_of(100), grid, DELTA)


def exact_rdp(scale, shares, shift, order):
    """Of a sum of one coordinate and the same shifted by an integer, by convolution."""
    reach = int(14 * scale * math.sqrt(shares)) + shift + 20
    k = np.arange(-reach, reach + 1)
    one = np.exp(-(k**2) / (2 * scale**2))
    total = one / one.sum()
    each = total
    for _ in range(shares - 1):
        total = np.convolve(total, each)[reach:-reach]
    here, there = np.log(total[shift:] + 1e-300), np.log(total[: total.size - shift] + 1e-300)
    return np.log(np.exp(order * there + (1 - order) * here)[(there > -600) & (here > -600)].sum()) / (order - 1)


@pytest.mark.parametrize(("scale", "shares", "shift"), [(0.5, 8, 2), (1.0, 4, 3), (3.0, 2, 1)])
def test_divergences_of_one_coordinate(scale, shares, shift):
    bound = theory.rdp(float(shift), 1, scale, shares, neighbours="zero-out")
    for order in (2, 3, 5):
        exact, most = exact_rdp(scale, shares, shift, order), bound[order - 2]
        assert exact <= most * (1 + 1e-9) and (scale < 1 or exact > 0.99 * most)


TABLE = {
    (100, 0.75): ((0.3086, 0.2815, 0.2786, 0.2782), {}),
    (100, 2.0): ((0.04976, 0.04666, 0.04630, 0.04623), {}),
    (100, 6.0): ((0.007229, 0.006737, 0.006683, 0.006674), {10: 0.007236}),
    (1000, 0.75): ((0.01698, 0.003766, 0.002874, 0.002794), {}),
    (1000, 2.0): ((5.586e-3, 6.768e-4, 4.808e-4, 4.646e-4), {10: 3.591e-3}),
    (1000, 6.0): ((4.855e-3, 3.150e-4, 7.273e-5, 6.728e-5), {10: 1.378e-3, 12: 1.513e-4}),
}
"""Mean squared error at a coordinate, as computed by nested bisection elsewhere: discrete Gaussian, and Skellam where
it differs.
"""


@pytest.mark.parametrize(("shares", "target"), TABLE)
def test_the_error_that_bits_and_eps_leave(shares, target):
    discrete, other = TABLE[shares, target]
    for bits, expected in zip(BITS, discrete, strict=True):
        of = sum_of(shares, bits)
        for law in LAWS:
            grid = theory.calibrated(of, target, DELTA, law)
            assert theory.epsilon(of, grid, DELTA, law) == pytest.approx(target, rel=1e-6)
            room = 2 * 2 * math.sqrt(100 * shares**2 / 256 + (grid.step**2 / 4 + grid.deviation**2) * shares)
            assert 2**bits * grid.step == pytest.approx(room, rel=1e-9)
            known = other.get(bits, expected) if law == "skellam" else expected
            assert theory.mean_squared_error(grid, shares) == pytest.approx(known, rel=8e-4)


@pytest.mark.parametrize("law", LAWS)
def test_vectors_without_a_trend_need_less_room(law):
    """Sums of vectors of random directions wrap as often as two deviations say; with a trend nearly all wrap."""
    n, d, bits = 1000, 256, 10
    of = sum_of(n, bits)._replace(growth="sqrt")
    grid = theory.calibrated(of, 2.0, DELTA, law)
    room = 2 * 2 * math.sqrt(100 * n / d + (grid.step**2 / 4 + grid.deviation**2) * n)
    assert 2**bits * grid.step == pytest.approx(room, rel=1e-9)
    assert theory.epsilon(of, grid, DELTA, law) == pytest.approx(2.0, rel=1e-6)
    assert theory.epsilon(sum_of(n, bits), grid, DELTA, law) == theory.epsilon(of, grid, DELTA, law)
    assert grid.step < 0.3 * theory.calibrated(sum_of(n, bits), 2.0, DELTA, law).step
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20, n, d))
    vectors *= 10 / np.linalg.norm(vectors, axis=2, keepdims=True)
    noise = math.sqrt(n * (grid.deviation**2 + grid.step**2 / 4)) * rng.normal(size=(20, d))
    wraps = lambda sums: (np.abs(sums + noise) >= 2**bits * grid.step / 2).mean()
    assert abs(wraps(vectors.sum(1)) - 2 * stats.norm.sf(2)) < 4 * math.sqrt(0.0455 / (20 * d))
    assert wraps(np.full((20, d), n * 10 / math.sqrt(d))) > 0.9, "the control: all vectors are equal"


def test_one_vector_needs_the_same_room_either_way():
    one = theory.Sum(1.0, 1, 16, 12)
    same = theory.calibrated(one._replace(growth="sqrt"), 2.0, DELTA)
    assert same == theory.calibrated(one, 2.0, DELTA)


def test_the_least_noise_is_half_a_step_even_where_eps_would_allow_less():
    of = sum_of(100, 16)
    grid = theory.calibrated(of, 1e9, DELTA)
    assert grid.deviation == pytest.approx(grid.step / 2, rel=1e-12) and theory.epsilon(of, grid, DELTA) < 1e9


@pytest.mark.parametrize("law", LAWS)
def test_noise_of_many_norms_on_a_fine_grid_is_that_of_the_gaussian_mechanism(law):
    """At its Renyi divergences a / (2 s^2), converted by Canonne, Kamath and Steinke 2020, for one client of norm 1."""
    target, small, a = 0.03, 1e-12, skellam.ORDERS.astype(float)
    s = theory.calibrated(theory.Sum(1.0, 1, 1, 32), target, small, law).deviation
    assert s > 150
    converted = a / (2 * s**2) + np.log1p(-1 / a) - np.log(small * a) / (a - 1)
    assert converted.min() == pytest.approx(target, rel=1e-6)


@pytest.mark.parametrize(
    ("shares", "target", "known"),
    [(100, 0.75, 0.235281), (100, 2.0, 0.0397529), (100, 6.0, 0.00583139), (1000, 2.0, 3.97529e-4)],
)
def test_a_trusted_server_s_gaussian_noise_beside_it(shares, target, known):
    ratio = optimize.root_scalar(lambda s: gaussian.epsilon(DELTA, s) - target, bracket=(1e-3, 10)).root
    assert (10 / ratio / shares) ** 2 == pytest.approx(known, rel=1e-4)


test_bad_arguments = refused(
    (lambda: theory.norm_bound(0.0, 2), r"max_norm must be in \(0, inf\), got 0.0"),
    (lambda: theory.norm_bound(1.0, 2, 1.0), r"failure must be in \(0, 1\), got 1.0"),
    (lambda: theory.tau(0.4, 2), r"scale must be in \[0.5, inf\), got 0.4"),
    (lambda: theory.tau(1.0, 2**40), "shares must be an integer from 1 to 1048576, got"),
    (lambda: theory.tau(1.0, 0), "shares must be an integer >= 1, got 0"),
    (lambda: theory.rdp(-1.0, 2, 1.0, 3), r"norm must be in \[0, inf\), got -1.0"),
    (lambda: unwrap(theory.rdp)(1.0, 2, 1.0, 3, neighbours="removal"),
     "neighbours must be one of 'zero-out', 'replacement'"),
    (lambda: unwrap(theory.epsilon)(sum_of(9), theory.Grid(1.0, 1.0), DELTA, "normal"), "law must be one of"),
    (lambda: theory.calibrated(sum_of(9), 0.0, DELTA), r"epsilon must be in \(0, inf\), got 0.0"),
    *((lambda bad=bad, f=f: f(sum_of(9)._replace(**bad)), f"{name} must be")
      for f in (lambda of: theory.epsilon(of, theory.Grid(0.1, 1.0), DELTA),
                lambda of: theory.calibrated(of, 1.0, DELTA))
      for bad, name in each(clip=[-1.0, math.nan, "a", np.ones(2)], shares=[0, 2.5], num_coordinates=[0], bits=[0, 2.5],
                            failure=[1.0], deviations=[0.0, math.inf], neighbours=["removal"],
                            growth=["n"])),
    *((lambda bad=bad, f=f: f(theory.Grid(0.1, 1.0)._replace(**bad)), f"{name} must be")
      for f in (lambda grid: theory.epsilon(sum_of(9), grid, DELTA), lambda grid: theory.mean_squared_error(grid, 9))
      for bad, name in each(step=[0.0, -0.1, math.nan], deviation=[0.0, -1.0, math.nan, np.ones(2)])),
    (lambda: theory.calibrated(sum_of(9), 1.0, 2.0), r"delta must be in \(0, 1\), got 2.0"),
    *((lambda law=law: theory.calibrated(sum_of(9), 1e-6, 1e-12, law),
       "epsilon must be large enough for Renyi orders up to 1048576 at delta = 1e-12, got 1e-06") for law in LAWS),
    (lambda: theory.calibrated(sum_of(1000, 4), 1.0, DELTA), "bits must be enough for a sum of 1000 clients at eps"),
)  # fmt: skip
