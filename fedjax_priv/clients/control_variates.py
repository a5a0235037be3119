"""Local training with control variates: SCAFFOLD's clients, whose steps follow the mean direction of all clients.

Source: Karimireddy, Kale, Mohri, Reddi, Stich and Suresh 2020, "SCAFFOLD: stochastic controlled averaging for federated
learning" (ICML; arXiv 1910.06378), Algorithm 1 with option II.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float32, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData, Cohort, Key, Local, Stated, Told
from fedjax_priv.clients.local_steps import of_changed_training
from fedjax_priv.engine.client_rows import rows_where
from fedjax_priv.engine.products import rounded_product

CONTROL = "control"
"""The name under which clients are told c, the server's control variate."""


class Controlled(NamedTuple):
    """Client state of training with control variates."""

    memory: PyTree  # of the training itself, [n, ...]
    control: Float32[Array, "n d"]  # c_i, from 0


def controlled(local: Local) -> Local:
    """Training whose steps add `c - c_i`, so that clients with different data move alike; updates are `[b, 2 d]`.

    x is the model, y_i the parameters after training, and `K eta` the sum of a client's K step sizes. Each step follows
    the gradient plus `c - c_i`. Then c_i becomes `c_i - c + (x - y_i) / (K eta)`, and the upload is `x - y_i` followed
    by the change of c_i. The server tells clients c, "control" in `base.Told`. A client that takes no step sends zeros.

    With momentum, `c - c_i` is added to the velocity and not to the gradient, so that c_i is the mean velocity.
    Otherwise dividing by `K eta` would count the correction up to `1 / (1 - momentum)` times, and c_i might grow
    without bound.

    Args:
      local: `local_sgd` or `fedsgd`.

    Raises:
      ValueError: `local` cannot add a vector to its steps, for instance if its updates are clipped or normalized.

    Examples:
      >>> local = controlled(fedsgd(lambda params, x: x @ params))
      >>> data = fedjax_priv.base.ClientData(jnp.array([[[2.0], [4.0]]]), jnp.array([2]))
      >>> told = fedjax_priv.base.Told(jnp.zeros(1), {"control": jnp.ones(1)})
      >>> start, cohort = local.init(1, told.params), fedjax_priv.testing.cohort_of(1)
      >>> update, after, _ = local.apply(jax.random.key(0), start, told, data, cohort)
      >>> print(update, after.control)  # the mean gradient 3 plus c, and what c_i has become
      [[4. 3.]] [[3.]]
    """
    _validate.part(Local, "clients.local_sgd(...)", local=local)
    corrected = local.corrected
    if corrected is None:
        raise ValueError("local must be clients.local_sgd(...) or fedsgd(...), whose steps take a vector, got another")

    def init(n: int, params: PyTree) -> Controlled:
        return Controlled(local.init(n, params), jnp.zeros((n, ravel_pytree(params)[0].size)))

    def apply(key: Key, memory: Controlled, told: Told, data: ClientData, cohort: Cohort) -> tuple:
        before, own = memory
        control = told.numbers[CONTROL][None, :]
        update, after, loss, length = corrected(key, before, told.params, data, cohort, control - own)
        # a compiler may multiply by 1 / length, and round once with the difference
        mean_step = rounded_product(update / jnp.where(length > 0, length, 1.0)[:, None], key)
        change = rows_where(length > 0, mean_step - control, jnp.zeros(()))
        return jnp.concatenate([update, change], axis=1), Controlled(after, own + change), loss

    about = of_changed_training(local.steps, "remembering")
    return Local(init, Stated(apply, about, in_place=local.in_place))


def corrected_step(apply: Callable[..., tuple]) -> Callable[..., tuple]:
    """`Local.corrected` for training that takes one step of size 1, so that its update is the gradient.

    A client without samples takes no step.
    """

    def corrected(
        key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort, added: Float32[Array, "b d"]
    ) -> tuple:
        update, after, loss = apply(key, memory, params, data, cohort)
        steps = data.count > 0
        return rows_where(steps, update + added, update), after, loss, steps.astype(jnp.float32)

    return corrected
