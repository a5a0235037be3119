"""Noise that the server adds to the sums of a run, round by round: independent, or correlated over rounds.

- `process`: the type, and independent noise.
"""

from typing import TYPE_CHECKING

from fedjax_priv._lazy import lazy_names

if TYPE_CHECKING:
    from fedjax_priv.server_noise.process import ServerNoise, independent
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["ServerNoise", "independent"]
