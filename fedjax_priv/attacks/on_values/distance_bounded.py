"""Min-Max and Min-Sum: as far from the honest mean as distances to honest updates do not give away.

Attackers that see no update but their own take those, as they would be without the attack, for honest ones.
"""

from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedjax_priv import _validate
from fedjax_priv.aggregators.numerics.column_blocks import dot, gram
from fedjax_priv.attacks.attack_layers import Attack
from fedjax_priv.attacks.honest_statistics import honest_mean, honest_std
from fedjax_priv.base import Key
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.row_norms import largest_entries, unit_scale

Perturbation = Literal["std", "unit", "sign"]
Seen = Literal["all", "own"]


class _Line(NamedTuple):
    """The attack sends `mean + factor * slope / scale`; rows that it sees are `y_i / scale` from their mean."""

    mean: Float[Array, "1 d"]
    slope: Float[Array, "1 d"]
    steepness: Float[Array, ""]  # ||slope||^2
    scale: Float[Array, ""]
    gram: Float[Array, "n n"]  # of y_i; 0 for rows that it does not see
    along: Float[Array, " n"]  # <y_i, slope>

    def at(self, factor: Array) -> Float[Array, "1 d"]:
        """The mean if the slope is 0."""
        return self.mean + jnp.where(self.steepness > 0, factor * self.slope, 0.0) / self.scale


def min_max(perturbation: Perturbation = "std", *, seen: Seen = "all") -> Attack:
    """`mean + gamma p`, no further from any honest update than two honest ones are apart (Shejwalkar and Houmansadr
    2021, Min-Max).

    `gamma` is the largest for which that holds, in closed form; the authors search for it by halving, and not above 20.
    All Byzantine clients send the same row, the mean of the honest updates if `p` is 0.

    Args:
      perturbation: p. `"std"`: minus the standard deviation by coordinate; `"unit"`: against the mean; `"sign"`: minus
        the signs of the mean.
      seen: what the attackers know. `"all"`: the updates of all honest clients. `"own"`: only the updates that the
        Byzantine clients would send if they were honest; these then take the place of the honest updates. The authors
        have both. With "own", a Byzantine client that is alone sends its own update.

    Raises:
      ValueError: an argument is not one of the allowed values.

    Examples:
      >>> updates = jnp.array([[1.0], [3.0], [5.0], [0.0]])
      >>> honest = jnp.array([True, True, True, False])
      >>> print(jax.jit(min_max())(jax.random.key(0), updates, honest, ~honest))  # 4 from 5, as 1 is
      [[1.]]
      >>> print(jax.jit(min_max(seen="own"))(jax.random.key(0), updates, ~honest, honest))  # of 1, 3 and 5 again
      [[1.]]
    """
    _validate.one_of(get_args(Perturbation), perturbation=perturbation)
    _validate.one_of(get_args(Seen), seen=seen)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "1 d"]:
        del key
        known = honest if seen == "all" else byzantine
        line = _line(updates, known, perturbation)
        square, a, b = jnp.diagonal(line.gram), line.steepness, -line.along
        pairs = square[:, None] + square[None, :] - 2 * line.gram
        room = jnp.maximum(jnp.where(known[:, None] & known[None, :], pairs, 0.0).max() - square, 0.0)
        root = jnp.sqrt(b * b + a * room)
        factor = jnp.where(b > 0, room / _not_zero(root + b), (root - b) / _not_zero(a))  # neither cancels
        return line.at(jnp.where(known, factor, jnp.inf).min())

    return attack


def min_sum(
    perturbation: Perturbation = "std", *, bound: Literal["least", "largest"] = "least", seen: Seen = "all"
) -> Attack:
    """`mean + gamma p`, in sum of squared distances no further from honest updates than an honest one is (Min-Sum).

    Source: Shejwalkar and Houmansadr 2021.

    `gamma` is the largest number for which this holds. The row is then as far from the mean of the honest updates as
    the honest update that it is compared with.

    Args:
      perturbation: as in `min_max`.
      bound: the honest update that the row is compared with: the one with the least sum (`"least"`, the authors' code)
        or with the largest (`"largest"`, the paper).
      seen: as in `min_max`.

    Raises:
      ValueError: an argument is not one of the allowed values.

    Examples:
      >>> updates = jnp.array([[1.0], [3.0], [5.0], [0.0]])
      >>> honest = jnp.array([True, True, True, False])
      >>> print(jax.jit(min_sum(bound="largest"))(jax.random.key(0), updates, honest, ~honest).round(3))
      [[1.]]
    """
    _validate.one_of(get_args(Perturbation), perturbation=perturbation)
    _validate.one_of(("least", "largest"), bound=bound)
    _validate.one_of(get_args(Seen), seen=seen)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "1 d"]:
        del key
        known = honest if seen == "all" else byzantine
        line = _line(updates, known, perturbation)
        square = jnp.diagonal(line.gram)
        chosen = jnp.where(known, square, jnp.inf).min() if bound == "least" else square.max()
        return line.at(jnp.sqrt(chosen / _not_zero(line.steepness)))

    return attack


def _line(updates: Array, known: Array, perturbation: Perturbation) -> _Line:
    """Of the known rows, which are those of honest clients unless the attackers see only their own."""
    mean = honest_mean(updates, known)
    slope = {"std": lambda: -honest_std(updates, known), "unit": lambda: -mean, "sign": lambda: -jnp.sign(mean)}
    steep = slope[perturbation]()
    steep = steep * unit_scale(largest_entries(steep))[:, None]
    rows = rows_where(known, updates, mean)
    scale = unit_scale(largest_entries(rows - mean).max())
    along = dot((rows - mean) * scale, steep[0])
    return _Line(mean, steep, jnp.square(steep).sum(), scale, gram(rows, mean[0], scale), along)


def _not_zero(x: Array) -> Array:
    return jnp.where(x == 0, 1.0, x)
