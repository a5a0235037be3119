"""Who takes part, and how clients train."""

from fedjax_priv.clients.local_training import fedsgd, local_sgd
from fedjax_priv.clients.participation import (
    bernoulli,
    channel_aware,
    everyone,
    independent,
    only_if,
    sample,
    scheduled,
)

__all__ = [
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
