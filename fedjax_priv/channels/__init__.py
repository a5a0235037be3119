"""What happens to messages on their way."""

from fedjax_priv.channels.erasure_channel import erasure
from fedjax_priv.channels.fading import Fading, constant, rayleigh, recorded, rician
from fedjax_priv.channels.multiple_access_channel import multiple_access, orthogonal

__all__ = ["Fading", "constant", "erasure", "multiple_access", "orthogonal", "rayleigh", "recorded", "rician"]
