"""Shares of Skellam noise: their law against scipy's, and the norm they are enough for."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedjax_priv.crypto import field
from fedjax_priv.keys import named, per_client
from fedjax_priv.layers import clip, plain_field, quantize, skellam_noise, stack
from fedjax_priv.layers.noise_skellam import _table, skellam
from fedjax_priv.layers.rounded_norm import FAILURE, is_within, squared_norm_bound
from fedjax_priv.layers.secure_sum.alias_table import BITS, alias_table, draw
from fedjax_priv.status import Status
from helpers import Q, chi_square, cohort_of, refuses, run_layer, survivors

KEY = jax.random.key(4)
DRAWS = 2**18


@functools.cache
def drawn(variance, shares=1):
    """Sums of `shares` numbers each."""
    each = jax.jit(lambda keys: jax.vmap(lambda key: skellam(key, DRAWS, _table(variance)[0]))(keys))
    return np.asarray(each(jax.random.split(KEY, shares)), np.int64).sum(0)


def fits(values, variance):
    """The p-value of a chi-square test in 60 bins of like probability and the tails, against scipy."""
    deviation = math.sqrt(variance)
    edges = np.unique(np.rint(stats.norm.ppf(np.linspace(0, 1, 61)[1:-1]) * deviation))
    edges = np.unique([*edges, -math.ceil(3.5 * deviation), math.ceil(3.5 * deviation)])
    below = stats.skellam.cdf(edges, variance / 2, variance / 2)
    chance = np.diff([0, *below, 1])
    counts = np.bincount(np.searchsorted(edges, values), minlength=chance.size)
    keep = chance * values.size > 5
    return chi_square(
        np.array([*counts[keep], counts[~keep].sum() + 1e-9]),
        values.size * np.array([*chance[keep], chance[~keep].sum() + 1e-9]),
    )[1]


@pytest.mark.parametrize("variance", [0.3, 3.0, 50.0, 1e4])
def test_numbers_are_skellam(variance):
    values = drawn(variance)
    assert fits(values, variance) > 1e-4
    assert fits(values, 1.05 * variance) < 1e-4  # the test would notice
    error = math.sqrt((2 + 1 / variance) / DRAWS)  # fourth cumulant: the variance again
    assert abs(values.mean()) < 5 * math.sqrt(variance / DRAWS)
    assert abs(np.square(values).mean() / variance - 1) < 5 * error


def test_large_numbers_miss_no_value():
    """Where float32 counts in steps; of these `jax.random.poisson` has multiples of 4 alone."""
    values, deviation = drawn(2.0**26), 2.0**13
    assert chi_square(np.bincount(values % 16, minlength=16), DRAWS / 16)[1] > 1e-4
    assert stats.kstest(values / deviation, stats.norm.cdf).pvalue > 1e-4
    assert abs(np.square(values / deviation).mean() - 1) < 5 * math.sqrt(2 / DRAWS)
    assert 4.2 < abs(values / deviation).max() < 6.5


@pytest.mark.parametrize("variance", [0.5, 7.0])
def test_a_sum_of_shares_is_skellam_of_the_summed_variance(variance):
    assert fits(drawn(variance, shares=5), 5 * variance) > 1e-4
    assert fits(drawn(variance, shares=5), 4.8 * variance) < 1e-4


def probabilities(table):
    """Exact integers out of 2**62, of the outcomes of a table."""
    places, threshold = table.other.size, table.high.astype(object) * 2**30 + table.low
    chance = threshold.copy()
    for place, other in enumerate(table.other.tolist()):
        chance[other] += 2**BITS // places - threshold[place]
    return chance


@pytest.mark.parametrize("variance", [0.0, 1e-3, 40.0, 2.0**21])
def test_the_table_is_within_its_distance_of_skellam(variance):
    """Against ratios of Bessel functions, I_k+1 / I_k by their continued fraction, downwards."""
    table, largest = _table(variance)
    chance = probabilities(table)
    assert chance.sum() == 2**BITS and not chance[largest + 1 :].any()
    last, ratio, ratios = chance.size + int(4 * math.sqrt(variance)), 0.0, []
    for k in range(last, 0, -1):
        ratio = 1 / (2 * k / variance + ratio) if variance else 0.0
        ratios.append(ratio)
    known = np.cumprod([1.0, *ratios[::-1]])
    known[1:] *= 2
    known /= known.sum()
    ours = np.zeros(known.size)
    ours[: chance.size] = [float(c) / 2**BITS for c in chance]
    assert np.abs(ours - known).sum() / 2 < 2.0**-40


def test_a_draw_is_its_place_below_the_threshold_and_the_other_above():
    table = alias_table(np.array([0.5, 0.375, 0.125]))
    assert (probabilities(table) == np.array([4, 3, 1, 0]) * 2**59).all()
    first, second = np.meshgrid(np.arange(2**12, dtype=np.uint32) << 20, np.uint32([0, 2**32 - 1]))
    outcome = np.asarray(draw(table, jnp.asarray(first.ravel()), jnp.asarray(second.ravel())))
    assert (np.bincount(outcome) == np.array([4096, 3072, 1024])).all()


INTS = st.integers(-(2**31) + 3, 2**31 - 3) | st.integers(-70_000, 70_000) | st.integers(-9, 9)


@given(z=st.lists(INTS, min_size=1, max_size=6), bound=st.integers(0, 65_535**2 - 1), tight=st.sampled_from([-1, 0]))
def test_the_norm_is_that_of_python_integers(z, bound, tight):
    squared = sum(v * v for v in z)
    for limit in {bound, min(max(squared + tight, 0), 65_535**2 - 1)}:
        padded = jnp.zeros((1, 6), jnp.int32).at[0, : len(z)].set(jnp.array(z, jnp.int32))
        assert bool(is_within(padded, limit)[0]) == (squared <= limit)


def test_a_long_sum_of_squares_does_not_wrap():
    z = jnp.full((2, 2**18), 200).at[1, 0].set(201)  # 2**18 40,000 is above 2**33
    assert not is_within(z, 65_535**2 - 1).any()
    z = jnp.full((2, 2**18), 100).at[1, 0].set(101)
    assert is_within(z, 2**18 * 10_000).tolist() == [True, False]


@pytest.mark.parametrize(("c", "d"), [(30.0, 200), (5.0, 3), (200.0, 64)])
def test_rounding_exceeds_the_norm_bound_as_seldom_as_it_says(c, d):
    """The exact law of the squared norm, a sum of independent numbers of two values each."""
    rng = np.random.default_rng(d)
    for x in (rng.normal(size=d), np.full(d, 1.0), np.eye(d)[0] + 1e-9):
        x = np.abs(x) * c / np.linalg.norm(x)
        law = np.ones(1)
        for value in x:
            low = math.floor(value)
            step = np.zeros((low + 1) ** 2 + 1)
            step[low**2], step[(low + 1) ** 2] = 1 - (value - low), value - low
            law = np.convolve(law, step)
        assert law[squared_norm_bound(c, d) + 1 :].sum() <= FAILURE


def sent(x, *, variance=4.0, max_norm=50.0, byzantine=(), max_terms=1000):
    """Uploads as signed integers, and the status of each client."""
    layer = stack(
        quantize=quantize(1.0, max_terms),
        noise=skellam_noise(variance, max_norm=max_norm, max_terms=max_terms),
        send=plain_field(),
    )
    x = jnp.asarray(x, jnp.float32)
    who = cohort_of(len(x))._replace(byzantine=jnp.isin(jnp.arange(len(x)), jnp.array(byzantine, jnp.int32)))
    result = run_layer(layer, KEY, x, who, survivors(len(x)))
    return np.asarray(field.to_signed(result["upload"])), result["sent"].status.tolist()


def noises(n, d, variance):
    table = _table(variance)[0]
    draw = jax.jit(lambda key: per_client(lambda key: skellam(key, d, table), named(key, "noise"), jnp.arange(n)))
    return np.asarray(draw(KEY))


def test_what_is_too_long_is_noise_alone_unless_its_sender_is_byzantine():
    """Where noise could make a sum wrap, that sets a bit."""
    longest, room = math.isqrt(squared_norm_bound(50.0, 3)), (Q - 1) // 2 // 1000 - _table(4.0)[1]
    x = np.array([longest, longest + 1, 90_000, -90_000, room, room + 1, -room - 1])[:, None] * np.eye(3, dtype=int)[0]
    uploads, status = sent(x, byzantine=[3, 4, 5, 6])
    noise = noises(7, 3, 4.0) * np.array([1, 1, 1, 0, 0, 0, 0])[:, None]
    assert noise.any() and (uploads - noise == x * np.array([1, 0, 0, 1, 1, 1, 1])[:, None]).all()
    assert status == [0, 0, 0, 0, 0, Status.FIELD_OVERFLOW, Status.FIELD_OVERFLOW]


def test_clipped_updates_pass_and_keep_their_mean():
    layer = stack(
        clip=clip(40.0), quantize=quantize(1.0, 1), noise=skellam_noise(0.0, max_norm=40.0, max_terms=1),
        send=plain_field(),
    )  # fmt: skip
    x = np.tile(np.random.default_rng(0).normal(size=30) * 99, (4000, 1)).astype(np.float32)
    z = np.asarray(field.to_signed(run_layer(layer, KEY, jnp.asarray(x), cohort_of(4000), survivors(4000))["upload"]))
    assert z.any(1).all() and (np.square(z).sum(1) <= squared_norm_bound(40.0, 30)).all()
    assert (np.linalg.norm(z, axis=1) > 40).any()
    mean = x[0] * 40 / np.linalg.norm(x[0])
    assert (np.abs(z.mean(0) - mean) < 5 * 0.5 / np.sqrt(4000)).all()


def test_a_sum_is_the_plain_sum_and_the_noise_of_survivors():
    n, d, variance = 6, 40, 900.0
    x = jnp.asarray(np.random.default_rng(1).normal(size=(n, d)), jnp.float32)
    alive, who = survivors(n, [2]), cohort_of(n)

    def total(**noise):
        layers = stack(quantize=quantize(16.0, n), **noise, send=plain_field())
        return np.asarray(run_layer(layers, KEY, x, who, alive)["received"].value[0], np.float64) * 16

    noisy = total(noise=skellam_noise(variance, max_norm=200.0, max_terms=n))
    added = noises(n, d, variance)[np.asarray(alive)].sum(0)
    assert (noisy - total() == added).all() and added.any()


test_bad_arguments = refuses(
    lambda how: sent([[0.0, 0.0]], **how),
    ({"variance": -1.0}, "noise_variance must be a finite number >= 0"),
    ({"variance": 2.0**29}, r"noise_variance must be at most 2\*\*28 squared grid points"),
    ({"max_norm": 0.0}, "max_norm must be a finite number > 0"),
    ({"max_norm": 2.0**16}, "max_norm must leave values of at most 65534 grid points once 2 coordinates"),
    ({"max_terms": 2**29}, "max_norm must leave values of at most"),
    ({"max_terms": 0}, "max_terms must be an integer >= 1"),
)


def test_arguments_cannot_be_traced():
    with pytest.raises(ValueError, match="noise_variance must be known when the program is compiled"):
        jax.jit(lambda v: skellam_noise(v, max_norm=1.0, max_terms=2) and v)(1.0)
