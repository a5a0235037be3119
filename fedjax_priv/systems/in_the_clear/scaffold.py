"""SCAFFOLD (Karimireddy et al. 2020): control variates, so that clients with other data do not drift apart."""

import jax.numpy as jnp
from jaxtyping import Array, Float32

from fedjax_priv import _validate
from fedjax_priv.base import Aggregator, Algorithm, Key, Local, Received
from fedjax_priv.channels import erasure
from fedjax_priv.clients import controlled
from fedjax_priv.clients.control_variates import CONTROL
from fedjax_priv.engine.round import federated_round
from fedjax_priv.systems._arguments import (
    MASKS,
    Masked,
    clients_in_round,
    everyone_or,
    loss_rate,
    nobody_asked,
    only_default,
    secure_cohort,
)
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems._shared_layers import one_sum
from fedjax_priv.systems.releases import Sum

EQUAL_STEPS = "if all clients take equally many local steps, see systems.scaffold"
"""Under which the sum of the changes of c_i follows from the sum of the updates."""


@of_known_arguments
def scaffold(
    local: Local,
    *,
    num_clients: int,
    cohort_size: int | None = None,
    dropout: float | Array = 0.0,
    leave: float | Array = 0.0,
    exact: bool = True,
    secure: bool = False,
    levels: float | Array = 2.0**20,
    **how: Masked,
) -> Algorithm:
    """`w <- w - eta_g mean_{i in S} (w - w_i)` and `c <- c + sum_{i in S} (c_i' - c_i) / N`, S the clients that arrive.

    A client adds `c - c_i` to each local step: it subtracts the mean step of its last accepted round, c_i, and adds
    that of all clients, c. In FedAvg many local steps on unlike data lead away from the minimum of the mean of the
    clients' losses. Here they do not; with momentum they still do a little. All clients have the same weight, however
    many samples they have (Algorithm 1). A client whose upload is lost keeps c_i, so c stays the mean of all c_i. In a
    round a client receives 2 d numbers and sends 2 d.

    No noise is added, and c_i has no bound, so there is no privacy guarantee, unless local steps add noise.

    With `secure` the server learns two sums. If all clients take equally many local steps, as with `num_steps` of
    `local_sgd`, the second follows from the first. Otherwise it can combine them so that all clients with one number of
    steps, of its choice, cancel. So a client that takes another number than all others is read alone.

    Args:
      local: `local_sgd` or `fedsgd`.
      num_clients: clients in the data, N.
      cohort_size: clients drawn each round; everyone if not given.
      dropout: probability that a client's update is lost.
      leave: with `secure`, probability that a survivor is gone when the server asks for shares.
      exact: in the clear, sum in fixed point, with the same bits for every block and number of devices; otherwise in
        float.
      secure: sum both vectors under pairwise masks, rounded to a grid.
      levels: with `secure`, grid points per unit.
      **how: with `secure`, `neighbours`, `threshold`, `elide`, `consistency`, `key_agreement` and `prg` of
        `layers.mask.secagg_protocol`; `server`, whose step size is eta_g, `block`, `mesh`, `observe` and `lying_server`
        of `federated_round`.

    Raises:
      ValueError: an argument outside its range, options of masks, `leave` or `levels` without `secure`, or a `local`
        that `clients.controlled` refuses.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_epochs=5)
      >>> system = scaffold(local, num_clients=20, cohort_size=10)
    """
    _validate.one_of((True, False), secure=secure)
    size = (secure_cohort if secure else clients_in_round)(num_clients, cohort_size)
    masks, run = MASKS.split(how)
    _validate.positive(levels=levels)
    if not secure:
        nobody_asked(leave, "secure=False")
        only_default(scaffold, "secure", levels=levels)
    layers = one_sum(size, levels, masks, secure=secure, exact=exact)
    return federated_round(
        cohort=everyone_or(cohort_size),
        local=controlled(local),
        layers=layers,
        channel=erasure(loss_rate(dropout), leave=leave),
        aggregate=_mean_and_control(num_clients),
        num_clients=num_clients,
        release=Sum(masks=layers.sums.protocol, condition=EQUAL_STEPS) if secure else None,
        **run,
    )


def _mean_and_control(num_clients: int) -> Aggregator:
    """The mean of the first d coordinates of the sums `[g, 2 d]`; the others move c `[d]`, which clients are told."""

    def apply(key: Key, control: Float32[Array, " d"], received: Received) -> tuple[Array, Array]:
        del key
        total = jnp.where(received.count[:, None] > 0, received.value, 0.0).sum(0)
        d, number = control.size, jnp.maximum(received.count.sum(), 1).astype(jnp.float32)
        return total[:d] / number, control + total[d:] / num_clients

    return Aggregator(jnp.zeros, apply, lambda num_rows: 0, tells=lambda control: {CONTROL: control})
