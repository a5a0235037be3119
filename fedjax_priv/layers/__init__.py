"""The layers of a protocol: the client half above, the server half below."""

from fedjax_priv.layers.combine import field_sum, fixed_point_sum, float_sum
from fedjax_priv.layers.common import common_coordinates
from fedjax_priv.layers.conspar import conspar
from fedjax_priv.layers.mask import pairwise_masks
from fedjax_priv.layers.plain import plain, plain_field
from fedjax_priv.layers.quantize import quantize
from fedjax_priv.layers.scale import average, public_weighted_mean, scale, weighted_mean
from fedjax_priv.layers.sparse_mask import sparse_masks
from fedjax_priv.layers.sparsify import plain_sparse, rand_k, top_k
from fedjax_priv.layers.stack import stack, stateless

__all__ = [
    "average",
    "common_coordinates",
    "conspar",
    "field_sum",
    "fixed_point_sum",
    "float_sum",
    "pairwise_masks",
    "plain",
    "plain_field",
    "plain_sparse",
    "public_weighted_mean",
    "quantize",
    "rand_k",
    "scale",
    "sparse_masks",
    "stack",
    "stateless",
    "top_k",
    "weighted_mean",
]
