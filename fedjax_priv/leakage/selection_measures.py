"""The paper's privacy measures, from the coordinates clients select, packed one bit each: `[n, w]`.

They count the clients that send a coordinate. What the server can separate there is another question, see `separate`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import population_count
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from fedjax_priv import _validate
from fedjax_priv.base import View, absent
from fedjax_priv.engine.batches import in_batches
from fedjax_priv.engine.side_by_side import ACCELERATOR_BYTES, by_platform, fitting
from fedjax_priv.layers.enrolled_mask import Members
from fedjax_priv.layers.secure_sum import bitmap, committee, sharing
from fedjax_priv.layers.sparsification import Sparse

Sets = UInt32[Array, "n w"]
"""One set of coordinates per client, as `layers.secure_sum.bitmap` packs them."""

_ROSTERS = (sharing.Roster, committee.Roster, Members)
"""What everybody knows of a round of masks at all coordinates."""


def selections(view: View, layer: str = "mask") -> Sets:
    """The coordinates U_i each client of a secure sum selects; all of them if the layer locates none (SecAgg).

    Args:
      view: what the server sees; sets of lost clients are empty.
      layer: name of the mask layer.

    Raises:
      ValueError: the system has no such layer, or one that masks nothing and locates nothing.

    Examples:
      >>> observe = lambda view: selections(view)  # for `systems.sparse_secagg(..., observe=observe)`
    """
    _validate.one_of([name for name in view.clear if _selects(view, name)], layer=layer)
    located = view.clear[layer]
    if absent(located):
        everywhere = bitmap.pack(jnp.ones(view.uploads.shape[1], bool))
        return jnp.where(view.alive[:, None], everywhere[None], 0)
    return located


def _selects(view: View, layer: str) -> bool:
    """Whether it sends a bitmap of coordinates, or masks all of them."""
    located = view.clear[layer]
    if absent(located):
        return isinstance(view.public.get(layer), _ROSTERS)
    return getattr(located, "dtype", None) == jnp.uint32 and located.ndim == 2


def _all_selections(view: View, layer: str) -> Sets:
    """Also those of lost clients, which no server is told."""
    return selections(view, layer) | selections(view._replace(clear=view.unsent, alive=~view.alive), layer)


def sparse_selections(view: View, num_params: int) -> Sets:
    """The coordinates each client of a sparsifier (`rand_k`, `top_k`) sends.

    Raises:
      ValueError: uploads are not a `Sparse`.

    Examples:
      >>> observe = lambda view: sparse_selections(view, 1000)  # for `systems.sparse_fedavg(..., observe=observe)`
    """
    _validate.integer(num_params=num_params)
    if not isinstance(view.uploads, Sparse):
        raise ValueError(f"view.uploads must be a Sparse, got {type(view.uploads).__name__}")
    one = lambda position: bitmap.pack(jnp.zeros(num_params, bool).at[position].set(True))
    return _of_each_client(one, view.uploads.position, num_params)


def honest_clients(
    sets: Sets, honest: Bool[Array, " n"], num_params: int
) -> tuple[Float32[Array, ""], Int32[Array, ""]]:
    """Mean and minimum over coordinates l of X(l), the number of honest clients that send l (T of Theorem 2 bounds it).

    Args:
      sets: the coordinates each client selects.
      honest: clients to count: honest survivors.
      num_params: coordinates, d.

    Raises:
      ValueError: sets of `num_params` coordinates have another number of words, or `honest` is not one per set.

    Examples:
      >>> from fedjax_priv.layers.secure_sum import bitmap
      >>> sets = jax.vmap(bitmap.pack)(jnp.array([[True, True, False], [True, True, True]]))
      >>> mean, least = honest_clients(sets, honest=jnp.array([True, True]), num_params=3)
      >>> print(mean.round(2), least)
      1.67 1
    """
    _check_sets(sets, num_params, honest=honest)
    total = _clients_that_send(sets, honest, num_params)
    return total.astype(jnp.float32).mean(), total.min()


def _clients_that_send(sets: Sets, members: Bool[Array, " n"], num_params: int) -> Int32[Array, " d"]:
    """How many members send each coordinate. An accelerator has one kernel for all clients."""

    def count(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        chosen, counts = row
        return total + (counts & bitmap.unpack(chosen, num_params)).astype(jnp.int32), None

    one_by_one = lambda: jax.lax.scan(count, jnp.zeros(num_params, jnp.int32), (sets, members))[0]
    unpacked = jax.vmap(lambda chosen: bitmap.unpack(chosen, num_params))
    return by_platform(one_by_one, lambda: (members[:, None] & unpacked(sets)).sum(0, dtype=jnp.int32))


def _of_each_client(one: Callable[[Array], Array], rows: Array, numbers: int) -> Array:
    """`one(row)` of each row. An accelerator computes as many at once as fit, of so many numbers each."""
    together = lambda: in_batches(one, rows, fitting(4 * numbers, len(rows), ACCELERATOR_BYTES))
    return by_platform(lambda: jax.lax.map(one, rows), together)


def _check_sets(sets: Sets, num_params: int, **members: Array) -> None:
    """Raises ValueError unless sets are of `num_params` coordinates, and each has a member."""
    _validate.integer(num_params=num_params)
    _check_members(sets, **members)
    if (words := -(-num_params // 32)) != sets.shape[1]:
        raise ValueError(f"sets must have {words} words each, for num_params = {num_params}, got {sets.shape[1]}")


def _check_members(sets: Sets, **members: Array) -> None:
    """Raises ValueError unless there is a truth value for each set."""
    if np.ndim(sets) != 2:
        raise ValueError(f"sets must be bitmaps of shape [n, w], got shape {np.shape(sets)}")
    if jnp.asarray(sets).dtype != jnp.uint32:
        raise ValueError(f"sets must be bitmaps of uint32 words, got {jnp.asarray(sets).dtype}")
    for name, member in members.items():
        if np.shape(member) != (len(sets),) or not jnp.issubdtype(jnp.result_type(member), jnp.bool_):
            allowed = f"bool of shape ({len(sets)},), one per set"
            raise ValueError(f"{name} must be {allowed}, got {_validate.made(member)}")


def revealed_fraction(sets: Sets, honest: Bool[Array, " n"], num_params: int) -> Float32[Array, ""]:
    """Fraction of the coordinates that exactly one honest client sends (Fig. 4(b) and 5(c)).

    The paper counts all honest users, whether or not their uploads arrive. If only honest survivors count, a client
    whose honest partners were all lost counts as well. Arguments and errors are those of `honest_clients`.

    Examples:
      >>> from fedjax_priv.layers.secure_sum import bitmap
      >>> sets = jax.vmap(bitmap.pack)(jnp.array([[True, True, False, False], [True, True, True, False]]))
      >>> print(revealed_fraction(sets, honest=jnp.array([True, True]), num_params=4))  # the third coordinate
      0.25
    """
    _check_sets(sets, num_params, honest=honest)

    def meet(seen: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        chosen, counts = row
        once, more = seen
        chosen = jnp.where(counts, chosen, 0)
        return (once | chosen, more | (once & chosen)), None

    nobody = jnp.zeros_like(sets[0])

    def one_by_one() -> Array:
        once, more = jax.lax.scan(meet, (nobody, nobody), (sets, honest))[0]
        return population_count(once & ~more).sum(dtype=jnp.uint32)

    counted = lambda: (_clients_that_send(sets, honest, num_params) == 1).sum(dtype=jnp.uint32)
    return by_platform(one_by_one, counted).astype(jnp.float32) / num_params


def overlap(sets: Sets, members: Bool[Array, " n"]) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    """Mean and standard deviation over pairs of |U_i and U_j| / K, where K is the mean size of the sets (Fig. 2).

    Args:
      sets: the coordinates each client selects.
      members: clients whose pairs count; with fewer than two, both results are NaN.

    Raises:
      ValueError: `members` is not one per set.

    Examples:
      >>> from fedjax_priv.layers.secure_sum import bitmap
      >>> sets = jax.vmap(bitmap.pack)(jnp.array([[True, True, False, False], [True, False, True, False]]))
      >>> print(overlap(sets, jnp.array([True, True]))[0])
      0.5
    """
    _check_members(sets, members=members)
    common = lambda mine: population_count(mine[None] & sets).sum(1).astype(jnp.float32)
    shared = _of_each_client(common, sets, sets.size)
    size, count = jnp.diagonal(shared), members.sum().astype(jnp.float32)
    fraction = shared * count / jnp.where(members, size, 0).sum()
    pairs = members[:, None] & members[None, :] & ~jnp.eye(len(sets), dtype=bool)
    number = count * (count - 1)
    mean = jnp.where(pairs, fraction, 0).sum() / number
    return mean, jnp.sqrt(jnp.where(pairs, jnp.square(fraction - mean), 0).sum() / number)


def observe_privacy(honest: Bool[Array, " n"], layer: str = "mask") -> Callable[[View], dict[str, Array]]:
    """An `observe=` for a run of `secagg` or `sparse_secagg`: the paper's two measures, round by round.

    Args:
      honest: the clients that do not collude, by place in the cohort.
      layer: name of the mask layer.

    Returns:
      A function that returns `honest_mean` and `honest_min`, over coordinates, of the number of honest survivors that
      send one; `revealed`, the fraction of coordinates that exactly one honest survivor sends; `revealed_all`, the same
      for all honest users, as in the paper.

    Examples:
      >>> observe = observe_privacy(honest=jnp.arange(20) >= 4)  # for `systems.sparse_secagg(..., observe=observe)`
    """

    def observe(view: View) -> dict[str, Array]:
        sets, d = selections(view, layer), view.uploads.shape[1]
        mean, least = honest_clients(sets, honest & view.alive, d)
        return {
            "honest_mean": mean,
            "honest_min": least,
            "revealed": revealed_fraction(sets, honest & view.alive, d),
            "revealed_all": revealed_fraction(_all_selections(view, layer), honest, d),
        }

    return observe


def observe_overlap(select: Callable[[View], Sets] = selections) -> Callable[[View], dict[str, Array]]:
    """An `observe=` for a run: how much the selections of two survivors overlap, round by round.

    Args:
      select: from a view to the sets; for a sparsifier `lambda view: sparse_selections(view, d)`.

    Returns:
      A function that returns `overlap_mean` and `overlap_std` over pairs.

    Examples:
      >>> observe = observe_overlap()  # for `systems.sparse_secagg(..., observe=observe)`
    """

    def observe(view: View) -> dict[str, Array]:
        mean, std = overlap(select(view), view.alive)
        return {"overlap_mean": mean, "overlap_std": std}

    return observe
