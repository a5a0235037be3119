"""A round whose clients come by chance, as an adversary knows it that does not see who takes part."""

import numpy as np

from fedjax_priv.systems.releases import CentralNoise
from fedjax_priv.theory.sampled_gaussian import Round

_COINS = ("poisson", "cyclic_poisson")


def round_of(release: CentralNoise) -> Round:
    """The round that `theory.sampled_gaussian` counts; of the client's group, where groups take turns."""
    how, z = release.participation, float(release.noise_multiplier)
    if how.sampling == "fixed_size":
        return Round(z, how.rate, "fixed size")
    if how.sampling not in _COINS:
        return Round(z)
    group = release.population // how.separation
    if release.masks is None:
        return Round(z, how.rate, "poisson", how.capacity, group)
    stays = float(np.asarray(release.stays))
    return Round(z, how.rate, "poisson", how.capacity, group, release.masks.quorum.threshold, stays)


def hidden_by_coins(release: CentralNoise) -> bool:
    """Whether coins hide who takes part. In a graph of few neighbours not only the number of clients opens a sum."""
    masks = release.masks
    return release.participation.sampling not in _COINS or masks is None or masks.quorum.complete
