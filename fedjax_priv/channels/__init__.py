"""What happens to messages on their way."""

from fedjax_priv.channels.analog_channels import multiple_access, orthogonal
from fedjax_priv.channels.erasure_channel import erasure
from fedjax_priv.channels.fading import Fading, constant, rayleigh, recorded, rician

__all__ = ["Fading", "constant", "erasure", "multiple_access", "orthogonal", "rayleigh", "recorded", "rician"]
