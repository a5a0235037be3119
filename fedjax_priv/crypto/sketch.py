"""Random projections that a public seed expands to: P `[k, d]` with E P'P = I (Johnson and Lindenstrauss 1984)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from fedjax_priv import _validate
from fedjax_priv.crypto.prg import signs
from fedjax_priv.keys import named

Seed = UInt32[Array, "2"]


class Sketched(NamedTuple):
    """Rows in the sketch, and the seed of the projection, the same in each row."""

    value: Float[Array, "g k"]
    seed: UInt32[Array, "g 2"]


class Projection(NamedTuple):
    """P from a seed. `||P'P x - x||^2` is `(d-1)/k ||x||^2` on average for both forms.

    A count sketch has one entry +-1 in each column: O(d) operations, and no matrix. The dense form has +-1/sqrt(k)
    everywhere, O(k d), and keeps all distances between n rows to 1 +- e for `k` about `8 ln(n^2 / beta) / e^2`, but for
    a probability beta; a count sketch does so for rows without few large coordinates.
    """

    num_params: int  # d
    k: int
    dense: bool = False

    def project(self, seed: Seed, x: Float[Array, "*b d"]) -> Float[Array, "*b k"]:
        """P x, row by row."""
        if self.dense:
            return jnp.matmul(x, self._matrix(seed).T, precision="highest")
        bucket, sign = self._columns(seed)
        add = lambda row: jax.ops.segment_sum(row * sign, bucket, self.k)
        return jnp.apply_along_axis(add, -1, x)

    def back(self, seed: Seed, z: Float[Array, "*b k"]) -> Float[Array, "*b d"]:
        """P' z, row by row."""
        if self.dense:
            return jnp.matmul(z, self._matrix(seed), precision="highest")
        bucket, sign = self._columns(seed)
        rows = jnp.take(z, bucket, axis=-1)
        return rows * jnp.broadcast_to(sign, rows.shape)

    @property
    def shrinking(self) -> float:
        """k / (k+d-1), the factor c for which c P'P x is nearest to x on average."""
        return self.k / (self.k + self.num_params - 1)

    def _matrix(self, seed: Seed) -> Float[Array, "k d"]:
        entries = signs(seed, "dense sketch", self.k * self.num_params).reshape(self.k, self.num_params)
        return entries / jnp.sqrt(jnp.float32(self.k))

    def _columns(self, seed: Seed) -> tuple[Int[Array, " d"], Float[Array, " d"]]:
        key = jax.random.wrap_key_data(seed, impl="threefry2x32")
        bucket = jax.random.randint(named(key, "bucket"), (self.num_params,), 0, self.k)
        return bucket, signs(seed, "sketch", self.num_params)


def projection(num_params: int, k: int, *, dense: bool = False) -> Projection:
    """A projection from d to k numbers.

    Raises:
      ValueError: a size is not an integer >= 1, or k is above `num_params`.
    """
    _validate.integer(num_params=num_params, k=k)
    _validate.one_of((True, False), dense=dense)
    if k > num_params:
        raise ValueError(f"k must be at most num_params = {num_params}, got {k}")
    return Projection(num_params, k, dense)
