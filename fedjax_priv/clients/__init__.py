"""Who takes part, and how clients train."""

from fedjax_priv.clients.draw import bernoulli, everyone, sample
from fedjax_priv.clients.local import fedsgd, local_sgd

__all__ = ["bernoulli", "everyone", "fedsgd", "local_sgd", "sample"]
