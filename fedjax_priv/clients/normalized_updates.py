"""Updates divided by the weight of their local steps, for normalized averaging.

Source: Wang, Liu, Liang, Joshi and Poor 2020, "Tackling the objective inconsistency problem in heterogeneous federated
optimization" (FedNova, NeurIPS; arXiv 2007.07481), eqs. 4 to 8 and section 4.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float32, Int, PyTree

from fedjax_priv import _validate
from fedjax_priv.base import ClientData, Cohort, Key, Local, Stated
from fedjax_priv.clients.local_steps import LocalSteps
from fedjax_priv.clients.minibatches import per_epoch

_TERMS = 10  # of the series of `effective_steps`: the next is below 1 / 12!


def normalized(local: Local) -> Local:
    """Training whose update is `Delta_i / ||a_i||_1`, followed by `||a_i||_1`: `[b, d + 1]`.

    Delta_i is the update of `local`, and `a_i` has the weight of each step's gradient in Delta_i. Without momentum
    `||a_i||_1` is the number of steps tau_i. With momentum rho from zero it is
    `sum_{s=1}^{tau_i} (1 - rho^s) / (1 - rho)`. A client without samples has a row of zeros.

    Args:
      local: `local_sgd` or `fedsgd`, with a constant step size, which keeps nothing from round to round. Not `bounded`:
        a clipped update is no sum of gradients with the weights `a_i`.

    Raises:
      ValueError: `local` states nothing about its steps, has a proximal term, a schedule or a carried velocity, or
        changes its updates after the steps, as `bounded` does.

    Examples:
      >>> local = normalized(fedsgd(lambda params, x: x @ params))
      >>> data = fedjax_priv.base.ClientData(jnp.array([[[2.0], [4.0]]]), jnp.array([2]))
      >>> key, cohort = jax.random.key(0), fedjax_priv.testing.cohort_of(1)
      >>> update, *_ = local.apply(key, (), jnp.zeros(1), data, cohort)
      >>> print(update)  # the mean gradient, and one step
      [[3. 1.]]
    """
    _validate.part(Local, "clients.local_sgd(...)", local=local)
    steps = _known_steps(local)

    def apply(key: Key, memory: PyTree, params: PyTree, data: ClientData, cohort: Cohort) -> tuple:
        update, after, loss = local.apply(key, memory, params, data, cohort)
        length = effective_steps(steps_taken(steps, data.count), steps.momentum)[:, None]
        return jnp.concatenate([update / jnp.maximum(length, 1.0), length], axis=1), after, loss

    return local._replace(apply=Stated(apply, in_place=local.in_place))


def steps_taken(steps: LocalSteps, count: Int[Array, " b"]) -> Float32[Array, " b"]:
    """tau_i, the local steps of clients with these numbers of samples; 0 without samples."""
    if steps.num_epochs is None:
        return jnp.where(count > 0, float(steps.num_steps or 0), 0.0)
    assert steps.batch_size is not None
    return (steps.num_epochs * per_epoch(count, steps.batch_size)).astype(jnp.float32)


def effective_steps(taken: Float32[Array, " b"], momentum: ArrayLike) -> Float32[Array, " b"]:
    """`||a_i||_1 = ((1 - x)^n - 1 + n x) / x^2`, n = tau + 1, for momentum 1 - x in [0, 1) that starts from zero.

    If n x is small, this difference would lose all digits: the series `sum_{j >= 2} C(n, j) (-x)^(j - 2)` replaces it.
    """
    rho = jnp.asarray(momentum, jnp.float32)
    n, x = taken + 1, 1 - rho
    rest = jnp.ones_like(n * x)
    for j in range(_TERMS, 1, -1):
        rest = 1 - x * (n - j) / (j + 1) * rest
    return jnp.where(n * x < 1, n * taken / 2 * rest, (rho**n - 1 + n * x) / jnp.square(x))


def _known_steps(local: Local) -> LocalSteps:
    steps = local.steps
    if not isinstance(steps, LocalSteps):
        raise ValueError("local must be clients.local_sgd(...) or fedsgd(...), which state their steps, got another")
    if steps.form == "remembering":
        raise ValueError(
            "local must have a constant learning_rate, proximal 0 and carry_momentum False, got training with state"
        )
    if steps.form not in ("plain", "momentum from zero"):
        raise ValueError(
            "local must be clients.local_sgd(...) or fedsgd(...) themselves, whose updates are sums of gradients, got "
            "training that changes its updates, such as bounded(...)"
        )
    return steps
