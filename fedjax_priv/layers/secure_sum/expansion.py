"""Expands the seeds that a user shares with its peers to its pairwise masks, on all coordinates or on a random few.

Both users of a pair, and the server for a lost one, expand the same seed to the same ones `b_ij` and words `r_ij`, so
that masks cancel whatever the expansion. `prg` generates the masks; with `elide` none is expanded.
"""

import bisect
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.crypto import field
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.crypto.prg import Prg, Round, expand
from fedjax_priv.engine.side_by_side import ACCELERATOR_BYTES, by_platform, fitting
from fedjax_priv.layers.secure_sum import sparse_ones
from fedjax_priv.layers.secure_sum.signed_sum import signed, signed_sum
from fedjax_priv.layers.secure_sum.tiles import in_tiles


class Pairs(NamedTuple):
    """What the peers of each user put on its upload."""

    mask: UInt32[Array, "c d"]  # sum of +-b_ij r_ij
    chosen: Bool[Array, "c d"]  # where b_ij = 1 for some peer
    overflow: Bool[Array, " c"]  # more ones than there is room for, or nobody knows how many


class Expansion(NamedTuple):
    """How the seeds of users' pairs are expanded, of several users side by side."""

    pairs: Callable[..., Pairs]  # (seeds [c, m, s], meets [c, m], plus [c, m], round, d) -> Pairs; plus: the sign is +
    located: bool  # whether `chosen` travels with an upload, rather than being all coordinates


@functools.lru_cache  # protocols of equal terms are equal, so that what is compiled for one serves all
def whole(prg: Prg, *, elide: bool = False, modulus: Modulus = FIELD) -> Expansion:
    """Every coordinate of every pair: b_ij = 1 (SecAgg). Masks are added in `modulus`."""

    def pairs(seeds: Array, meets: Array, plus: Array, round: Round, d: int) -> Pairs:
        users = len(meets)
        sums = functools.partial(signed_sum, seeds, meets, plus, "pairwise mask", round, d, prg, modulus)
        mask = jnp.zeros((users, d), jnp.uint32) if elide else sums()
        return Pairs(mask, jnp.ones((users, d), bool), jnp.zeros(users, bool))

    return Expansion(pairs, located=False)


def dense(probability: float | Array, prg: Prg, *, elide: bool = False) -> Expansion:
    """b_ij by comparing a word with a threshold at every coordinate: O(m d) work, the reference.

    Args:
      probability: of a one, the threshold over 2**32 (rounded to 24 bits). NaN counts as too many ones.
    """
    threshold = jnp.asarray(probability, jnp.float32) * 2.0**32
    always = threshold >= 2.0**32  # of two users with alpha = 1; no word holds this threshold
    unknown = jnp.isnan(threshold)
    threshold = jnp.where(always | unknown, 0, threshold).astype(jnp.uint32)

    def of_one(round: Array, d: int, user: tuple) -> Pairs:
        def one(total: tuple[Array, Array], peer: tuple) -> tuple[tuple[Array, Array], None]:
            seed, meets, plus = peer
            mask, chosen = total
            ones = meets & ((prg.words(seed, "pairwise selection", round, d) < threshold) | always)
            if not elide:
                words = expand(seed, "pairwise mask", round, d, prg)
                mask = field.add(jnp.where(ones, signed(words, plus), 0), mask)
            return (mask, chosen | ones), None

        start = jnp.zeros(d, jnp.uint32), jnp.zeros(d, bool)
        (mask, chosen), _ = jax.lax.scan(one, start, user)
        return Pairs(mask, chosen, unknown)

    def pairs(seeds: Array, meets: Array, plus: Array, round: Round, d: int) -> Pairs:
        return _each(lambda round, user: of_one(round, d, user), round, (seeds, meets, plus))

    return Expansion(pairs, located=True)


