import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from refusals import refused

from fedjax_priv.theory import sparse_secagg as theory


def component_sizes(mask, members):
    """`[R, n]`: of each member's component among the members; 0 for the others."""
    joined = (mask | np.eye(mask.shape[1], dtype=bool)) & members[:, :, None] & members[:, None, :]
    reached = joined
    for _ in range(mask.shape[1]):
        reached = np.matmul(reached, joined)
    return reached.sum(2)


def test_component_sizes(case):
    """What is read as a sum of s, over what honest survivors send."""
    sizes = component_sizes(case.outcomes.mask, case.honest_survivors)
    sent = case.outcomes.sent & case.honest_survivors
    everything = theory.aggregated_honest_clients(case.setting)
    fraction = lambda size, **changes: theory.component_fraction(case.setting._replace(**changes), size)
    for size in range(1, 6 if case.outcomes.drawn else case.n - case.adversaries + 1):  # larger ones are rare
        read = (sent & (sizes == size)).sum(1)
        assert case.outcomes.mean_is(read, everything * fraction(size))
        if size < 3:
            assert not case.outcomes.mean_is(read, everything * fraction(size, adversarial=0.0))
            assert not case.outcomes.mean_is(read, everything * fraction(size, dropout=case.dropout + 0.1))
    alone = (sent & (sizes == 1)).sum(1)
    isolated = theory.isolated_fraction(case.setting)
    assert case.outcomes.mean_is(alone, everything * isolated)
    assert not case.outcomes.mean_is((sizes == 1).sum(1), everything * isolated)  # who sends nothing is no value


def test_papers_setting():
    """alpha = 0.1, theta = 0.3, a third colluding: half of all values are read alone; 0.29 without colluders."""
    assert theory.isolated_fraction(theory.Setting(100, 0.1, 0.3, 1 / 3)) == pytest.approx(0.52, abs=5e-3)
    assert theory.isolated_fraction(theory.Setting(100, 0.1, 0.3, 0.0)) == pytest.approx(0.29, abs=5e-3)
    assert theory.isolated_fraction(theory.Setting(100, 0.1, 0.0, 0.0)) == 0
    pairs = theory.component_fraction(theory.Setting(100, 0.1, 0.0, 0.0), 2)
    assert pairs == pytest.approx(0.1 * (1 - 0.1 / 99) ** 196 / theory.selection_probability(100, 0.1), rel=1e-12)
    assert pairs == pytest.approx(0.86, abs=5e-3)


def isolated(n, alpha, dropout, honest):
    """In 400 digits."""
    with mpmath.workdps(400):
        a, theta = mpmath.mpf(alpha) / (n - 1), mpmath.mpf(dropout)
        never = (1 - a) ** (n - 1)
        return float(((1 - a * (1 - theta)) ** (mpmath.mpf(honest) - 1) - never) / (1 - never))


@pytest.mark.parametrize("dropout", [1e-300, 1e-15, 1e-6, 0.3])
def test_values_read_alone_at_small_dropout(dropout):
    for n, alpha in ((100, 0.1), (2, 0.99), (2, 0.5), (10**6, 1e-4)):
        found = theory.isolated_fraction(theory.Setting(n, alpha, dropout))
        np.testing.assert_allclose(found, isolated(n, alpha, dropout, n), rtol=1e-9)
    few = theory.isolated_fraction(theory.Setting(10**6, 1e-4, dropout, np.array([0.25, 1e-6])))
    expected = [isolated(10**6, 1e-4, dropout, honest) for honest in (750_000, 999_999)]
    np.testing.assert_allclose(few, expected, rtol=1e-9)


def test_a_pair_that_selects_everything_reads_who_is_left():
    """N = 2, alpha = 1: a value is read alone if the other is lost, theta^(H - 1)."""
    found = theory.isolated_fraction(theory.Setting(2, 1.0, np.array([0.0, 0.0, 0.3]), np.array([0.0, 0.3, 0.3])))
    np.testing.assert_allclose(found, [0.0, 0.0, 0.3**0.4], rtol=1e-12)


def test_attack_on_the_protocol():
    """In a run of the whole protocol (N=30, A=10) 54% were read alone and 44% as a sum of two."""
    alone, pairs = theory.component_fraction(theory.Setting(30, 0.1, 0.3, 1 / 3), np.array([1, 2]))
    assert alone == pytest.approx(0.54, abs=0.02)
    assert pairs == pytest.approx(0.44, abs=0.02)


