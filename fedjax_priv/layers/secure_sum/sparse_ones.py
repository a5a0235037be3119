"""Ones at random coordinates, by the gaps between them, and sums of the words that stand there."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, UInt32

from fedjax_priv.crypto import field

DRAW_BYTES = 48
"""What a one holds while it is drawn and added: words, gaps, positions and indices."""


def gaps(words: Array, probability: float, d: int) -> UInt32[Array, "..."]:
    """Numbers of zeros before the next one, at most `d`, from a random word each; see `expansion.skip`."""
    low = words < np.uint32(2**31)
    tail = (jnp.where(low, words, ~words).astype(jnp.float32) + 0.5) * 2.0**-32
    log = jnp.where(low, jnp.log1p(-tail), jnp.log(tail))
    scale = 1 / np.log1p(-probability) if probability < 1 else 0.0
    zeros = log * np.float32(scale)
    # float32 may round d down, to a position that there is
    return jnp.where(zeros >= np.float32(d), np.uint32(d), zeros.astype(jnp.uint32))


def next_positions(
    after: Array, words: UInt32[Array, "k m"], probability: float, d: int
) -> tuple[Array, UInt32[Array, "k m"]]:
    """Where the next ones of each pair are, in order, and where to look for more; d or above: there is none left.

    Logarithms within the loop are compiled once. XLA would put those of all k words into the kernel that joins the
    generator's outputs, once for each of them, which is a fifth of the code of a whole round.
    """

    def step(after: Array, words: Array) -> tuple[Array, Array]:
        position = jnp.minimum(after + gaps(words, probability, d), np.uint32(d))
        return position + 1, position

    return lax.scan(step, after, words)


def positions(gaps: UInt32[Array, "k c m"], meets: Bool[Array, "c m"], d: int) -> tuple[Array, Bool[Array, " c"]]:
    """Where all ones of each pair are, as steps of `next_positions` from 0 find them, and which users have more.

    Sums of gaps that stop growing at d: such sums are associative, so it takes few steps.
    """
    sums = lax.associative_scan(lambda a, b: jnp.minimum(a + b, np.uint32(d + 1)), gaps + np.uint32(1))
    position = jnp.where(meets, sums - np.uint32(1), np.uint32(d))
    return position, (position[-1] + np.uint32(1) < d).any(-1)


COUNT_BIT = 24
"""Above a sum of up to 255 low halves. As many ones at a coordinate have a probability below 1 / 255! if a m <= 1."""


def scatter(sums: Array, position: Array, words: Array) -> UInt32[Array, "d 2"]:
    """Sums of the low halves, with a count above them, and of the high halves of the words at each coordinate."""
    return sums.at[position].add(_counted(words), mode="drop")


def scatter_by_user(position: UInt32[Array, "k c m"], words: UInt32[Array, "k c m"], d: int) -> UInt32[Array, "c d 2"]:
    """`scatter` into zeros, for several users side by side."""
    user = lax.broadcasted_iota(jnp.uint32, position.shape, 1)
    return jnp.zeros((position.shape[1], d, 2), jnp.uint32).at[user, position].add(_counted(words), mode="drop")


def _counted(words: Array) -> UInt32[Array, "... 2"]:
    halves = lax.bitcast_convert_type(words, jnp.uint16).astype(jnp.uint32)  # as `field.split`, low first
    count = np.array([1 << COUNT_BIT, 0], np.uint32)
    return halves + count[(None,) * words.ndim]


def gathered(sums: UInt32[Array, "*c d 2"]) -> tuple[UInt32[Array, "*c d"], Bool[Array, "*c d"]]:
    """Field sums, and where there are any."""
    low, high = sums[..., 0], sums[..., 1]
    return field.join(low & np.uint32(2**COUNT_BIT - 1), high), low >= np.uint32(1 << COUNT_BIT)
