"""The layers of a protocol: the client half above, the server half below."""

from fedjax_priv.layers.combine import field_sum, fixed_point_sum, float_sum
from fedjax_priv.layers.mask import pairwise_masks
from fedjax_priv.layers.plain import plain, plain_field
from fedjax_priv.layers.quantize import quantize
from fedjax_priv.layers.scale import scale, weighted_mean
from fedjax_priv.layers.stack import stack, stateless

__all__ = [
    "field_sum",
    "fixed_point_sum",
    "float_sum",
    "pairwise_masks",
    "plain",
    "plain_field",
    "quantize",
    "scale",
    "stack",
    "stateless",
    "weighted_mean",
]