@pytest.mark.parametrize(("n", "adversaries"), [(3, 1), (12, 5), (30, 10), (99, 33), (1000, 0)])
def test_fractions_sum_to_one(n, adversaries):
    """(1 - 5/12) 12 is just below 7."""
    sizes = np.arange(1, min(n - adversaries, 150) + 1)
    total = theory.component_fraction(theory.Setting(n, 0.5, 0.3, adversaries / n), sizes).sum()
    assert total == pytest.approx(1, abs=1e-12)


def test_no_component_is_larger_than_the_honest():
    sizes = np.array([2, 3, 4, 50])
    found = theory.component_fraction(theory.Setting(3, 1.0, 0.0, 1 / 3), sizes)  # 1 - 1/3 is not exact
    np.testing.assert_allclose(found[0], 0.5 / 0.75, rtol=1e-14)
    np.testing.assert_allclose(found[1:], 0, atol=1e-15)
    np.testing.assert_allclose(
        theory.component_fraction(theory.Setting(2, 1.0, 0.0, 0.0), np.array([1, 2, 3])), [0, 1, 0]
    )
    assert 0 < theory.component_fraction(theory.Setting(2, 1.0, 0.0, 0.3), 2) < 1  # H = 1.4


def gilbert(size, edge):
    """P[G(s, a) connected] = 1 - sum_j C(s-1, j-1) P_j (1-a)^(j(s-j)), in exact fractions."""
    table = []
    for s in range(1, size + 1):
        split = (math.comb(s - 1, j - 1) * table[j - 1] * (1 - edge) ** (j * (s - j)) for j in range(1, s))
        table.append(1 - sum(split))
    return table


@pytest.mark.parametrize("edge", [1e-9, 1e-4, 0.3, 1.0])
def test_connected_probability_is_gilberts(edge):
    expected = [float(x) for x in gilbert(9, Fraction(edge))]
    np.testing.assert_allclose(theory.connected_probability(np.arange(1, 10), edge), expected, rtol=1e-12)


def test_connected_probability_of_arrays():
    edges = np.array([[0.5], [0.1], [0.5]])
    found = theory.connected_probability(np.array([3, 1, 2]), edges)
    np.testing.assert_allclose(found, [[0.5, 1, 0.5], [0.028, 1, 0.1], [0.5, 1, 0.5]], rtol=1e-12)


def test_large_graphs_have_the_components_of_a_branching_process():
    """As N grows a survivor's component has Borel's law of mean degree c: exp(-c s) (c s)^(s-1) / s!."""
    n, alpha, dropout, gamma = 10**7, 1.0, 0.1, 0.1
    sizes = np.array([2, 3, 6, 40, 200])
    log_borel = lambda c: -c * sizes + (sizes - 1) * np.log(c * sizes) - [math.lgamma(s + 1) for s in sizes]
    p = 1 - math.exp(-alpha)
    found = theory.component_fraction(theory.Setting(n, alpha, dropout, gamma), sizes)
    np.testing.assert_allclose(found, np.exp(log_borel(0.81)) / p, rtol=5e-3)
    assert not np.allclose(found, np.exp(log_borel(0.9)) / p, rtol=5e-2)


def test_sizes_whose_probability_of_connection_underflows():
    """P[connected] ~ s^(s-2) a^(s-1) is below 1e-308 from s = 260 at N = 4000, the share of s = 300 is not."""
    found = theory.component_fraction(theory.Setting(4000, 1.0, 0.0, 0.0), np.array([260, 300]))
    assert 1e-5 < found[1] < found[0] < 1e-3


test_bad_arguments = refused(
    (lambda: theory.component_fraction(theory.Setting(9, 0.1, 0.1, 0.1), 0), "size must be an integer >= 1, got 0"),
    (lambda: theory.component_fraction(theory.Setting(9, 0.1, 1.0, 0.1), 1), r"dropout must be in \[0, 1\), got 1.0"),
    (lambda: theory.isolated_fraction(theory.Setting(9, 2.0, 0.1, 0.1)), r"alpha must be in \(0, 1\], got 2.0"),
    (lambda: theory.isolated_fraction(theory.Setting(9, 0.1, 0.1, -0.1)),
     r"adversarial must be in \[0, 0.5\) .*, got -0.1"),
    (lambda: theory.connected_probability(3, 0.0), r"edge_probability must be in \(0, 1\], got 0.0"),
)  # fmt: skip
