"""Arguments that several systems take: what they hand on to another function, and checks."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree
from numpy.typing import ArrayLike

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Draw, Key, Received
from fedjax_priv.base.byzantine_clients import check_mask, how_many
from fedjax_priv.clients import everyone, sample
from fedjax_priv.crypto import field
from fedjax_priv.engine.round import federated_round
from fedjax_priv.engine.rounded_fractions import part_of
from fedjax_priv.layers.mask import secagg_protocol


class HandsOn(NamedTuple):
    """Keyword arguments that a system does not list: it takes them as `**how` and hands them to another function.

    In the annotation of `**how` it tells the command line where their options are.
    """

    function: Callable
    names: tuple[str, ...]

    def split(self, how: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split arguments into those for this function and the rest."""
        return {n: how[n] for n in how if n in self.names}, {n: how[n] for n in how if n not in self.names}

    def given(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of this function that are not its defaults; a command line gives them all."""
        parameters = inspect.signature(self.function).parameters
        same = lambda name, value: _validate.is_same(value, parameters[name].default)
        return {name: value for name, value in options.items() if not same(name, value)}


ROUND = HandsOn(federated_round, ("server", "block", "mesh", "observe", "lying_server"))
MASKS = HandsOn(
    secagg_protocol, ("neighbours", "threshold", "elide", "consistency", "bind_model", "key_agreement", "prg")
)
Run = Annotated[Any, ROUND]
Masked = Annotated[Any, MASKS, ROUND]
_MANY = 10
"""Times as many rows are tried, when a rule has too few."""
UNPROTECTED = "the mean, in Python aggregators.mean()._replace(most_byzantine=None)"


def clients_in_round(num_clients: int, cohort_size: int | None) -> int:
    """Clients in a round: everyone, or the cohort."""
    size = num_clients if cohort_size is None else cohort_size
    _validate.integer(num_clients=num_clients)
    _validate.integer(cohort_size=size)
    if size > num_clients:
        raise ValueError(f"cohort_size must be at most num_clients = {num_clients}, got {size}")
    return size


def everyone_or(cohort_size: int | None) -> Draw:
    """Draws everyone, or cohorts of so many."""
    return everyone() if cohort_size is None else sample(cohort_size)


def secure_cohort(num_clients: int, cohort_size: int | None) -> int:
    """Clients in a round of a secure sum, at least two.

    Raises:
      ValueError: there is one, or `cohort_size` is no number of the clients.
    """
    size = clients_in_round(num_clients, cohort_size)
    if size == 1:
        name = "num_clients" if num_clients == 1 else "cohort_size"
        raise ValueError(
            f"{name} must be an integer >= 2, got 1: a secure sum of one client is its update, which systems.fedavg "
            "sends in the clear"
        )
    return size


def loss_rate(dropout: float | Array) -> float | Array:
    """A probability in [0, 1); a traced one outside is NaN."""
    return _validate.fraction(below_one=True, dropout=dropout)


def leave_rate(leave: float | Array) -> float | Array:
    """`loss_rate` of clients that are gone when shares are opened."""
    return _validate.fraction(below_one=True, leave=leave)


def unless_unknown(rule: Aggregator, *settings: Any) -> Aggregator:
    """The rule, whose direction is NaN where a setting that is traced is: noise alone would move the model.

    Such a setting decides who comes or is lost, and a rule that needs no rows misses nobody.
    """
    if not (traced := [value for value in settings if isinstance(value, Tracer)]):
        return rule
    known = jnp.stack([jnp.isfinite(value).all() for value in traced]).all()

    def apply(key: Key, state: PyTree, received: Received) -> tuple[Array, PyTree]:
        direction, state = rule.apply(key, state, received)
        return jnp.where(known, direction, jnp.nan), state

    return rule._replace(apply=apply)


def population_of(
    num_byzantine: int, byzantine: ArrayLike | None, num_clients: int, *, everybody: bool
) -> int | np.ndarray:
    """Which clients are Byzantine: the first `num_byzantine`, or those in a mask of the population.

    Raises:
      ValueError: no mask `[num_clients]`, or one of more than `num_byzantine` where everybody takes part.
    """
    if byzantine is None:
        return num_byzantine
    mask = np.asarray(byzantine)
    check_mask(num_clients, byzantine=mask)
    if everybody and (number := how_many(mask)) > num_byzantine:
        raise ValueError(f"num_byzantine must be at least {number}, those in byzantine, got {num_byzantine}")
    return mask


def buffers(
    num_clients: int, buffer_size: int, num_byzantine: int, aggregate: Aggregator, *, in_the_clear: bool
) -> int:
    """The number of buffers of `buffer_size` clients; checks that the rule tolerates those that can be corrupted.

    Raises:
      ValueError: a size that does not divide another, single updates under secure aggregation, a majority of Byzantine
        clients where the rule trusts nobody, or more corrupted buffers, min(f, buffers), than the rule tolerates.
    """
    _validate.one_of((True, False), in_the_clear=in_the_clear)
    _validate.integer(num_clients=num_clients, buffer_size=buffer_size)
    _validate.divides({"buffer_size": buffer_size}, num_clients=num_clients)
    if buffer_size == 1 and not in_the_clear:
        raise ValueError("buffer_size must be at least 2 unless in_the_clear=True: the sum of one client is its update")
    _validate.part(Aggregator, "aggregators.mean(), or from_host(function)", aggregate=aggregate)
    if aggregate.trusted_row is None:
        _validate.minority({"num_clients": num_clients}, num_byzantine=num_byzantine)
    else:
        _validate.integer(at_least=0, num_byzantine=num_byzantine)
    number = num_clients // buffer_size
    if why := too_few_rows(aggregate, number, num_byzantine):
        raise ValueError(why)
    return number


def too_few_rows(aggregate: Aggregator, number: int, num_byzantine: int) -> str | None:
    """Why a rule does not tolerate so many Byzantine clients, each of whom corrupts one row; None: it does.

    Raises:
      ValueError: what the rule says of that is no function of the number of rows.
    """
    tolerates = aggregate.most_byzantine
    if tolerates is None:
        return None
    _validate.takes("rows", **{"aggregate.most_byzantine": tolerates})
    corrupt, most = min(num_byzantine, number), tolerates(number)
    if 0 <= corrupt <= most:
        return None
    enough = next((rows for rows in range(number, _MANY * number) if tolerates(rows) >= corrupt), None)
    if most < 0:
        return f"aggregate must be a rule for {number} rows, and this one needs {enough or 'more'}"
    said = f"num_byzantine={num_byzantine} can corrupt {corrupt} of {number} rows, but aggregate tolerates {most}"
    if enough:
        return f"{said}; it would need {enough} rows"
    return said if most else f"{said}; a control without defence: {UNPROTECTED}"


def but_elide(masks: dict[str, Any]) -> dict[str, Any]:
    """Options of masks without `elide`, which changes no sum, also where there are no masks.

    Raises:
      ValueError: `elide` is no truth value.
    """
    _validate.one_of((True, False), elide=masks.get("elide", False))
    return {name: value for name, value in masks.items() if name != "elide"}


def fitting_spacing(spacing: int, clients: int, given: str) -> int:
    """Delta of masks with errors, if sums of so many clients fit the field with it.

    Raises:
      ValueError: they do not; `given` are the arguments that it follows from, with their values.
    """
    if spacing > (most := int(field.Q) // 4 // clients):
        raise ValueError(
            f"{given} must leave room for sums in the field: sums may be at most q / 4 / clients = {most} apart, "
            f"errors of masks need {spacing}; fewer clients or coins, or a larger failure, need less"
        )
    return spacing


def not_together(options: dict[str, Any], instead: str) -> None:
    """Refuses options that `instead` makes meaningless.

    Raises:
      ValueError: there is one.
    """
    for name, value in options.items():
        raise ValueError(f"{name} must not be given with {instead}, got {value!r}")


def only_default(system: Callable[..., Any], unless: str, **option: Any) -> None:
    """Refuses an option that has another value than its default: a command line gives all options, used or not.

    Raises:
      ValueError: it has, or is traced; `unless` is the argument without which it means nothing.
    """
    ((name, value),) = option.items()
    if not _validate.is_same(value, inspect.signature(system).parameters[name].default):
        raise ValueError(f"{name} must not be given without {unless}, got {value!r}")


def nobody_asked(leave: float | Array, instead: str) -> None:
    """Refuses `leave` where `instead` means that nobody is asked for shares: the clients would be gone for nothing.

    Raises:
      ValueError: `leave` is not 0.
    """
    if not _validate.is_known_as(0, leave):
        raise ValueError(f"leave must be 0 with {instead}, got {leave!r}: nobody is asked for shares")


def coordinates(num_params: int, ratio: float, clients: int = 1) -> int:
    """Coordinates of each of `clients` that share a fraction `ratio` of d: `floor(ratio d / clients)`, at least 1.

    Raises:
      ValueError: `ratio` outside (0, 1].
    """
    _validate.fraction(above_zero=True, ratio=ratio)
    return max(1, part_of(ratio / clients, num_params))


def proposed(num_params: int, num_clients: int, ratio: float, k: int | None) -> int:
    """Coordinates each client proposes, n = K / m.

    Raises:
      ValueError: `ratio` outside (0, 1], or `k` no multiple of `num_clients` or more than all can propose.
    """
    _validate.integer(num_params=num_params)
    _validate.fraction(above_zero=True, ratio=ratio)
    if k is None:
        return coordinates(num_params, ratio, num_clients)
    _validate.integer(k=k)
    _validate.divides({"num_clients": num_clients}, k=k)
    if k > (most := num_clients * num_params):
        raise ValueError(f"k must be at most num_clients * num_params = {most}, got {k}")
    return k // num_clients
