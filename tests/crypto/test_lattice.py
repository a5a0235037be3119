import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.crypto import field, lattice
from helpers import Q, chi_square

D = 2048


@jax.jit
def bands(round):
    return jnp.stack([lattice.public_matrix(round, part, 3) for part in range(2)])


def test_masks_are_products_with_the_public_matrix():
    """Against Python integers; another band of rows is another one, and so is another round."""
    secrets = np.random.default_rng(0).integers(0, Q, (2, 3), dtype=np.uint32)
    a = np.concatenate(bands(jnp.int32(4)), 1).astype(object)
    masks = np.asarray(jax.jit(lattice.noiseless, static_argnums=2)(secrets, jnp.int32(4), D - 5))
    assert (masks == (secrets.astype(object) @ a % Q)[:, : D - 5]).all()
    assert len(np.unique(a.astype(np.int64))) == a.size
    assert (np.asarray(bands(jnp.int32(5))) != np.asarray(bands(jnp.int32(4)))).mean() > 0.99


def test_errors_have_the_law_of_coins():
    """Chi-square against the binomial law of the heads of 42 coins; 20 of each sign fail it."""
    seeds = np.random.default_rng(1).integers(0, Q, (20, 2), dtype=np.uint32)
    drawn = np.asarray(jax.jit(lattice.errors, static_argnums=(2, 3))(seeds, jnp.int32(0), D, 21))
    assert np.abs(drawn).max() <= 21 and len({row.tobytes() for row in drawn}) == 20

    def p_value(coins):
        law = stats.binom(2 * coins, 0.5).pmf(np.arange(2 * coins + 1))
        inner = np.flatnonzero(drawn.size * law > 10)
        at = inner - coins
        counts = np.array([(drawn == e).sum() for e in at] + [(~np.isin(drawn, at)).sum()])
        expected = drawn.size * np.append(law[inner], 1 - law[inner].sum())
        return chi_square(counts, expected)[1]

    assert p_value(21) > 1e-4 > p_value(20)
    of_rows = (drawn.sum(1) ** 2).sum() / (10.5 * D)  # chi-square, if coordinates are independent
    assert 1e-4 < stats.chi2(20).sf(of_rows) < 1 - 1e-4


@pytest.mark.parametrize(
    ("size", "certain", "likely", "most"),
    [(10, 421, 175, 12_271_334), (100, 4201, 559, 3_841_651), (1000, 42_001, 1769, 1_213_952)],
)
def test_spacings(size, certain, likely, most):
    """Against SciPy's binomial tail; `most` is the largest sum that stays in the field."""
    d, failure = 165_000, 1e-12
    assert lattice.spacing_of(size, 21, d, 0.0) == certain
    found = lattice.spacing_of(size, 21, d, failure)
    assert found == likely and (Q // 2 - found // 2) // found == most
    tail = lambda b: 2 * d * stats.binom(42 * size, 0.5).sf(21 * size + b)
    assert tail((found - 1) // 2) <= failure < tail((found - 3) // 2)


def test_rounding_takes_errors_off_up_to_half_a_spacing():
    """At both ends of what sums may be; a spacing two shorter than the certain one fails where all errors are equal."""
    certain = lattice.spacing_of(10, 21, 1, 0.0)
    most = (Q // 2 - 210) // certain
    x = jnp.array([-most, -3, -1, 0, 1, 2, most], jnp.int32)
    rounded = lambda spacing, error: lattice.nearest(field.from_signed(spacing * x + error), spacing)
    for error in (-210, -1, 0, 7, 210):
        assert (rounded(certain, error) == x).all()
    for error in (-210, 210):
        assert (rounded(certain - 2, error)[1:-1] != x[1:-1]).all()


def test_the_spacing_of_many_clients_is_a_bound_at_once():
    """Hoeffding's bound is little above the exact tail at the largest size that has it."""
    few, many = lattice.spacing_of(2**11, 16, 100, 1e-6), lattice.spacing_of(2**11 + 1, 16, 100, 1e-6)
    assert few < many < 1.1 * few
    assert lattice.spacing_of(2**40, 16, 100, 1e-6) < 2**26
