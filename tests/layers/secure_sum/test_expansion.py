"""Both expansions draw the same law, and each exactly: against binomials, geometric gaps and dense sums in NumPy."""

import decimal
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_priv.crypto import prg
from fedjax_priv.layers.secure_sum import expansion, sparse_ones
from helpers import Q, accelerator_forms, same_bits

PHILOX = prg.philox
KEY = jax.random.key(11)
HOW = {
    "skip": lambda a, **how: expansion.skip(a, 1000, PHILOX, **how),
    "dense": lambda a, **how: expansion.dense(a, PHILOX, **how),
}


def seeds_of(count, key=KEY):
    return jax.random.bits(key, (count, 2), jnp.uint32)


def alone(expansion, seeds, round, d):
    """Each seed of a user with one peer, its sign +."""
    yes = jnp.ones((len(seeds), 1), bool)
    return expansion.pairs(seeds[:, None], yes, yes, round, d)


def counts_test(observed, probability):
    """p-value of a chi-square test; rare outcomes are one, and take what no outcome holds."""
    expected = observed.sum() * probability
    rare = expected < 8
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], observed.sum() - expected[~rare].sum())
    keep = expected > 1e-9
    return stats.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()).pvalue


@functools.partial(jax.jit, static_argnames=("how", "a", "d", "parts"))
def ones(how, a, d, parts, seeds):
    """Of many pairs, how many ones each has, in all and in each part of its coordinates."""

    def one(seed):
        pairs = alone(HOW[how](a, elide=True), seed[None], 3, d)
        return pairs.chosen.reshape(parts, -1).sum(1), pairs.overflow[0]

    return jax.lax.map(one, seeds, batch_size=8)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("a", "d", "pairs"), [(0.5, 40, 20_000), (1e-3, 4_000, 4_000), (1e-5, 100_000, 400)])
def test_ones_of_a_pair_are_binomial_and_anywhere(how, a, d, pairs):
    """Counts against Binomial(d, a), positions against uniform ones; an a that is 2% off is told where it can be."""
    by_part, overflow = map(np.asarray, ones(how, a, d, 20, seeds_of(pairs)))
    assert not overflow.any()
    count = np.bincount(by_part.sum(1), minlength=d + 1)
    law = lambda a: stats.binom.pmf(np.arange(d + 1), d, a)
    assert counts_test(count, law(a)) > 1e-3
    assert stats.chisquare(by_part.sum(0)).pvalue > 1e-3
    if pairs * d * a > 1e5:
        assert counts_test(count, law(1.02 * a)) < 1e-9
        assert counts_test(count, law(a / 1.02)) < 1e-9


def gap_test(gaps, a, cells=200):
    """p-value against a geometric law, in cells that are as likely as integers let them be."""
    edges = np.unique(np.floor(np.log1p(-np.arange(cells) / cells) / np.log1p(-a)).astype(np.int64))
    below = -np.expm1(np.append(edges, np.inf) * np.log1p(-a))  # P[gap < edge]
    observed = np.bincount(np.searchsorted(edges, gaps, side="right") - 1, minlength=len(edges))
    return counts_test(observed, np.diff(below))


@functools.partial(jax.jit, static_argnames=("how", "a", "d"))
def chosen_of(how, a, d, seeds):
    return alone(HOW[how](a, elide=True), seeds, 3, d).chosen


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("a", "d"), [(0.02, 20_000)])
def test_gaps_between_ones_are_geometric(how, a, d):
    pairs = 40
    gaps = np.concatenate(
        [np.diff(np.flatnonzero(row), prepend=-1) - 1 for row in np.asarray(chosen_of(how, a, d, seeds_of(pairs)))]
    )
    assert gap_test(gaps, a) > 1e-3
    assert gap_test(gaps, 1.1 * a) < 1e-9


