"""Public integers that the server multiplies uploads by, and holders of shares what they answer with.

Coding and sharing are linear, so they commute with these products: the answers give the sum of masks that the server
takes off the sum of the uploads, each mask times the factor of its upload (asynchronous LightSecAgg, So et al. 2021,
arXiv 2110.02177).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree, UInt32

from fedjax_priv.base import Combine, absent
from fedjax_priv.crypto import field


def times(y: PyTree, factor: PyTree) -> PyTree:
    """Field elements `[b, ...]` times the integer of each row, uint32 `[b]`; as they are without factors."""
    if absent(factor):
        return y
    return jax.tree.map(lambda a: field.mul(a, factor.reshape(-1, *[1] * (a.ndim - 1))), y)


def weighed(combine: Combine) -> Combine:
    """The same sum of field elements, whose uploads may have factors."""
    return combine._replace(times=times)


def in_sum(alive: Bool[Array, " n"], factor: PyTree) -> Bool[Array, " n"]:
    """Whose upload is in the sum: one times 0 is not, and does not hide others."""
    return alive if absent(factor) else alive & (factor > 0)


def bits_to_tell(alive: Bool[Array, " n"], factor: PyTree) -> UInt32[Array, ""]:
    """Bits of the factors of all survivors, which holders are told with the list of them."""
    word = np.uint32(0 if absent(factor) else 32)
    return word * alive.sum(dtype=jnp.uint32)
