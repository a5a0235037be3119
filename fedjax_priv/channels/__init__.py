"""What happens to messages on their way."""

from fedjax_priv.channels.erasure import erasure

__all__ = ["erasure"]
