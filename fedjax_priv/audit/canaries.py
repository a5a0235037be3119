"""Adjacent inputs in which clients send given updates and do no local training."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.audit.worlds import Canary
from fedjax_priv.base import ClientData, Cohort, Key, Local, Stated
from fedjax_priv.clients import LocalSteps
from fedjax_priv.clients.control_variates import corrected_step


def sending(updates: Float[Array, "n d"]) -> Local:
    """Local training that returns given updates, row i for client i, each as one local step.

    Examples:
      >>> local = sending(jnp.eye(4))  # client i sends the i-th unit vector
    """

    def apply(key: Key, memory: tuple, params: PyTree, data: ClientData, cohort: Cohort) -> tuple[Array, tuple, Array]:
        del key, params
        return updates[cohort.client], memory, jnp.zeros(data.count.size)

    one = LocalSteps("plain", clip=None, sigma=0.0, batch_size=None, num_steps=1, num_epochs=None)
    return Local(lambda n, params: (), Stated(apply, one, corrected=corrected_step(apply)))


def no_samples(num_clients: int) -> ClientData:
    """One blank sample per client, so that all clients have equal weights."""
    return ClientData((jnp.zeros((num_clients, 1)),), jnp.ones(num_clients, jnp.int32))


def direction_canary(
    key: Key, num_clients: int, num_params: int, norm: float, *, alone: bool = False, opposite: bool = True
) -> Canary:
    """Client 0 sends plus or minus `norm` times a random direction with entries +-d^-1/2 (after Andrew et al. 2023).

    Args:
      key: of the direction.
      num_clients: n.
      num_params: d.
      norm: above 0.
      alone: True: all other clients send 0, so that it does not matter which of them are lost. False: they send minus
        the canary, the worst case for a sum of bounded updates whose noise grows with the number of senders.
      opposite: False: in the second input client 0 sends 0, for figures about a client that takes part or not.

    Raises:
      ValueError: a size below 1, or a norm that is not above 0.

    Examples:
      >>> canary = direction_canary(jax.random.key(0), num_clients=10, num_params=100, norm=1.0)
    """
    _validate.integer(num_clients=num_clients, num_params=num_params)
    _validate.positive(norm=norm)
    _validate.one_of((True, False), alone=alone, opposite=opposite)
    u = jax.random.rademacher(key, (num_params,), jnp.float32) / num_params**0.5
    return _given(_plus_and_minus(norm * u, num_clients, alone, opposite), lambda params: u)


def dirac_canary(
    num_clients: int,
    num_params: int,
    coordinates: Sequence[int],
    norm: float,
    *,
    alone: bool,
    opposite: bool = True,
) -> Canary:
    """Client 0 sends plus or minus `norm` at one coordinate and 0 elsewhere; each trial uses one of `coordinates`.

    Only the noise of that coordinate protects client 0. Score this canary with `readings.at_variant`.

    Args:
      num_clients: n.
      num_params: d.
      coordinates: one per variant, each below d.
      norm: above 0.
      alone: as in `direction_canary`.
      opposite: as in `direction_canary`.

    Raises:
      ValueError: a size below 1, a norm that is not above 0, or a coordinate outside the update.
    """
    _validate.integer(num_clients=num_clients, num_params=num_params)
    _validate.positive(norm=norm)
    _validate.one_of((True, False), alone=alone, opposite=opposite)
    if not coordinates or not all(0 <= j < num_params for j in coordinates):
        raise ValueError(f"coordinates must be from 0 to {num_params - 1}, got {list(coordinates)}")
    spikes = norm * jax.nn.one_hot(jnp.asarray(coordinates), num_params)
    inputs = jax.vmap(lambda spike: _plus_and_minus(spike, num_clients, alone, opposite))(spikes)
    return _given(inputs, lambda params: spikes / norm)._replace(variants=len(coordinates))


def _silenced(sent: Local, whether: ArrayLike) -> Local:
    """The same, but if `whether`, client 0 sends 0 in all rounds after the first."""

    def apply(key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort) -> tuple:
        update, *rest = sent.apply(key, memory, params, data, cohort)
        silent = whether & (cohort.client == 0) & (cohort.round > 0)
        return jnp.where(silent[:, None], 0.0, update), *rest

    return sent._replace(apply=apply)


def silent_in_second(canary: Canary) -> Canary:
    """The same canary of given updates, but client 0 sends nan in the second input.

    `clients.bounded_and_counted` replaces nan and the bit that goes with it by 0, whereas an update of 0 sends a bit.
    """
    first, second = canary.inputs
    return canary._replace(inputs=(first, second.at[..., 0, :].set(jnp.nan)))


def shrunk_in_first(canary: Canary, factor: float) -> Canary:
    """The same canary of given updates, but client 0's update in the first input is multiplied by `factor`."""
    first, second = canary.inputs
    return canary._replace(inputs=(first.at[..., 0, :].multiply(factor), second))


def proposal_canary(num_clients: int, num_params: int, num_coordinates: int) -> Canary:
    """Two updates of client 0 whose `num_coordinates` largest coordinates are 0, 1, ... and 1, 2, ...

    Raises:
      ValueError: a size below 1, or `num_coordinates` not below `num_params`.

    Examples:
      >>> canary = proposal_canary(num_clients=10, num_params=100, num_coordinates=5)
    """
    _validate.integer(num_clients=num_clients, num_params=num_params, num_coordinates=num_coordinates)
    if num_coordinates >= num_params:
        raise ValueError(f"num_coordinates must be below num_params = {num_params}, got {num_coordinates}")
    largest = (jnp.arange(num_params) < num_coordinates).astype(jnp.float32)
    table = jnp.zeros((num_clients, num_params))
    pair = table.at[0].set(largest), table.at[0].set(jnp.roll(largest, 1))
    return _given(pair, lambda params: unit(pair[0][0] - pair[1][0]))


def unit(vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """The vector scaled to norm 1; the zero vector stays zero."""
    return vector / jnp.maximum(jnp.linalg.norm(vector), 1e-30)


def _plus_and_minus(canary: Array, num_clients: int, alone: bool, opposite: bool) -> tuple[Array, Array]:
    """Updates `[n, d]` of all clients in the first and in the second input."""
    others = jnp.broadcast_to(0 * canary if alone else -canary, (num_clients, canary.size))
    return others.at[0].set(canary), others.at[0].set(-canary if opposite else 0 * canary)


def _given(updates: tuple[Array, Array], toward: Callable[[PyTree], Array]) -> Canary:
    return Canary(updates, sending, _no_samples, toward, silenced=_silenced)


def _no_samples(updates: Float[Array, "n d"]) -> ClientData:
    return no_samples(len(updates))
