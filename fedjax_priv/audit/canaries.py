"""Adjacent inputs: given updates, or samples on which local training runs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.audit.worlds import Canary
from fedjax_priv.base import ClientData, Cohort, Key, Local
from fedjax_priv.losses import Loss


def sending(updates: Float[Array, "n d"]) -> Local:
    """Local training that returns given updates: the canary's and everybody else's."""

    def apply(key: Key, memory: tuple, params: PyTree, data: ClientData, cohort: Cohort) -> tuple[Array, tuple, Array]:
        del key, params
        return updates[cohort.client], memory, jnp.zeros(data.count.size)

    return Local(lambda n, params: (), apply)


def no_samples(num_clients: int) -> ClientData:
    """A blank sample for each client, so that they have equal weights."""
    return ClientData((jnp.zeros((num_clients, 1)),), jnp.ones(num_clients, jnp.int32))


def direction_canary(key: Key, num_clients: int, num_params: int, norm: float, *, alone: bool = False) -> Canary:
    """Client 0 sends plus or minus `norm` times a random direction (Andrew et al. 2023).

    Args:
      key: of the direction.
      num_clients: n.
      num_params: d.
      norm: above 0.
      alone: all others send 0, so that who is lost makes no difference. They send minus the canary if not, the worst
        case under a sum of bounded updates whose noise grows with the number that sends.

    Raises:
      ValueError: a size below 1, or a norm that is not above 0.
    """
    _validate.integer(num_clients=num_clients, num_params=num_params)
    _validate.positive(norm=norm)
    u = unit(jax.random.normal(key, (num_params,)))
    second = jnp.zeros((num_clients, num_params)) if alone else jnp.broadcast_to(-norm * u, (num_clients, num_params))
    second = second.at[0].set(-norm * u)
    return _given((second.at[0].multiply(-1), second), lambda params: u)


def proposal_canary(num_clients: int, num_params: int, num_coordinates: int) -> Canary:
    """Updates of client 0 whose `num_coordinates` largest coordinates differ in one: 0, 1, ..., and 1, 2, ...

    Raises:
      ValueError: a size below 1, or no coordinate that is not among the largest.
    """
    _validate.integer(num_clients=num_clients, num_params=num_params, num_coordinates=num_coordinates)
    if num_coordinates >= num_params:
        raise ValueError(f"num_coordinates must be below num_params = {num_params}, got {num_coordinates}")
    largest = (jnp.arange(num_params) < num_coordinates).astype(jnp.float32)
    table = jnp.zeros((num_clients, num_params))
    pair = table.at[0].set(largest), table.at[0].set(jnp.roll(largest, 1))
    return _given(pair, lambda params: unit(pair[0][0] - pair[1][0]))


def sample_canary(
    local: Local, loss: Loss, data: ClientData, example: PyTree, *, client: int = 0, sample: int = 0
) -> Canary:
    """Real local training in which one sample of a client is `example`, or stays as it is in `data`.

    Args:
      local: training, such as `clients.local_sgd(...)`.
      loss: that it descends.
      data: of all clients.
      example: `[...]`, in place of a sample of `data.examples`, crafted or real.
      client: who has it.
      sample: which one it replaces.

    Raises:
      ValueError: there is no such sample.
    """
    _check_sample(data, client, sample)
    put = lambda rows, own: jnp.asarray(rows).at[client, sample].set(own)
    first = data._replace(examples=jax.tree.map(put, data.examples, example))
    second = jax.tree.map(jnp.asarray, data)
    original = jax.tree.map(lambda rows: rows[client, sample], second.examples)
    gradient = sample_gradient(loss, local)
    toward = lambda params: unit(gradient(params, example) - gradient(params, original))
    return Canary((first, second), lambda _: local, lambda data: data, toward)


def label_canary(local: Local, loss: Loss, data: ClientData, label: int, *, client: int = 0, sample: int = 0) -> Canary:
    """As `sample_canary`; the same example with another label. `data.examples` are `(x, y)`."""
    _check_sample(data, client, sample)
    x, y = (jnp.asarray(rows) for rows in data.examples)
    example = x[client, sample], jnp.asarray(label, y.dtype)
    return sample_canary(local, loss, data, example, client=client, sample=sample)


def sample_gradient(loss: Loss, local: Local) -> Callable[[PyTree, PyTree], Float[Array, " d"]]:
    """`(params, example [...]) -> gradient [d]` of one sample, clipped as in local training."""
    clip = None if local.steps is None else local.steps.clip

    def gradient(params: PyTree, example: PyTree) -> Array:
        alone = jax.tree.map(lambda a: jnp.asarray(a)[None], example)
        flat = ravel_pytree(jax.grad(lambda params: loss(params, alone)[0])(params))[0]
        return flat if clip is None else flat * jnp.minimum(1.0, clip / jnp.maximum(jnp.linalg.norm(flat), 1e-30))

    return gradient


def unit(vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """Of norm 1; zero stays zero."""
    return vector / jnp.maximum(jnp.linalg.norm(vector), 1e-30)


def _check_sample(data: ClientData, client: int, sample: int) -> None:
    _validate.integer(at_least=0, client=client, sample=sample)
    if client >= data.count.size or sample >= int(data.count[client]):
        raise ValueError(f"data must have sample {sample} of client {client}")


def _given(updates: tuple[Array, Array], toward: Callable[[PyTree], Array]) -> Canary:
    return Canary(updates, sending, lambda updates: no_samples(len(updates)), toward)
