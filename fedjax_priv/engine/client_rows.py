"""Rows by client: choose between two sets, take a cohort's from the population, put them back, make vectors of them."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float32, PyTree

from fedjax_priv.base import Cohort


def rows_where(keep: Bool[Array, "..."], new: PyTree, old: PyTree) -> PyTree:
    """Rows of `new` where `keep` `[n]`, of `old` elsewhere; leaves `[n, ...]`, or anything they broadcast with."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(jnp.expand_dims(keep, tuple(range(keep.ndim, jnp.ndim(a)))), a, b)

    return jax.tree.map(choose, new, old)


def only_rows(keep: Bool[Array, "..."], rows: PyTree) -> PyTree:
    """Rows in `keep` `[n]`, zero elsewhere; leaves `[n, ...]`."""
    return rows_where(keep, rows, jax.tree.map(jnp.zeros_like, rows))


def rows_of(who: Cohort, rows: PyTree) -> PyTree:
    """The cohort's rows of `[population, ...]`; the population in order is taken as it is."""
    return jax.tree.map(lambda a: a if a.shape[0] == who.client.size else jnp.asarray(a)[who.client], rows)


def put_rows(who: Cohort, keep: Bool[Array, " n"], new: PyTree, old: PyTree) -> PyTree:
    """`old` `[population, ...]` with the rows of the cohort's clients in `keep` replaced by `new` `[n, ...]`."""

    def put(new: Array, old: Array) -> Array:
        if old.shape[0] == who.client.size:
            return rows_where(keep, new, old)
        return old.at[who.client].set(rows_where(keep, new, old[who.client]))

    return jax.tree.map(put, new, old)


def flat_rows(rows: PyTree) -> Float32[Array, "n d"]:
    """Rows of parameters as vectors, in the order of `ravel_pytree`."""
    return jax.vmap(lambda row: ravel_pytree(row)[0])(rows)


def rows_like(params: PyTree, flat: Float32[Array, "n d"]) -> PyTree:
    """Vectors as rows of the form of `params`, `[n, ...]`; undoes `flat_rows`."""
    return jax.vmap(ravel_pytree(params)[1])(flat)
