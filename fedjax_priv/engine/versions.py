"""The models of the last rounds, for clients that still train one of them: a ring `[V, ...]`, by round modulo V.

Where everybody trains the newest model there is no ring, and clients share its parameters. A server that lies hands
out several models in one round.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fedjax_priv.base import ClientData, Cohort, Key, Local, LyingServer, Models, RoundState, Stated
from fedjax_priv.keys import named


def ring(params: PyTree, versions: int) -> PyTree:
    """The models of `versions` rounds, all of them the first one; () of a single round."""
    return () if versions == 1 else jax.tree.map(lambda a: jnp.broadcast_to(a, (versions, *jnp.shape(a))), params)


def kept(state: RoundState) -> RoundState:
    """The state with its model in the ring as that of its round; a failed round leaves one more of the same."""
    put = lambda ring, a: ring.at[state.round % ring.shape[0]].set(a)
    return state._replace(versions=jax.tree.map(put, state.versions, state.params)) if has_ring(state) else state


def given(state: RoundState) -> PyTree:
    """What `Local.apply` gets as parameters: the model, or the ring where training is `by_version`."""
    return state.versions if has_ring(state) else state.params


def has_ring(state: RoundState) -> bool:
    """Whether models of earlier rounds are kept."""
    return bool(jax.tree.leaves(state.versions))


def by_version(local: Local) -> Local:
    """The same training from each client's own model: `Local.apply` gets the ring, or `Models`, as parameters.

    Clients train one by one under `vmap`: products with weights that all share are lost.
    """

    def apply(key: Key, memory: PyTree, models: PyTree, data: ClientData, cohort: Cohort) -> tuple:
        versions, rows = _own(models, cohort)
        start = jax.tree.map(lambda a: a[rows], versions)
        return jax.vmap(functools.partial(_alone, local.apply, key))(start, memory, data, cohort)

    return local._replace(apply=Stated(apply, local.steps))


def handed_out(lies: LyingServer | None, key: Key, state: RoundState, n: int) -> PyTree:
    """What clients get as parameters, of a server that may lie to the population of n, by the key of the round.

    Raises:
      ValueError: the lies are for another population, or the models of a lying server are of another structure or
        shape, or a row by client is missing.
    """
    if lies is not None and lies.num_clients not in (None, n):
        raise ValueError(f"lying_server must be made for the {n} clients in data, got one for {lies.num_clients}")
    if lies is None or lies.models is None:
        return given(state)
    models, shapes = lies.models(named(key, "lie"), state), lambda tree: jax.tree.map(jnp.shape, tree)
    one = jax.tree.map(lambda a: a[0], models.params)
    if shapes(one) != shapes(state.params) or jnp.shape(models.row) != (n,):
        raise ValueError(f"models must return Models(params [V, ...], row [{n}]), got {shapes(models)}")
    return models


def with_digests(digest: Callable[[PyTree], Array], who: Cohort, models: PyTree) -> Cohort:
    """The cohort, each client with the digest of the model it was given."""
    if isinstance(models, Models):
        return who._replace(digest=jax.lax.map(digest, models.params)[models.row[who.client]])
    hashed = digest(models)
    return who._replace(digest=jnp.broadcast_to(hashed, (who.client.size, *hashed.shape)))


def _own(models: PyTree, who: Cohort) -> tuple[PyTree, Array]:
    """Models `[V, ...]`, and which of them each client is given."""
    if isinstance(models, Models):
        return models.params, models.row[who.client]
    return models, (who.round - who.staleness) % jax.tree.leaves(models)[0].shape[0]


def _alone(apply: Callable, key: Key, params: PyTree, memory: PyTree, data: ClientData, cohort: Cohort) -> tuple:
    """One client as a block."""
    memory, data, cohort = jax.tree.map(lambda a: jnp.expand_dims(a, 0), (memory, data, cohort))
    return jax.tree.map(_row, apply(key, memory, params, data, cohort))


def _row(a: Array) -> Array:
    return a[0]
