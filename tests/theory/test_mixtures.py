"""Divergences of mixtures against sums on a grid, and the worst cases that proofs of sampled rounds claim."""

import numpy as np
import pytest
from scipy.stats import norm

from fedjax_priv.theory._mixtures import both_mixed, mixed_first, mixed_second

LINE = np.linspace(-14, 16, 300_001)
X = np.array([0.0, 0.01, 0.3, 1.0, 3.0])


def on_the_line(q, first, second, x):
    p, r = ((1 - q) * norm.pdf(LINE) + q * norm.pdf(LINE - shift) for shift in (first, second))
    return np.maximum(p - np.exp(x) * r, 0).sum() * (LINE[1] - LINE[0])


@pytest.mark.parametrize(
    ("q", "first", "second"), [(0.1, 1.0, -1.0), (0.01, 2.0, 1.0), (0.5, 3.0, 1.5), (1.0, 1.0, -1.0)]
)
def test_two_mixtures(q, first, second):
    np.testing.assert_allclose(
        both_mixed(X, q, first, second), [on_the_line(q, first, second, x) for x in X], rtol=1e-8, atol=1e-13
    )


def test_one_mixture_at_every_eps():
    both = np.concatenate([-X, X])
    np.testing.assert_allclose(mixed_first(both, 0.3, 2.0), [on_the_line(0.3, 2.0, 0.0, x) for x in both], atol=1e-8)
    np.testing.assert_allclose(mixed_second(both, 0.3, 2.0), [on_the_line(0.3, 0.0, 2.0, x) for x in both], atol=1e-8)


def test_far_out_it_is_zero_and_nobody_is_nothing():
    far = np.array([50.0, 800.0, 2.0**40])
    assert not both_mixed(far, 0.1, 1.0, -1.0).any()
    assert not both_mixed(X, 0.0, 2.0, 1.0).any()


def test_other_pairs_are_refused():
    with pytest.raises(ValueError, match="^second must be -first or first / 2, got 0.5"):
        both_mixed(0.0, 0.1, 2.0, 0.5)


PLANE = np.stack(np.meshgrid(*[np.linspace(-7, 8, 151)] * 2), -1)
CELL = 0.1**2


def density(mean):
    return np.exp(-((PLANE - mean) ** 2).sum(-1) / 2) / (2 * np.pi)


def in_the_plane(q, rest, first, second, x):
    """(1-q) N(rest) + q N(first) over a [(1-q) N(rest) + q N(second)]."""
    shared = (1 - q) * density(rest)
    return np.maximum(shared + q * density(first) - np.exp(x) * (shared + q * density(second)), 0).sum() * CELL


def within_the_ball(rng, radius):
    angle, length = rng.uniform(0, 2 * np.pi), radius * np.sqrt(rng.uniform())
    return length * np.array([np.cos(angle), np.sin(angle)])


def test_no_vectors_tell_more_than_the_worst_case_of_the_proofs():
    rng, origin, end = np.random.default_rng(0), np.zeros(2), np.array([1.0, 0.0])
    for q, x in [(0.1, 0.0), (0.1, 0.2), (0.5, 0.7), (0.3, 1.5)]:
        replaced, zeroed = float(both_mixed(x, q, 1.0, -1.0)), float(both_mixed(x, q, 2.0, 1.0))
        added = float(mixed_first(x, q, 1.0))
        for _ in range(30):
            one, other = within_the_ball(rng, 1.0), within_the_ball(rng, 1.0)
            assert in_the_plane(q, origin, one, other, x) <= replaced + 1e-9
            assert in_the_plane(q, other, one, origin, x) <= zeroed + 1e-9
            assert in_the_plane(q, other, origin, one, x) <= added + 1e-9
        assert in_the_plane(q, origin, end, -end, x) == pytest.approx(replaced, abs=2e-4)
        assert in_the_plane(q, -end, end, origin, x) == pytest.approx(zeroed, abs=2e-4)
        assert in_the_plane(q, end, origin, end, x) == pytest.approx(added, abs=2e-4)
