"""Who takes part, and how clients train."""

from fedjax_priv.clients.draw import bernoulli, channel_aware, everyone, independent, only_if, sample, scheduled
from fedjax_priv.clients.local import fedsgd, local_sgd
from fedjax_priv.clients.noisy_steps import NoisySteps

__all__ = [
    "NoisySteps",
    "bernoulli",
    "channel_aware",
    "everyone",
    "fedsgd",
    "independent",
    "local_sgd",
    "only_if",
    "sample",
    "scheduled",
]
