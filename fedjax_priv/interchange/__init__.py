"""Model parameters in and out: NumPy arrays by name, and state dicts of PyTorch, which is not needed for them."""

from fedjax_priv.interchange.numpy_arrays import from_numpy, to_numpy
from fedjax_priv.interchange.pytorch_state_dict import from_state_dict, to_state_dict

__all__ = ["from_numpy", "from_state_dict", "to_numpy", "to_state_dict"]
