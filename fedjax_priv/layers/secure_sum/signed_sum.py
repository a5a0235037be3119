"""Sums of the masks of many pairs, with a sign each: the work of a secure sum, at the rate of the generator.

A tile of clients x pairs x coordinates is computed at once, as large as fits. On a CPU the words of a tile are added in
registers, on a TPU too if a client has many pairs, on a GPU those of a few pairs of all its clients. Where blocks are
long, accelerators write them to memory. A sum over pairs is an integer sum, so its bits do not depend on tiles.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.crypto import block_stream, field
from fedjax_priv.crypto.block_stream import BlockStream
from fedjax_priv.crypto.modulus import FIELD, Modulus
from fedjax_priv.crypto.prg import SHARED_BY, Prg, Round
from fedjax_priv.engine.side_by_side import ACCELERATOR_BYTES, CPU_CACHE_BYTES, by_platform, fitting
from fedjax_priv.layers.secure_sum.tiles import in_tiles

IN_REGISTERS = 3
"""Pairs of a client whose words a GPU adds before it adds them to a sum in memory. One at a time, it moves more than
twice as many bytes; so it does with four of 1,000 clients, which XLA cuts into two kernels.
"""
FEWEST_IN_REGISTERS, MOST_IN_REGISTERS = 72, 144
"""Pairs of a client whose words a TPU adds at once, one more if they are even. XLA was seen to evaluate Philox four
times and to write the words to memory with fewer (65), more (999) or an even number (120), and with none of 20 odd
numbers in between, for masks of 159,010 words.
"""
SHORT_BLOCK = 4
"""Words of a block of Philox. XLA does not keep longer blocks, those of ChaCha20, in registers: on a GPU the sum of a
tile would not compile, on a TPU it would move more.
"""


class Signed(NamedTuple):
    """Pairs of clients, with what turns a word into a summand; all uint32 of one shape, such as `[c, m]`."""

    seed: tuple[Array, ...]  # its words; contiguous, as XLA on a CPU reads several pairs at a time
    flip: Array  # all bits if the sign is -
    keep: Array  # all bits if the pair counts

    def summand(self, words: Array, modulus: Modulus) -> UInt32[Array, "..."]:
        """The words `[c, m, ...]` of each pair with its sign; any uint32 that stands for the element."""
        flip, keep = (bits[(..., *(None,) * (words.ndim - bits.ndim))] for bits in (self.flip, self.keep))
        return _flipped(words, flip, modulus) & keep


Tile = Callable[..., Array]  # (pairs, round) -> uint32 [c, d]


def signed_sum(
    seeds: UInt32[Array, "c m s"],
    meets: Bool[Array, "c m"],
    plus: Bool[Array, "c m"],
    purpose: str,
    round: Round,
    d: int,
    prg: Prg,
    modulus: Modulus = FIELD,
) -> UInt32[Array, "c d"]:
    """The sum over the pairs of each client of +- `modulus.expand(seed, purpose, round, d, prg)`.

    Args:
      seeds: of the pairs.
      meets: which pairs count; a tile of clients that meet nobody costs nothing.
      plus: whose sign is +.
      purpose: names the domain.
      round: number of the round.
      d: number of elements.
      prg: the generator.
      modulus: where masks are added.
    """
    count = d + _spares(d, modulus)
    of_words = functools.partial(_sum_of_words, purpose=purpose, d=d, prg=prg, modulus=modulus)
    budgets = CPU_CACHE_BYTES, ACCELERATOR_BYTES
    on_cpu, elsewhere = (_within(of_words, 12 * count, d, budget, modulus) for budget in budgets)
    on_gpu = None
    if prg.stream is not None and count >= block_stream.MANY:
        how = {"purpose": purpose, "d": d, "stream": prg.stream, "modulus": modulus}
        in_registers, from_memory, in_steps = (
            functools.partial(tile, **how) for tile in (_sum_in_registers, _sum_from_memory, _sum_in_steps)
        )
        if modulus is FIELD:  # of others the words of a tile take a tenth less time where a client has few pairs
            on_cpu = _within(in_registers, 4 * (count - d), d, CPU_CACHE_BYTES, modulus, step=8)
        short, held = prg.stream.lanes <= SHORT_BLOCK, 8 * count
        elsewhere = _within(from_memory, held, d, ACCELERATOR_BYTES, modulus)
        if short and meets.shape[1] >= FEWEST_IN_REGISTERS:
            elsewhere = _within(in_registers, held, d, ACCELERATOR_BYTES, modulus, most=MOST_IN_REGISTERS, odd=True)
        if short:
            on_gpu = _within(in_steps, 4 * (prg.seed_words + 2), d, ACCELERATOR_BYTES, modulus, step=IN_REGISTERS)
    return by_platform(on_cpu, elsewhere, seeds, meets, plus, jnp.asarray(round), gpu=on_gpu)


def signed(words: Array, plus: Array) -> UInt32[Array, "..."]:
    """A word or q minus it, any uint32 that stands for the element; a word is read once, lest it be expanded twice."""
    return _flipped(words, _all_bits(~plus), FIELD)


def _flipped(words: Array, flip: Array, modulus: Modulus) -> Array:
    return (words ^ flip) - (flip & modulus.complement)


def _all_bits(where: Array) -> UInt32[Array, "..."]:
    return jnp.where(where, np.uint32(2**32 - 1), np.uint32(0))


def _within(
    tile: Tile,
    pair_bytes: int,
    d: int,
    budget: int,
    modulus: Modulus,
    *,
    step: int = 1,
    most: int = field.MAX_TERMS,
    odd: bool = False,
) -> Tile:
    """`tile` on clients x pairs that fit a budget.

    Args:
      tile: what is computed at once.
      pair_bytes: what a pair holds meanwhile.
      d: coordinates; the sum of a client holds 16 bytes for each.
      budget: bytes.
      modulus: where sums of tiles are added.
      step: pairs that are added up together; the number of pairs is padded to a multiple of it.
      most: pairs of a tile, but for the padding.
      odd: the number of pairs is padded to an odd one.
    """

    def sums(seeds: Array, meets: Array, plus: Array, round: Array) -> Array:
        users, number = meets.shape
        parts = -(-number // fitting(pair_bytes, min(number, most), budget))
        wide = -(-number // (parts * step)) * step | odd
        missing = [(0, 0), (0, parts * wide - number)]
        cut = lambda a: jnp.pad(a, missing).reshape(users, parts, wide)

        def one(rows: Signed) -> Array:
            if parts == 1:
                return tile(jax.tree.map(lambda a: a[:, 0], rows), round)
            add = lambda total, part: (modulus.add(total, tile(part, round)), None)
            nothing = jnp.zeros((len(rows.keep), d), jnp.uint32)
            return lax.scan(add, nothing, jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), rows))[0]

        pairs = Signed(tuple(jnp.moveaxis(seeds, -1, 0)), _all_bits(~plus), _all_bits(meets))
        tall = fitting(wide * pair_bytes + 16 * d, users, budget)
        return in_tiles(one, jax.tree.map(cut, pairs), meets.any(1), tall)

    return sums


def _sum_of_words(
    pairs: Signed, round: Array, *, purpose: str, d: int, prg: Prg, modulus: Modulus
) -> UInt32[Array, "c d"]:
    """Of any generator, in any group."""
    words = jax.vmap(jax.vmap(lambda *seed: modulus.expand(jnp.stack(seed), purpose, round, d, prg)))(*pairs.seed)
    return modulus.sum(pairs.summand(words, modulus), 1)


def _sum_of_blocks(
    add: Callable[..., tuple[Array, ...]],
    pairs: Signed,
    round: Array,
    *,
    purpose: str,
    d: int,
    stream: BlockStream,
    modulus: Modulus,
) -> UInt32[Array, "c d"]:
    """Of a generator of blocks, from `block_stream.MANY` words on, in the layout of its blocks."""
    spare = _spare_elements(stream, d, jnp.stack(pairs.seed), purpose, round, modulus)
    sums = add(_summands(pairs, spare, purpose, round, d, stream, modulus), modulus)
    if modulus is FIELD:
        lanes = [field.join(low, high) for low, high in zip(sums[::2], sums[1::2], strict=True)]
    else:
        lanes = [modulus.add(words, np.uint32(0)) for words in sums]
    return _in_order(lanes, d)


def _parts(summands: list[Array], modulus: Modulus) -> list[Array]:
    """What may be added in 32 bits: in F_q halves of words, elsewhere the words, whose sums wrap."""
    return [half for words in summands for half in field.split(words)] if modulus is FIELD else summands


def _added_in_registers(summands: list[Array], modulus: Modulus) -> tuple[Array, ...]:
    """Sums over pairs, one after the other. On a CPU and a TPU no summand is written."""
    return block_stream.add_together(_parts(summands, modulus), 1)


def _added_from_memory(summands: list[Array], modulus: Modulus) -> tuple[Array, ...]:
    """The same. XLA would write the halves, rather than the words, to memory."""
    parts = _parts(lax.optimization_barrier(summands), modulus)
    return tuple(jnp.sum(part, 1, dtype=jnp.uint32) for part in parts)


_sum_in_registers = functools.partial(_sum_of_blocks, _added_in_registers)
_sum_from_memory = functools.partial(_sum_of_blocks, _added_from_memory)


def _sum_in_steps(
    pairs: Signed, round: Array, *, purpose: str, d: int, stream: BlockStream, modulus: Modulus
) -> UInt32[Array, "c d"]:
    """As `_sum_of_blocks`, a few pairs of all clients at a time: nothing but the sums is written to memory.

    Each pair has its own operations. If those of a step were one array, XLA would write its words to memory, too.
    """

    def step(total: list[Array], some: Signed) -> tuple[list[Array], None]:
        spare = _spare_elements(stream, d, jnp.stack(some.seed), purpose, round, modulus)
        for i in range(IN_REGISTERS):
            pair = jax.tree.map(lambda a, i=i: a[:, i], some)
            words = _summands(pair, spare[:, :, i], purpose, round, d, stream, modulus)
            total = [modulus.add(a, word) for a, word in zip(total, words, strict=True)]  # a word may be q, too
        return total, None

    users, number = pairs.keep.shape
    rows, columns = stream.layout(d + _spares(d, modulus))
    cut = lambda a: jnp.swapaxes(a.reshape(users, number // IN_REGISTERS, IN_REGISTERS), 0, 1)
    nothing = [jnp.zeros((users, rows, columns), jnp.uint32)] * stream.lanes
    return _in_order(lax.scan(step, nothing, jax.tree.map(cut, pairs))[0], d)


def _summands(
    pairs: Signed,
    spare: UInt32[Array, "s ..."],
    purpose: str,
    round: Array,
    d: int,
    stream: BlockStream,
    modulus: Modulus,
) -> list[Array]:
    """What pairs `[...]` add, in the lanes of a generator's blocks, `[..., rows, columns]` each."""
    spares, outer = len(spare), pairs.keep.ndim
    rows, columns = stream.layout(d + spares)
    number = jnp.arange(rows * columns, dtype=jnp.uint32).reshape(*(1,) * outer, rows, columns)
    seed = tuple(word[..., None, None] for word in pairs.seed)
    lanes = stream.blocks(number, seed, purpose, round)
    if not spares:
        return [pairs.summand(words, modulus) for words in lanes]
    place = jnp.arange(stream.lanes * rows * columns, dtype=jnp.uint32).reshape(rows, stream.lanes, columns)
    summands: list[Array] = []
    for lane, words in enumerate(lanes):
        shared = spare[jnp.minimum(place[:, lane] // np.uint32(SHARED_BY), np.uint32(spares - 1))]
        elements = jnp.where(words >= field.Q, jnp.moveaxis(shared, (0, 1), (-2, -1)), words)
        summands.append(pairs.summand(elements, modulus))
    return summands


def _in_order(lanes: list[Array], d: int) -> UInt32[Array, "c d"]:
    """The first `d` words of streams, from the lanes `[c, rows, columns]` of their blocks."""
    return jnp.concatenate(lanes, -1).reshape(len(lanes[0]), -1)[:, :d]


def _spares(d: int, modulus: Modulus) -> int:
    """Words behind the first `d` of a stream, which replace those outside the field."""
    return -(-d // SHARED_BY) if modulus is FIELD else 0


def _spare_elements(
    stream: BlockStream, d: int, seed: UInt32[Array, "w c m"], purpose: str, round: Array, modulus: Modulus
) -> UInt32[Array, "s c m"]:
    """What replaces words outside the field, from those blocks of a stream's last row that hold it; else nothing."""
    spares = _spares(d, modulus)
    if not spares:
        return jnp.zeros((0, *seed.shape[1:]), jnp.uint32)
    rows, columns = stream.layout(d + spares)
    lane, column = divmod(d - (rows - 1) * stream.lanes * columns, columns)
    last = lane == stream.lanes - 1
    first = np.array([(rows - 1) * columns + column * last], np.uint32)
    lanes = stream.runs_of_blocks(jnp.asarray(first), spares if last else columns, seed, purpose, round)[lane:]
    words = lanes[0][0] if last else jnp.concatenate([words[0] for words in lanes])[column : column + spares]
    return lax.optimization_barrier(field.canonical(words))  # as in `expand`
