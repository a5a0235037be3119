"""A random rotation that all clients of a round share, after which no coordinate of an update stands out.

Suresh, Yu, Kumar and McMahan, "Distributed mean estimation with limited communication" (ICML 2017); before rounding and
modular sums in Kairouz, Liu and Steinke (ICML 2021).
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import Bits, Cohort, Key, Layer, Link, Received, Sent
from fedjax_priv.crypto.prg import seed_of, signs
from fedjax_priv.engine.side_by_side import by_platform
from fedjax_priv.layers.group_sums import message_bits
from fedjax_priv.layers.stacking import stateless


def rotate(num_params: int) -> Layer:
    """`x -> H D x / sqrt(d')` of updates `[b, d]`, `[b, d']`; sums `[g, d']` are rotated back and cut to d.

    d' is the least power of two that is not below d = `num_params`, H the Walsh-Hadamard matrix, D random signs. The
    server draws their seed when a round opens and announces it, 64 bits to every client that takes part. Norms stay as
    they are, within float32 rounding, and with probability 1 - p no coordinate exceeds
    `sqrt(2 log(2 d' / p) / d') ||x||`, whatever the update is that does not depend on the seed.

    Args:
      num_params: d.

    Raises:
      ValueError: `num_params` is no integer >= 1; or, when a round is traced, updates are of another length.

    Examples:
      >>> grid = round_within(2**10, max_norm=1.0)
      >>> send = stack(clip=clip(1.0), rotate=rotate(1000), round=grid, wrap=wrap(16), send=plain_ring(16))
    """
    num_params = _validate.integer(num_params=num_params)
    padded = padded_length(num_params)

    def advertise(key: Key, state: tuple, cohort: Cohort) -> tuple[tuple, Array, Bits]:
        del state
        seed = seed_of(key)
        down = jnp.where(cohort.selected, message_bits(seed), 0)
        return (), seed, {"rotation": Link(jnp.zeros_like(down), down)}

    def encode(key: Key, private: PyTree, seed: Array, x: Float[Array, "b d"], cohort: Cohort) -> tuple:
        del key, private, cohort
        if x.shape[1] != num_params:
            raise ValueError(f"num_params must be the length of an update, {x.shape[1]}, got {num_params}")
        longer = jnp.pad(x, [(0, 0), (0, padded - num_params)])
        return hadamard(longer * signs(seed, "rotation", padded)[None]), (), Sent()

    def decode(header: tuple, seed: Array, received: Received) -> Received:
        del header
        return received._replace(value=rotated_back(seed, received.value)[:, :num_params])

    return stateless()._replace(advertise=advertise, encode=encode, decode=decode)


def rotated_back(seed: UInt32[Array, "2"], x: Float[Array, "g e"]) -> Float[Array, "g e"]:
    """Rows of d' numbers as they were before the rotation of a seed."""
    return hadamard(x) * signs(seed, "rotation", x.shape[1])[None]


def padded_length(num_params: int) -> int:
    """d', the least power of two that is not below d."""
    return 1 << (num_params - 1).bit_length()


def hadamard(x: Float[Array, "b d"]) -> Float[Array, "b d"]:
    """`H x / sqrt(d)` of each row, with H the Walsh-Hadamard matrix of order d, a power of two; its own inverse.

    Every step is the same: neighbours are added and subtracted, sums are put before differences. After log2(d) steps
    all are in their places. Only elementwise additions, in the same order on every device, so bits do not depend on the
    block size. As each reading of all numbers costs more than the additions, several steps are taken at once.
    """
    order = x.shape[1].bit_length() - 1
    rotated = by_platform(partial(_two_by_two, order), partial(_two_by_two, order), x, gpu=partial(_by_threes, order))
    return rotated * np.float32(1 / math.sqrt(x.shape[1]))


def _two_by_two(order: int, x: Float[Array, "b d"]) -> Float[Array, "b d"]:
    """All steps, two at once, in a loop. With more at once a CPU takes longer, and a TPU has more kernels."""
    pairs, odd = divmod(order, 2)
    x = _steps(odd, x) if odd else x
    return jax.lax.fori_loop(0, pairs, lambda _, x: _steps(2, x), x) if pairs else x


def _by_threes(order: int, x: Float[Array, "b d"]) -> Float[Array, "b d"]:
    """The same without a loop: a GPU copies what a loop carries in each turn. Four at once compile twice as long."""
    for first in range(0, order, 3):
        x = _steps(min(3, order - first), x)
    return x


def _steps(times: int, x: Float[Array, "b d"]) -> Float[Array, "b d"]:
    """So many steps at once, on groups of `2^times` neighbours; what each step makes is put in its place at the end."""
    runs = [[x[:, place :: 2**times] for place in range(2**times)]]
    for _ in range(times):
        pairs = [list(zip(run[0::2], run[1::2], strict=True)) for run in runs]
        runs = [[a + b for a, b in run] for run in pairs] + [[a - b for a, b in run] for run in pairs]
    return jnp.concatenate([numbers for (numbers,) in runs], axis=1)