@pytest.mark.parametrize("d", [2**24, 2**24 + 1, 50_000_001, 2**31 - 1])
def test_a_gap_beyond_the_last_coordinate_is_d_where_float32_rounds_d_down(d):
    """The word of the largest gap, about 22 / a, and one within d; d - 1 would be a one that nobody drew."""
    large, small = np.asarray(gaps_of_words(jnp.array([2**32 - 1, 2**31], jnp.uint32), 1e-9, d)).tolist()
    assert (large, small) == (d, d) if d < 6e8 else large == d and small == pytest.approx(np.log(2) / 1e-9, rel=1e-3)


gaps_of_words = jax.jit(sparse_ones.gaps, static_argnums=(1, 2))


@functools.cache
def million_words():
    return jax.jit(lambda seed: PHILOX.words(seed, "pairwise selection", 0, 1_000_000))(jnp.array([1, 2], jnp.uint32))


@pytest.mark.parametrize("a", [1e-5, 1e-3, 0.1, 0.5])
def test_gaps_of_a_million_words(a):
    gaps = np.asarray(gaps_of_words(million_words(), a, 2**31 - 1)).astype(np.int64)
    assert gap_test(gaps, a) > 1e-3
    for off in (1.02 * a, 0.98 * a):
        assert gap_test(gaps, off) < 1e-9


def test_long_gaps_do_not_fall_on_a_coarse_grid():
    """The longest 2**-12 of gaps at a = 1e-5, where a uniform of 24 bits has 4,096 values left."""
    a, tail = 1e-5, 2.0**-12
    low = np.random.default_rng(0).integers(0, 2**20, 40_000, dtype=np.uint32)
    words = jnp.asarray(np.uint32(2**32 - 2**20) + low)

    def phase_test(gaps):
        survival = np.exp(np.asarray(gaps).astype(np.float64) * np.log1p(-a))  # uniform in (0, 2**-12]
        phase = (survival / tail * 4096) % 1
        return stats.chisquare(np.bincount((8 * phase).astype(int), minlength=8)).pvalue

    assert phase_test(gaps_of_words(words, a, 2**31 - 1)) > 1e-3
    coarse = (words >> 8).astype(jnp.float32) * 2.0**-24
    assert phase_test(jnp.floor(jnp.log1p(-coarse) / np.log1p(-a))) < 1e-9


def test_gaps_are_those_of_64_bits():
    """Of single words from end to end, within rounding of a float; the shortest and the longest of all among them."""
    words = np.concatenate([np.arange(50), 2**31 + np.arange(-25, 25), 2**32 - 1 - np.arange(50)]).astype(np.uint32)
    words = np.concatenate([words, np.random.default_rng(1).integers(0, 2**32, 1000, dtype=np.uint32)])
    for a in (1e-5, 0.01, 0.9):
        uniform = (words.astype(np.float64) + 0.5) / 2**32
        exact = np.log1p(-uniform) / np.log1p(-a)
        gaps = np.asarray(gaps_of_words(words, a, 2**31 - 1)).astype(np.float64)
        assert (np.abs(gaps + 0.5 - exact) <= 0.5 + 1e-6 * np.maximum(exact, 1)).all()
    assert gaps_of_words(words, 1e-5, 100).max() == 100, "no longer than there are coordinates"
    assert not gaps_of_words(words, 1.0, 100).any(), "a pair of two users with alpha = 1 skips nothing"


@functools.partial(jax.jit, static_argnames=("how", "a", "d"))
def _single(how, a, seeds, d):
    return alone(HOW[how](a), seeds, 3, d)


def single(how, a, seeds, d):
    """b_ij and r_ij of each pair: a user with one peer, its sign +."""
    pairs = _single(how, a, seeds, d)
    return np.asarray(pairs.chosen), np.asarray(pairs.mask).astype(object)


