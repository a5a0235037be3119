"""A little is enough: a deviation from the honest mean that hides in the spread of honest updates."""

import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, Int

from fedjax_priv import _validate
from fedjax_priv.attacks.attack_layers import Attack
from fedjax_priv.attacks.honest_statistics import honest_mean, honest_std
from fedjax_priv.base import Key


def alie(z: float | Array | None = None, *, ddof: int = 0, sign: int = -1) -> Attack:
    """`mean + sign z std` of the honest updates, by coordinate, the same for all Byzantine clients (Baruch et al.
    2019).

    ByzFL's `ALittleIsEnough` is `alie(1.5, ddof=1, sign=1)`.

    Args:
      z: distance from the honest mean in standard deviations, >= 0, may be traced; if not given, as Baruch et al.
        compute it from the numbers of clients and of Byzantine clients that take part, which may be below 0 or not
        finite.
      ddof: 0 for the standard deviation of a population, 1 for that of a sample.
      sign: side of the mean: -1 below it, 1 above it.

    Raises:
      ValueError: an argument is out of range; a traced `z` out of range is sent as NaN.

    Examples:
      >>> updates = jnp.array([[1.0], [3.0], [5.0], [0.0]])
      >>> honest = jnp.array([True, True, True, False])
      >>> print(jax.jit(alie(1.5))(jax.random.key(0), updates, honest, ~honest).round(2))  # 3 - 1.5 standard deviations
      [[0.55]]
    """
    given = None if z is None else _validate.non_negative(z=z)
    check_line(ddof, sign)

    def attack(
        key: Key, updates: Float[Array, "n d"], honest: Bool[Array, " n"], byzantine: Bool[Array, " n"]
    ) -> Float[Array, "1 d"]:
        del key
        factor = baruch_z((honest | byzantine).sum(), byzantine.sum()) if given is None else given
        mean, std = honest_mean(updates, honest), honest_std(updates, honest, ddof)
        return mean + sign * factor * std

    return attack


def baruch_z(num_clients: int | Int[Array, ""], num_byzantine: int | Int[Array, ""]) -> Float[Array, ""]:
    """The quantile z with Phi(z) = (m - f - s) / (m - f), s = floor(m/2 + 1) - f: s honest clients lie further out.

    If m is even and f = 1, z is below 0, such as -0.43 for m = 4 and -0.04 for m = 32, and the attack is on the other
    side of the mean. If f = 1 of m = 2, or if more than half of the clients are Byzantine, z is infinite or NaN, and so
    are the rows that attackers send. A round that draws a cohort may have such numbers.

    Args:
      num_clients: m; may be traced.
      num_byzantine: f, from 1 to less than m/2 for a finite z; may be traced.

    Raises:
      ValueError: a number is known, and no integer >= 1 and below 2**31, or >= 0 for f.

    Examples:
      >>> print(round(float(baruch_z(50, 12)), 3))
      0.336
    """
    for least, (name, number) in enumerate({"num_byzantine": num_byzantine, "num_clients": num_clients}.items()):
        if not isinstance(number, Array) and _validate.integer(least, **{name: number}) >= 2**31:
            raise ValueError(f"{name} must be below 2**31, got {number}")
    honest = num_clients - jnp.asarray(num_byzantine)
    supporters = num_clients // 2 + 1 - jnp.asarray(num_byzantine)
    return ndtri((honest - supporters) / honest)


def check_line(ddof: int, sign: int) -> None:
    """Raises ValueError unless `ddof` is 0 or 1 and `sign` -1 or 1."""
    _validate.one_of((0, 1), ddof=ddof)
    _validate.one_of((-1, 1), sign=sign)
