"""Noise that the server adds to the sums of a run, round by round: independent, or correlated over rounds.

Row t is `(C^-1 z)_t` with standard normal z, computed inside the round. C may be banded, have a banded inverse, be a
sum of exponentials, or stand for a tree over rounds. `theory.correlated_noise` has good matrices, and what they cost.

- `process`: the type, and independent noise. `streams`: counter and key of correlated noise.
- `banded_noise`, `buffered_noise`, `tree_noise`: the processes. `correlations`: what each states of C, for proofs.
- `sum_with_noise`: the aggregator that adds noise to a sum. `adaptive_sum`: the one whose clipping norm adapts.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.server_noise.adaptive_sum import Clipping, adaptive_noisy_sum
    from fedjax_priv.server_noise.banded_noise import banded, banded_inverse
    from fedjax_priv.server_noise.buffered_noise import buffered
    from fedjax_priv.server_noise.process import ServerNoise, independent
    from fedjax_priv.server_noise.sum_with_noise import noisy_sum
    from fedjax_priv.server_noise.tree_noise import tree
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Clipping", "ServerNoise", "adaptive_noisy_sum", "banded", "banded_inverse", "buffered", "independent", "noisy_sum",
    "tree",
]  # fmt: skip