@pytest.mark.parametrize(("how", "a", "d"), [("skip", 0.3, 100), ("skip", 1.0, 20), ("dense", 0.3, 100)])
def test_a_user_s_masks_are_the_sum_of_its_pairs(how, a, d):
    """Eq. 18 from single pairs, in Python integers: signs, who is met, and what is chosen."""
    seeds, rng = seeds_of(5), np.random.default_rng(2)
    b, r = single(how, a, seeds, d)
    meets, plus = rng.random((2, 8, 5)) < 0.6
    pairs = jax.jit(HOW[how](a).pairs, static_argnums=4)(np.tile(seeds, (8, 1, 1)), meets, plus, 3, d)
    for i in range(8):
        mask = sum((b[j] * r[j] * (1 if plus[i, j] else -1) for j in np.flatnonzero(meets[i])), np.zeros(d, object))
        assert (np.asarray(pairs.mask[i]) == mask % Q).all()
        assert (np.asarray(pairs.chosen[i]) == b[meets[i]].any(0)).all()
    assert not pairs.overflow.any()
    assert b.all() if a == 1.0 else 0 < b.mean() < 1


def test_masks_of_ones_are_words_of_the_stream():
    """Under "dense" r_ij(l) is word l, under "skip" the k-th one of a run of 16 has the k-th word of that part."""
    a, d, seeds = 0.5, 300, seeds_of(3)
    words, selection, part_words, part_selection = map(np.asarray, streams(seeds, d))
    b, r = single("dense", a, seeds, d)
    assert (r == np.where(b, words, 0)).all()
    assert (b == (selection < a * 2**32)).all()
    b, r = single("skip", a, seeds, d)
    for j in range(3):
        at = np.flatnonzero(b[j])
        assert (r[j][at] == part_words[j, : len(at)]).all()
        gaps = np.asarray(gaps_of_words(part_selection[j], a, d))
        assert (np.diff(at, prepend=-1) - 1 == gaps[: len(at)]).all()


