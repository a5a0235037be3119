"""The local steps that a theorem can be about."""

from typing import NamedTuple

from jaxtyping import Array


class NoisySteps(NamedTuple):
    """Steps `w <- w - eta (mean of clipped sample gradients + noise)`, and by name whatever they do beyond that.

    A theorem covers the steps only if it covers every name in `beyond`.
    """

    clip: float | Array | None  # G, largest norm of a sample's gradient; None: not clipped
    sigma: float | Array  # standard deviation of the noise on a coordinate of the mean gradient; 0: no noise
    batch_size: int  # gamma, which a batch's sum of gradients is divided by
    num_steps: int | None  # tau, of every client in a round; None: `num_epochs` passes
    num_epochs: int | None
    beyond: frozenset[str] = frozenset()  # "momentum", "carried velocity", "schedule"
    num_devices: int | None = None  # n of DP-SGD's printed figure; `systems.dp_sgd` fills it in