@functools.lru_cache  # protocols of equal terms are equal, so that what is compiled for one serves all
def skip(probability: float, most_pairs: int, prg: Prg, *, elide: bool = False) -> Expansion:
    """The ones of b_ij drawn directly, by the geometric gaps between them: O(m + a d m) work for one in 1/a.

    A gap comes from one word w: floor(log(1 - v) / log(1 - a)) for v = (w + 1/2) / 2**32, from log1p(-v) below 1/2 and
    from log of 1 - v above, so that both tails have full precision. The k-th one is given the k-th word of r_ij. Ones
    are drawn a few of all pairs at a time, until no pair has more.

    Args:
      probability: a of a one, in (0, 1].
      most_pairs: pairs of a round, by which the ones of each are bounded: see `most_ones`.
    """

    def parts_of(d: int) -> int:
        return -(-(most_ones(d, probability, most_pairs) + 1) // AT_ONCE)

    def of_one(round: Array, d: int, user: tuple) -> Pairs:
        """Part by part, until no pair has more ones: fewest words."""
        seeds, meets, plus = user
        parts = parts_of(d)

        def go_on(state: tuple) -> Array:
            part, after, _ = state
            return (part < parts) & (after < d).any()

        def draw(state: tuple) -> tuple:
            part, after, sums = state
            words = prg.words(seeds.T, "pairwise selection", round, AT_ONCE, part)
            after, position = sparse_ones.next_positions(after, words, probability, d)
            words = jnp.zeros_like(words) if elide else expand(seeds.T, "pairwise mask", round, AT_ONCE, prg, part)
            return part + 1, after, sparse_ones.scatter(sums, position, signed(words, plus[None, :]))

        start = jnp.where(meets, np.uint32(0), np.uint32(d))
        _, after, sums = jax.lax.while_loop(go_on, draw, (jnp.uint32(0), start, jnp.zeros((d, 2), jnp.uint32)))
        return Pairs(*sparse_ones.gathered(sums), (after < d).any())

    def of_all(round: Array, d: int, users: tuple) -> Pairs:
        parts = parts_of(d)
        seeds, meets, plus = (jnp.moveaxis(a, (0, 1), (-2, -1)) for a in users)  # [s, c, m] and [c, m]
        drawn = lambda draw: jax.vmap(draw)(jnp.arange(parts)).reshape(-1, *meets.shape)
        words = drawn(lambda part: prg.words(seeds, "pairwise selection", round, AT_ONCE, part))
        position, overflow = sparse_ones.positions(sparse_ones.gaps(words, probability, d), meets, d)
        if elide:
            words = jnp.zeros_like(words)
        else:
            words = drawn(lambda part: expand(seeds, "pairwise mask", round, AT_ONCE, prg, part))
        sums = sparse_ones.scatter_by_user(position, signed(words, plus[None]), d)
        return Pairs(*sparse_ones.gathered(sums), overflow)

    def pairs(seeds: Array, meets: Array, plus: Array, round: Round, d: int) -> Pairs:
        user_bytes = sparse_ones.DRAW_BYTES * parts_of(d) * AT_ONCE * meets.shape[1] + 16 * d
        tall = min(fitting(user_bytes, len(meets), ACCELERATOR_BYTES), -(-len(meets) // MOST_SHARE))
        one_by_one = lambda round, users: jax.lax.map(lambda user: of_one(round, d, user), users)
        in_parts = lambda round, users: in_tiles(lambda rows: of_all(round, d, rows), users, users[1].any(1), tall)
        return by_platform(one_by_one, in_parts, jnp.asarray(round), (seeds, meets, plus))

    return Expansion(pairs, located=True)


def _each(one: Callable[..., Pairs], round: Round, users: tuple) -> Pairs:
    """Users one after the other on a CPU, side by side elsewhere."""
    mapped = lambda round, users: jax.lax.map(lambda user: one(round, user), users)
    return by_platform(mapped, jax.vmap(one, (None, 0)), jnp.asarray(round), users)


AT_ONCE = 16
"""Ones of each pair drawn at once; with 8, XLA on a CPU does not vectorise it."""
MOST_SHARE = 8
"""A tile has at most an eighth of the users, so that few are computed in vain where few are lost."""

OVERFLOW_PROBABILITY = 1e-12
"""That some pair of a round has more ones than there is room for."""


def most_ones(d: int, probability: float, most_pairs: int) -> int:
    """The most ones of a pair that there is room for.

    All `most_pairs` pairs of a round fit with probability 1 - 1e-12, by a union bound over binomial tails.
    """
    from scipy.special import bdtrc  # binomial survival function, precise far in the tail; slow to import

    allowed = OVERFLOW_PROBABILITY / most_pairs
    return bisect.bisect_left(range(d), True, key=lambda most: bdtrc(most, d, probability) <= allowed)
