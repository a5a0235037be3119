"""Discrete Gaussian numbers: their law, computed here in longer arithmetic, and the layer that adds them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.crypto.modulus import centred
from fedjax_priv.crypto.prg import bits
from fedjax_priv.keys import named, per_client
from fedjax_priv.layers import discrete_gaussian_noise, integer_skellam_noise, plain_ring, stack, wrap
from fedjax_priv.layers.noise_discrete_gaussian import gaussian_table
from fedjax_priv.layers.noise_skellam import _table as skellam_table
from fedjax_priv.layers.noise_skellam import skellam
from fedjax_priv.layers.secure_sum.alias_table import BITS, draw, symmetric
from helpers import chi_square, cohort_of, refuses, run_layer, survivors

KEY = jax.random.key(5)
DRAWS = 2**17


@functools.cache
def drawn(scale):
    return np.asarray(
        jax.jit(lambda: symmetric(KEY, DRAWS, gaussian_table(scale), "discrete Gaussian noise"))(), np.int64
    )


def test_each_number_has_two_words_of_its_own():
    table = gaussian_table(3.0)
    first, second = bits(KEY, "noise", (2, 50))
    assert len(np.unique([first, second])) == 100
    expected = draw(table, first, second).astype(jnp.int32) * jnp.where(second & 1 == 1, -1, 1)
    assert symmetric(KEY, 50, table, "noise").tolist() == expected.tolist()


def law(scale, reach):
    k = np.arange(-reach, reach + 1).astype(np.longdouble)
    weight = np.exp(-(k**2) / (2 * np.longdouble(scale) ** 2))
    return (weight / weight.sum()).astype(np.float64)


def fits(values, scale):
    """The p-value of a chi-square test on every value that is expected five times, and all others."""
    reach = int(12 * scale) + 3
    expected = law(scale, reach) * values.size
    counts = np.bincount(values + reach, minlength=2 * reach + 1)
    keep = expected > 5
    rest = counts[~keep].sum() + 1e-9, expected[~keep].sum() + 1e-9
    return chi_square(np.array([*counts[keep], rest[0]]), np.array([*expected[keep], rest[1]]))[1]


@pytest.mark.parametrize("scale", [0.5, 2.74, 16.0, 2.0**14])
def test_numbers_end_where_the_privacy_page_says(scale):
    """A shift by 16 at s = 2.74 shows beyond the end more often than delta = 1e-5, whatever eps is."""
    largest = end(scale)
    reach = int(12 * scale)
    beyond = lambda shift: law(scale, reach)[np.arange(-reach, reach + 1) + shift > largest].sum()
    assert beyond(int(3.7 * scale)) < 1e-5 < beyond(int(6 * scale))


def test_it_ends_where_the_page_says_in_scales():
    ends = [end(scale) / scale for scale in (*np.linspace(1, 20, 200), 1.0735, 1.0745, 2.0**14)]
    assert 8.2 <= min(ends) < 8.3 and 9.3 < max(ends) <= 9.4
    small = [end(scale) / scale for scale in (*np.linspace(0.3, 1, 100), 0.3185, 0.319)]
    assert 6 <= min(small) < 7 and max(small) <= 9.5


def end(scale):
    return np.flatnonzero(places(gaussian_table(scale)))[-1]


def places(table):
    """How often each number is drawn, in multiples of 2**-62."""
    own = (table.high.astype(np.int64) << 30) | table.low
    counts = own.copy()
    np.add.at(counts, table.other, 2**BITS // own.size - own)
    return counts


@pytest.mark.parametrize("scale", [0.5, 2.0, 50.0])
def test_numbers_are_discrete_gaussian(scale):
    assert fits(drawn(scale), scale) > 1e-4
    assert fits(drawn(scale), 1.04 * scale) < 1e-4  # the test would notice
    rounded = np.rint(stats.norm.ppf((np.arange(DRAWS) + 0.5) / DRAWS) * scale).astype(np.int64)
    assert scale > 0.5 or fits(rounded, scale) < 1e-4  # a rounded Gaussian is another law


def test_the_table_is_within_its_distance_of_the_law():
    for scale in (0.5, 2.0, 300.0):
        table = gaussian_table(scale)
        threshold = table.high.astype(object) * 2**30 + table.low
        chance = threshold.copy()
        for place, other in enumerate(table.other.tolist()):
            chance[other] += 2**BITS // table.other.size - threshold[place]
        known = law(scale, int(14 * scale) + 3)
        known = known[known.size // 2 :] * np.where(np.arange(known.size // 2 + 1) > 0, 2, 1)
        ours = np.zeros(max(known.size, chance.size))
        ours[: chance.size] = [float(c) / 2**BITS for c in chance]
        assert chance.sum() == 2**BITS and np.abs(ours[: known.size] - known).sum() / 2 < 2.0**-40


def uploads(layer, n=4, d=30, byzantine=()):
    who = cohort_of(n)._replace(byzantine=jnp.isin(jnp.arange(n), jnp.array(byzantine, jnp.int32)))
    x = jnp.arange(n * d, dtype=jnp.int32).reshape(n, d) - 50
    result = run_layer(stack(noise=layer, wrap=wrap(16), send=plain_ring(16)), KEY, x, who, survivors(n))
    return np.asarray(centred(result["upload"], 16)) - np.asarray(x)


def test_each_client_adds_numbers_of_its_own_and_byzantine_ones_none():
    draw = lambda each: np.asarray(jax.jit(lambda key: per_client(each, named(key, "noise"), jnp.arange(4)))(KEY))
    gaussian = draw(lambda key: symmetric(key, 30, gaussian_table(3.0), "discrete Gaussian noise"))
    found = uploads(discrete_gaussian_noise(3.0), byzantine=[1])
    assert (found == gaussian * np.array([1, 0, 1, 1])[:, None]).all() and (found[0] != found[2]).any()
    assert (uploads(integer_skellam_noise(9.0)) == draw(lambda key: skellam(key, 30, skellam_table(9.0)[0]))).all()
    assert not any(uploads(discrete_gaussian_noise(scale)).any() for scale in (0.0, 1.2e-38, 1e-3))


test_bad_arguments = refuses(
    lambda how: discrete_gaussian_noise(**how),
    ({"scale": -1.0}, "scale must be a finite number >= 0"),
    ({"scale": 1e-170}, "scale must be a number that float32 holds"),
    ({"scale": 2.0**15}, r"scale must be at most 2\*\*14 grid points"),
)


def test_arguments_cannot_be_traced():
    with pytest.raises(ValueError, match="scale must be known when the program is compiled"):
        jax.jit(lambda s: discrete_gaussian_noise(s) and s)(1.0)
