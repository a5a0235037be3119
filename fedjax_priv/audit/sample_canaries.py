"""Adjacent inputs that differ in one sample; clients train on them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from fedjax_priv import _validate
from fedjax_priv.audit.canaries import unit
from fedjax_priv.audit.worlds import Canary
from fedjax_priv.base import ClientData, Local
from fedjax_priv.losses import Loss


def sample_canary(
    local: Local, loss: Loss, data: ClientData, example: PyTree, *, client: int = 0, sample: int = 0
) -> Canary:
    """Clients train; in the first input one sample is `example`, in the second it stays as it is in `data`.

    Args:
      local: training, such as `clients.local_sgd(...)`.
      loss: the loss that `local` descends.
      data: of all clients.
      example: `[...]`, replaces a sample of `data.examples`; crafted or real.
      client: the client whose sample is replaced.
      sample: the number of this sample.

    Raises:
      ValueError: there is no such sample, or it equals `example`, so that the two inputs are equal.
    """
    check_sample(data, client, sample)
    put = lambda rows, own: jnp.asarray(rows).at[client, sample].set(own)
    first = data._replace(examples=jax.tree.map(put, data.examples, example))
    second = jax.tree.map(jnp.asarray, data)
    own = lambda world: jax.tree.map(lambda rows: rows[client, sample], world.examples)
    original = own(second)
    if jax.tree.all(jax.tree.map(np.array_equal, own(first), original)):
        raise ValueError(f"example must differ from sample {sample} of client {client}, which it replaces")
    gradient = sample_gradient(loss, local)
    toward = lambda params: unit(gradient(params, example) - gradient(params, original))
    return Canary((first, second), lambda _: local, lambda data: data, toward)


def label_canary(local: Local, loss: Loss, data: ClientData, label: int, *, client: int = 0, sample: int = 0) -> Canary:
    """As `sample_canary`, but only the label of the sample is replaced.

    Args:
      local: as in `sample_canary`.
      loss: as in `sample_canary`.
      data: of all clients; examples are pairs (x, y).
      label: replaces the label of the sample.
      client: the client whose sample it is.
      sample: the number of this sample.

    Raises:
      ValueError: there is no such sample, or its label is `label`.
    """
    check_sample(data, client, sample)
    x, y = (jnp.asarray(rows) for rows in data.examples)
    if label == int(y[client, sample]):
        raise ValueError(f"label must not be that of sample {sample} of client {client}, got {label}")
    example = x[client, sample], jnp.asarray(label, y.dtype)
    return sample_canary(local, loss, data, example, client=client, sample=sample)


def sample_gradient(loss: Loss, local: Local | None = None) -> Callable[[PyTree, PyTree], Float[Array, " d"]]:
    """`(params, example [...]) -> gradient [d]` of one sample, clipped as `local` clips it; not clipped if None."""
    clip = None if local is None or local.steps is None else local.steps.clip

    @jax.jit
    def gradient(params: PyTree, example: PyTree) -> Array:
        alone = jax.tree.map(lambda a: jnp.asarray(a)[None], example)
        flat = ravel_pytree(jax.grad(lambda params: loss(params, alone)[0])(params))[0]
        return flat if clip is None else flat * jnp.minimum(1.0, clip / jnp.maximum(jnp.linalg.norm(flat), 1e-30))

    return gradient


def check_sample(data: ClientData, client: int, sample: int) -> None:
    """Raises ValueError unless the client has this sample."""
    _validate.integer(at_least=0, client=client, sample=sample)
    if client >= data.count.size or sample >= int(data.count[client]):
        raise ValueError(f"data must have sample {sample} of client {client}")