@functools.partial(jax.jit, static_argnums=1)
def streams(seeds, count):
    """Masks and selections of each seed, in one and in runs of 16, a part of the stream each; all `[n, count]`."""

    def one(seed):
        masks, selections = (prg.expand, "pairwise mask"), (PHILOX.words, "pairwise selection")
        whole = [draw(seed, purpose, 3, count) for draw, purpose in (masks, selections)]
        parts = jnp.arange(-(-count // 16))
        run = lambda draw, purpose: lambda part: draw(seed[:, None], purpose, 3, 16, part=part)[:, 0]
        return *whole, *(jax.lax.map(run(*each), parts).ravel() for each in (masks, selections))

    return jax.vmap(one)(seeds)


def test_whole_masks_are_words_everywhere():
    d, seeds = 40, seeds_of(2)
    meets = jnp.array([[False, True]])
    whole = jax.jit(lambda plus: expansion.whole(PHILOX).pairs(seeds[None], meets, plus, 3, d))
    words = np.asarray(streams(seeds, d)[0])[1].astype(object)
    for plus in (True, False):
        pairs = whole(np.full((1, 2), plus))
        assert (np.asarray(pairs.mask[0]) == (words if plus else -words) % Q).all()
        assert pairs.chosen.all()


@pytest.mark.parametrize("how", ["skip", "dense", "whole"])
def test_elided_masks_choose_the_same(how):
    make = {
        "skip": lambda elide: expansion.skip(0.2, 1000, PHILOX, elide=elide),
        "dense": lambda elide: expansion.dense(0.2, PHILOX, elide=elide),
        "whole": lambda elide: expansion.whole(PHILOX, elide=elide),
    }[how]
    drawn = lambda elide: alone(make(elide), seeds_of(4), 3, 200)
    full, elided = jax.jit(lambda: (drawn(False), drawn(True)))()
    assert (full.chosen == elided.chosen).all()
    assert not elided.mask.any()
    assert full.mask.any()


def tail(d, a, most):
    """P[Bin(d, a) > most] to 40 digits."""
    with decimal.localcontext() as context:
        context.prec = 60
        a, other = decimal.Decimal(a), 1 - decimal.Decimal(a)
        term = decimal.Decimal(math.comb(d, most + 1)) * a ** (most + 1) * other ** (d - most - 1)
        total, k = decimal.Decimal(0), most + 1
        while k <= d and term > total * decimal.Decimal("1e-40"):
            total += term
            term *= decimal.Decimal(d - k) / (k + 1) * a / other
            k += 1
        return total


def kernels_with_logarithms_of_each_part(function, *args):
    """Kernels that join arrays and take the logarithms of all: XLA on a CPU compiles these once for each array."""
    kernels = jax.jit(function).lower(*args).compile().as_text().split("\n}\n")
    return sum("log(" in kernel and "concatenate(" in kernel for kernel in kernels)


def test_logarithms_of_gaps_are_compiled_once():
    seeds = seeds_of(64)
    assert kernels_with_logarithms_of_each_part(lambda seeds: alone(HOW["skip"](0.5), seeds, 3, 400), seeds) == 0
    at_once = lambda seeds: sparse_ones.gaps(PHILOX.words(seeds.T, "pairwise selection", 3, 16), 0.5, 400)
    assert kernels_with_logarithms_of_each_part(at_once, seeds) == 1  # the control


@pytest.mark.parametrize(
    ("d", "a", "pairs"), [(165_000, 1e-3, 4950), (165_000, 1e-4, 499_500), (1000, 0.5, 10), (40, 0.02, 3), (5, 0.5, 1)]
)
def test_room_for_ones_is_what_binomial_tails_ask_for(d, a, pairs):
    """The least that holds all pairs of a round with probability 1 - 1e-12."""
    most, allowed = expansion.most_ones(d, a, pairs), decimal.Decimal("1e-12") / pairs
    assert most <= d
    assert most == d or tail(d, a, most) <= allowed
    assert tail(d, a, most - 1) > allowed


def test_more_ones_than_there_is_room_for(monkeypatch):
    """The bit is set for a pair with more, and only for such; of what there is room for, masks are what they were."""
    d, a, seeds = 200, 0.08, seeds_of(30)
    b, r = single("skip", a, seeds, d)
    most = expansion.AT_ONCE - 1
    many = b.sum(1) > most
    assert 0 < many.sum() < 30
    monkeypatch.setattr(expansion, "most_ones", lambda *_: most)
    pairs = jax.jit(lambda: alone(expansion.skip(a, 7, PHILOX), seeds, 3, d))()
    assert (np.asarray(pairs.overflow) == many).all()
    for j in range(30):
        at = np.flatnonzero(b[j])[: expansion.AT_ONCE]
        assert np.flatnonzero(pairs.chosen[j]).tolist() == at.tolist()
        assert (np.asarray(pairs.mask)[j][at] == r[j][at]).all()


def test_ones_drawn_at_once_are_those_drawn_part_by_part(monkeypatch):
    """The form for accelerators, users in tiles, against that for a CPU; some pairs have too many ones."""
    a, d = 0.06, 300
    users, peers, rng = 11, 5, np.random.default_rng(4)
    seeds = seeds_of(users * peers).reshape(users, peers, 2)
    meets, plus = (rng.random((users, peers)) < 0.6 for _ in range(2))
    meets[::3], plus[::2] = False, False  # some meet nobody, some have the sign - only
    meets, plus = jnp.asarray(meets), jnp.asarray(plus)
    drawn = lambda: jax.jit(lambda: expansion.skip(a, 1000, PHILOX).pairs(seeds, meets, plus, 3, d))()
    for room in (None, 15):
        if room:
            monkeypatch.setattr(expansion, "most_ones", lambda *_, room=room: room)
        on_cpu = drawn()
        with accelerator_forms():
            elsewhere = drawn()
        assert on_cpu.mask.any() and (room is None or on_cpu.overflow.any())
        assert same_bits(on_cpu, elsewhere)
