"""DP-SGD, the baseline of CDP-FL: one noisy step of clipped samples a round, summed as in CDP-FL."""

from typing import Annotated, Any

from fedjax_priv import _validate
from fedjax_priv.base import Algorithm, Local, Stated
from fedjax_priv.systems._arguments import ROUND, HandsOn
from fedjax_priv.systems._known_arguments import of_known_arguments
from fedjax_priv.systems.noisy_steps.cdp_fl import cdp_fl

CDP_FL = HandsOn(
    cdp_fl,
    ("cohort_size", "cohort", "dropout", "leave", "levels", "secure_sum", "threshold", "elide", "key_agreement", "prg"),
)  # fmt: skip


@of_known_arguments
def dp_sgd(local: Local, *, num_clients: int, **how: Annotated[Any, CDP_FL, ROUND]) -> Algorithm:
    """`theta <- theta - eta (1/r) sum of (clipped batch gradient + noise)`: `cdp_fl` with one local step.

    Args:
      local: `clients.local_sgd(..., num_steps=1, sample_clip=G, gradient_noise=sigma)`, at the learning rate eta.
      num_clients: devices in the data, n.
      **how: other arguments of `cdp_fl`.

    Raises:
      ValueError: local training of more than one step, or as `cdp_fl`.

    Examples:
      >>> loss = fedjax_priv.losses.softmax_cross_entropy(fedjax_priv.models.mlp((8, 8, 1), 10))
      >>> private = dict(sample_clip=1.0, gradient_noise=0.1)
      >>> local = fedjax_priv.clients.local_sgd(loss, learning_rate=0.1, batch_size=10, num_steps=1, **private)
      >>> system = dp_sgd(local, num_clients=20, cohort_size=10)
    """
    _validate.part(Local, "clients.local_sgd(loss, ...)", local=local)
    if (steps := local.steps) is not None:
        if steps.num_steps != 1:
            raise ValueError(f"local must take one step a round, num_steps=1, got num_steps={steps.num_steps}")
        about = steps._replace(num_devices=num_clients)
        local = local._replace(apply=Stated(local.apply, about, in_place=local.in_place))
    return cdp_fl(local, num_clients=num_clients, **how)
